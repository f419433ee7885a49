package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"macbatch/lease"
)

var (
	// ErrNotFound is returned when a blob is not here. It is an fs.ErrNotExist.
	ErrNotFound = fmt.Errorf("no such blob: %w", fs.ErrNotExist)

	// ErrMismatch is returned when bytes don't have the digest they should have,
	// or are fewer than they should be.
	ErrMismatch = fmt.Errorf("bytes don't match: %w", lease.ErrDigest)

	// ErrTooLarge is returned by Put when there are more bytes than announced.
	ErrTooLarge = fmt.Errorf("more bytes than announced: %w", lease.ErrDigest)
)

// Store is a folder of blobs. It holds no descriptors and needs no closing; its
// methods may be called from several goroutines.
type Store struct {
	dir  string
	disk disk

	mu      sync.Mutex
	renames [256]uint64 // into each folder, by this process
	synced  [256]uint64 // 1 + how many of them were synced; 0 before the first
}

// Open makes the folders of a store at dir where they are missing.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open blobs %q: %w", dir, err)
	}
	s := &Store{dir: dir}
	if err := s.disk.makeFolders(dir, "tmp", "damaged"); err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	return s, nil
}

// At returns the store at dir for reading alone: nothing is made, not even where
// there is none.
func At(dir string) *Store { return &Store{dir: dir} }

func (s *Store) folder(digest lease.Digest) string {
	return filepath.Join(s.dir, hex.EncodeToString(digest[:1]))
}

func (s *Store) path(digest lease.Digest) string {
	return filepath.Join(s.folder(digest), hex.EncodeToString(digest[:]))
}

// Put receives the size bytes of r and returns once they are durable. When the
// blob is here already it reads nothing, marks it as received now and returns.
// Several may put one digest at the same time. r is read to at most one byte
// past size; what ends ctx should make r fail too.
//
// Errors: ErrMismatch, ErrTooLarge, lease.ErrFull, ctx's cause, or that of r or the disk; then
// nothing is kept.
func (s *Store) Put(ctx context.Context, digest lease.Digest, size int64, r io.Reader) error {
	err := s.put(ctx, digest, size, r)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		err = fmt.Errorf("%w: %w", lease.ErrFull, err)
	}
	if err != nil {
		return fmt.Errorf("put blob %v: %w", digest, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, digest lease.Digest, size int64, r io.Reader) error {
	if n, err := s.size(digest); err == nil && n == size {
		// Whoever removes old blobs goes by this time, and must see that this one
		// is wanted again. It may be gone at this very moment: then it is received.
		now := time.Now()
		err := os.Chtimes(s.path(digest), now, now)
		if !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, s.settle(digest))
		}
	} else if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	f, err := s.disk.create(filepath.Join(s.dir, "tmp"))
	if err != nil {
		return err
	}
	err = s.receive(ctx, f, digest, size, r)
	if err == nil {
		err = s.disk.mkdir(s.folder(digest))
	}
	if err == nil {
		err = s.publish(f.Name(), digest)
	}
	if err != nil {
		return errors.Join(err, s.disk.remove(f.Name()))
	}
	return s.settle(digest)
}

// publish gives a file its final name. The count goes up in the same breath, so
// that whoever sees the name also sees that it is not synced.
func (s *Store) publish(file string, digest lease.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.disk.rename(file, s.path(digest)); err != nil {
		return err
	}
	s.renames[digest[0]]++
	return nil
}

// settle returns once the name of a blob that is here is durable too: its file
// may have been renamed by a Put that is not through, or by a process that died.
func (s *Store) settle(digest lease.Digest) error {
	s.mu.Lock()
	renames, synced := s.renames[digest[0]], s.synced[digest[0]]
	s.mu.Unlock()
	if synced > renames {
		return nil
	}
	if synced == 0 { // the folder itself may be as new
		if err := s.disk.syncFolder(s.dir); err != nil {
			return err
		}
	}
	if err := s.disk.syncFolder(s.folder(digest)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced[digest[0]] = max(s.synced[digest[0]], renames+1)
	return nil
}

// receive fills f, checks what came, makes it durable and closes f in any case.
func (s *Store) receive(ctx context.Context, f *os.File, digest lease.Digest, size int64, r io.Reader) error {
	h := sha256.New()
	n, err := io.Copy(receiver{ctx, s.disk, f, h}, io.LimitReader(r, size))
	if err == nil {
		err = checkEnd(r, n, size)
	}
	if err == nil && lease.Digest(h.Sum(nil)) != digest {
		err = fmt.Errorf("%w: they have %x", ErrMismatch, h.Sum(nil))
	}
	if err == nil {
		err = s.disk.sync(f)
	}
	return errors.Join(err, f.Close())
}

// checkEnd tells whether r ends after n bytes, and those are as many as announced.
func checkEnd(r io.Reader, n, size int64) error {
	if n != size { // size may be negative, too
		return fmt.Errorf("%w: %d of %d bytes came", ErrMismatch, n, size)
	}
	var more [1]byte
	switch n, err := io.ReadFull(r, more[:]); {
	case n > 0:
		return fmt.Errorf("%w: %d", ErrTooLarge, size)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// receiver writes to a file and a hash until ctx ends.
type receiver struct {
	ctx  context.Context
	disk disk
	f    *os.File
	h    hash.Hash
}

func (w receiver) Write(p []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	if err := w.disk.step("write", w.f.Name()); err != nil {
		n, _ := w.f.Write(p[:len(p)/2]) // as a full disk does
		return n, err
	}
	w.h.Write(p)
	return w.f.Write(p)
}

// Open opens a blob for reading and returns its size in bytes. The caller closes
// the file.
func (s *Store) Open(digest lease.Digest) (r io.ReadSeekCloser, size int64, err error) {
	f, err := s.open(digest)
	if err != nil {
		return nil, 0, fmt.Errorf("open blob %v: %w", digest, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("open blob %v: %w", digest, errors.Join(err, f.Close()))
	}
	return f, info.Size(), nil
}

func (s *Store) open(digest lease.Digest) (*os.File, error) {
	f, err := os.OpenFile(s.path(digest), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return f, err
}

// Has tells whether a blob is here. Its bytes are not looked at: Check does.
func (s *Store) Has(digest lease.Digest) (bool, error) {
	_, err := s.size(digest)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for blob %v: %w", digest, err)
	}
	return true, nil
}

func (s *Store) size(digest lease.Digest) (int64, error) {
	info, err := os.Lstat(s.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%q is not a regular file", s.path(digest))
	}
	return info.Size(), nil
}

// Remove deletes a blob. One that is gone already is no error. It is not synced:
// a blob that a power loss brings back is unreferenced still.
func (s *Store) Remove(digest lease.Digest) error {
	if err := s.disk.remove(s.path(digest)); err != nil {
		return fmt.Errorf("remove blob: %w", err)
	}
	return nil
}

// List calls fn for each blob, in the order of digests, until fn returns false:
// its size in bytes and when it was received. Blobs that come or go meanwhile
// may be passed over.
func (s *Store) List(fn func(digest lease.Digest, size int64, received time.Time) bool) error {
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		files, err := os.ReadDir(filepath.Join(s.dir, folder.Name()))
		if err != nil {
			return fmt.Errorf("list blobs: %w", err)
		}
		for _, file := range files {
			digest, ok := parse(file.Name())
			if !ok || file.Name()[:2] != folder.Name() || !file.Type().IsRegular() {
				continue
			}
			info, err := file.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("list blobs: %w", err)
			}
			if !fn(digest, info.Size(), info.ModTime()) {
				return nil
			}
		}
	}
	return nil
}

// parse reads a file name; only the spelling that Put writes is a blob's.
func parse(name string) (digest lease.Digest, ok bool) {
	b, err := hex.DecodeString(name)
	if err != nil || len(b) != len(digest) || hex.EncodeToString(b) != name {
		return digest, false
	}
	return lease.Digest(b), true
}

// Check reads a blob again. One whose bytes no longer have its digest is moved to
// damaged/, never deleted, and ErrMismatch returned: from then on it is not here,
// and may be put anew.
func (s *Store) Check(ctx context.Context, digest lease.Digest) error {
	if err := s.check(ctx, digest); err != nil {
		return fmt.Errorf("check blob %v: %w", digest, err)
	}
	return nil
}

func (s *Store) check(ctx context.Context, digest lease.Digest) error {
	f, err := s.open(digest)
	if err != nil {
		return err
	}
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := context.Cause(ctx); err != nil {
			return errors.Join(err, f.Close())
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil { // the disk's word, not the blob's: it may be readable again
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if lease.Digest(h.Sum(nil)) == digest {
		return nil
	}
	mismatch := fmt.Errorf("%w: they have %x", ErrMismatch, h.Sum(nil))
	return errors.Join(mismatch, s.quarantine(digest))
}

// quarantine moves a blob to damaged/, beside any that went there before.
func (s *Store) quarantine(digest lease.Digest) error {
	f, err := s.disk.create(filepath.Join(s.dir, "damaged"))
	if err != nil {
		return err
	}
	to := filepath.Join(s.dir, "damaged", hex.EncodeToString(digest[:])+"."+filepath.Base(f.Name()))
	if err := errors.Join(f.Close(), s.disk.rename(s.path(digest), to), s.disk.remove(f.Name())); err != nil {
		return err
	}
	return errors.Join(s.disk.syncFolder(filepath.Join(s.dir, "damaged")), s.disk.syncFolder(s.folder(digest)))
}

// Clean removes what interrupted Puts left in tmp/. The process that puts calls
// it once, at its start, before its first Put.
func (s *Store) Clean() error {
	tmp := filepath.Join(s.dir, "tmp")
	files, err := os.ReadDir(tmp)
	if err != nil {
		return fmt.Errorf("clean blobs: %w", err)
	}
	for _, f := range files {
		if err := s.disk.remove(filepath.Join(tmp, f.Name())); err != nil {
			return fmt.Errorf("clean blobs: %w", err)
		}
	}
	return nil
}
