package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"macbatch/lease"
)

// maxTorn is how often a blob may arrive damaged before the attempt fails.
const maxTorn = 3

// maxBlob bounds a blob that is fetched: the sound of the longest chunk, and more.
const maxBlob = 1 << 30

// fetch brings a blob into the task's folder. It outlasts outages of the control
// plane: an attempt is not spent on them.
func (a *Agent) fetch(ctx context.Context, t *task, d lease.Digest) (string, error) {
	path := filepath.Join(t.dir, "blob-"+d.String())
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	torn := 0
	for tries := 0; ; tries++ {
		err := a.download(ctx, t, d, path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, lease.ErrDigest) {
			torn++
		}
		var local *fs.PathError
		if refused(err) || fatal(err) || errors.As(err, &local) || torn == maxTorn {
			return "", fmt.Errorf("fetch blob %v: %w", d, err)
		}
		if err := a.pause(ctx, tries); err != nil {
			return "", fmt.Errorf("fetch blob %v: %w", d, err)
		}
	}
}

func (a *Agent) download(ctx context.Context, t *task, d lease.Digest, path string) (err error) {
	r, size, err := a.cfg.Control.Blob(ctx, t.grant.Shard, d)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read
	if size < 0 || size > maxBlob {
		return fmt.Errorf("%d bytes: %w", size, lease.ErrTooLarge)
	}
	if free, err := a.cfg.Free(t.dir); err == nil && free < a.cfg.MinFree+uint64(size) {
		return &fs.PathError{Op: "fetch", Path: t.dir, Err: syscall.ENOSPC} // the floor holds for what is fetched, too
	}
	f, err := os.CreateTemp(t.dir, "fetch-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, size+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n != size || lease.Digest(h.Sum(nil)) != d {
		return fmt.Errorf("%d of %d bytes: %w", n, size, lease.ErrDigest)
	}
	return os.Rename(f.Name(), path)
}

// need returns the bytes of a result the shard waited for.
func (a *Agent) need(ctx context.Context, t *task, i int) ([]byte, error) {
	if i < 0 || i >= len(t.grant.Needs) {
		return nil, fmt.Errorf("need %d of %d: %w", i, len(t.grant.Needs), lease.ErrInvalid)
	}
	n := t.grant.Needs[i]
	b := []byte(n.Inline)
	if n.Inline == nil {
		path, err := a.fetch(ctx, t, n.Digest)
		if err != nil {
			return nil, err
		}
		if b, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read need %d: %w", i, err)
		}
	}
	if lease.DigestOf(b) != n.Digest {
		return nil, fmt.Errorf("need %d: %w", i, lease.ErrDigest)
	}
	return b, nil
}

func hashFiles(files []string) ([]lease.Digest, error) {
	var digests []lease.Digest
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		digests = append(digests, lease.Digest(h.Sum(nil)))
	}
	return digests, nil
}

// refused reports whether err is a definite no to this very request: the same
// again gets the same answer.
func refused(err error) bool {
	for _, e := range []error{lease.ErrNotFound, lease.ErrMalformed, lease.ErrInvalid, lease.ErrTooLarge, lease.ErrNotAllowed, lease.ErrKeyReused} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fatal reports whether err means that this worker is not welcome at all.
func fatal(err error) bool {
	return errors.Is(err, lease.ErrTwin) || errors.Is(err, lease.ErrUnauthorized) || errors.Is(err, lease.ErrForbidden)
}
