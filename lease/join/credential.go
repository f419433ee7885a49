package join

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Credential is what a machine has after it joined.
type Credential struct {
	URLs     []string        `json:"urls"` // the one that answered first
	Pin      string          `json:"pin,omitempty"`
	Actor    lease.ActorID   `json:"actor"`
	Role     lease.Role      `json:"role"`
	Projects []lease.Project `json:"projects,omitempty"`
	Token    string          `json:"token"`
}

// maxCredential bounds a credential's file, in bytes.
const maxCredential = 64 << 10

// ReadCredential reads a file. One that others could read is refused, wrapping
// lease.ErrForbidden; fs.ErrNotExist when there is none.
func ReadCredential(path string) (c Credential, err error) {
	b, err := ReadSecret(path)
	if err != nil {
		return c, err
	}
	if err := wire.Unmarshal(b, &c); err != nil {
		return Credential{}, fmt.Errorf("credential %q: %w", path, err)
	}
	if err := checkReach(c.URLs, c.Pin); err != nil {
		return Credential{}, fmt.Errorf("credential %q: %w", path, err)
	}
	if c.Token == "" || c.Actor == "" {
		return Credential{}, fmt.Errorf("credential %q: without a token: %w", path, lease.ErrMalformed)
	}
	return c, nil
}

// ReadSecret reads a small file that only its owner can read: another one is
// refused, wrapping lease.ErrForbidden.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", path, errors.Unwrap(err))
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("file %q: %w", path, err)
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("file %q is no file: %w", path, fs.ErrInvalid)
	case fi.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("file %q can be read by others (mode %04o): %w", path, fi.Mode().Perm(), lease.ErrForbidden)
	case fi.Size() > maxCredential:
		return nil, fmt.Errorf("file %q is of %d bytes: %w", path, fi.Size(), lease.ErrTooLarge)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxCredential))
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", path, err)
	}
	return b, nil
}

// Write makes, or replaces, the credential's file, and the folders above it.
func (c Credential) Write(path string) error { return write(path, c, "credential") }

// Attempt is a joining under way: its token is on disk before it is asked for, so
// that who lost the answer asks again with the same one.
type Attempt struct {
	Secret lease.Digest `json:"secret"` // of the invitation: its SHA-256
	Token  string       `json:"token"`
}

// ReadAttempt reads a file; fs.ErrNotExist when there is none.
func ReadAttempt(path string) (a Attempt, err error) {
	b, err := ReadSecret(path)
	if err == nil {
		err = wire.Unmarshal(b, &a)
	}
	return a, err
}

// Write makes, or replaces, the attempt's file, and the folders above it.
func (a Attempt) Write(path string) error { return write(path, a, "attempt to join") }

func write(path string, v any, what string) error {
	var b bytes.Buffer
	err := wire.Encode(&b, v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		b.WriteByte('\n')
		err = writeFile(path, b.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}
