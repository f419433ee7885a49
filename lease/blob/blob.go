// Package blob keeps accepted bytes in files that are named by their SHA-256.
//
// A blob lies at XX/DIGEST, XX being the first two digits of its digest. It is
// written into tmp/ first and gets its name only when its length and digest are
// as announced and its bytes are synced: a file with a final name is whole.
// damaged/ keeps what was found changed since.
package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"macbatch/lease"
)

// Store is a folder of blobs.
type Store struct{ dir string }

// Open makes the folders where they are missing.
func Open(dir string) (*Store, error) {
	for _, d := range []string{dir, filepath.Join(dir, "tmp"), filepath.Join(dir, "damaged")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open blobs: %w", err)
		}
	}
	return &Store{dir}, nil
}

func (s *Store) path(d lease.Digest) string {
	name := d.String()
	return filepath.Join(s.dir, name[:2], name)
}

// Put stores size bytes of r under their digest d. ErrDigest when they differ
// from either; then nothing is stored. What is there already is not read.
func (s *Store) Put(ctx context.Context, d lease.Digest, size int64, r io.Reader) (err error) {
	if s.Has(d) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), d.String()+"-*")
	if err != nil {
		return fmt.Errorf("put blob: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(contextReader{ctx, r}, size+1))
	if err != nil {
		return fmt.Errorf("put blob %v: %w", d, err)
	}
	if got := lease.Digest(h.Sum(nil)); n != size || got != d {
		return fmt.Errorf("put blob %v: %d bytes with digest %v, announced %d: %w", d, n, got, size, lease.ErrDigest)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("put blob %v: %w", d, err)
	}
	folder := filepath.Dir(s.path(d))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("put blob %v: %w", d, err)
	}
	if err := os.Rename(f.Name(), s.path(d)); err != nil {
		return fmt.Errorf("put blob %v: %w", d, err)
	}
	if err := errors.Join(syncDir(folder), syncDir(s.dir)); err != nil {
		return errors.Join(fmt.Errorf("put blob %v: %w", d, err), f.Close())
	}
	return f.Close()
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Open returns a blob's bytes and their number; fs.ErrNotExist when it is not there.
func (s *Store) Open(d lease.Digest) (io.ReadCloser, int64, error) {
	f, err := os.Open(s.path(d))
	if err != nil {
		return nil, 0, fmt.Errorf("open blob: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open blob: %w", err), f.Close())
	}
	return f, fi.Size(), nil
}

// Has reports whether a blob is there.
func (s *Store) Has(d lease.Digest) bool {
	fi, err := os.Lstat(s.path(d))
	return err == nil && fi.Mode().IsRegular()
}

// Remove drops a blob; one that is not there is fine.
func (s *Store) Remove(d lease.Digest) error {
	if err := os.Remove(s.path(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove blob: %w", err)
	}
	return nil
}

// List calls fn for each blob, in order of digests, until it fails.
func (s *Store) List(fn func(d lease.Digest, size int64, modified time.Time) error) error {
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	for _, folder := range folders {
		if len(folder.Name()) != 2 || !folder.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(s.dir, folder.Name()))
		if err != nil {
			return fmt.Errorf("list blobs: %w", err)
		}
		for _, e := range files {
			d, err := lease.ParseDigest(e.Name())
			if err != nil || d.String()[:2] != folder.Name() {
				continue // not one of ours
			}
			fi, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("list blobs: %w", err)
			}
			if err := fn(d, fi.Size(), fi.ModTime()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check reads a blob again. One whose bytes changed is moved to damaged/ and
// ErrDigest returned.
func (s *Store) Check(d lease.Digest) error {
	r, _, err := s.Open(d)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(h, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("check blob %v: %w", d, err)
	}
	if lease.Digest(h.Sum(nil)) == d {
		return nil
	}
	err = os.Rename(s.path(d), filepath.Join(s.dir, "damaged", d.String()))
	return errors.Join(fmt.Errorf("check blob %v: %w", d, lease.ErrDigest), err)
}

// Clean removes what a killed process left half written. Only the store's one
// owner calls it, at its start.
func (s *Store) Clean() error {
	files, err := os.ReadDir(filepath.Join(s.dir, "tmp"))
	if err != nil {
		return fmt.Errorf("clean blobs: %w", err)
	}
	for _, e := range files {
		if err := os.Remove(filepath.Join(s.dir, "tmp", e.Name())); err != nil {
			return fmt.Errorf("clean blobs: %w", err)
		}
	}
	return nil
}
