package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

var (
	// ErrDamaged is returned when an entry's bytes don't agree with themselves,
	// or a blob it refers to is missing or has another size.
	ErrDamaged = errors.New("damaged entry")

	// ErrVersion is returned when an entry is whole but of another version.
	ErrVersion = errors.New("entry of another version")

	// ErrTooLarge is returned by Add when an entry is over its bounds.
	ErrTooLarge = errors.New("entry too large")

	// ErrBusy is returned by Lock when another process delivers this spool.
	ErrBusy = errors.New("spool busy")
)

const reasonSuffix = ".reason"

// Spool is a directory queue. It holds no descriptors and needs no closing; its
// methods may be called from several goroutines and processes.
type Spool struct {
	dir  string
	disk disk
}

// Open makes the folders of a spool at dir where they are missing.
func Open(dir string) (*Spool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	s := &Spool{dir: dir}
	if err := s.disk.makeFolders(dir, "tmp", "new", "rejected", "damaged", "blobs", "bell"); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	return s, nil
}

// At returns the spool at dir for looking alone: nothing is made, not even where
// there is none. fs.ErrNotExist tells that there is none.
func At(dir string) (*Spool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("look at spool %q: %w", dir, err)
	}
	s := &Spool{dir: dir}
	if _, err := os.Stat(s.path("new")); err != nil {
		return nil, fmt.Errorf("look at spool: %w", err)
	}
	return s, nil
}

func (s *Spool) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// List returns the entries waiting, oldest first. Files that are not entries by
// their name are passed over.
func (s *Spool) List() ([]Name, error) { return s.list("new") }

// Rejected returns the entries refused, oldest first.
func (s *Spool) Rejected() ([]Name, error) { return s.list("rejected") }

// Damaged returns the entries moved aside by Read, oldest first.
func (s *Spool) Damaged() ([]Name, error) { return s.list("damaged") }

func (s *Spool) list(folder string) ([]Name, error) {
	files, err := os.ReadDir(s.path(folder))
	if err != nil {
		return nil, fmt.Errorf("list spool: %w", err)
	}
	var names []Name
	for _, f := range files { // ReadDir sorts by name, which is by time
		if n := Name(f.Name()); f.Type().IsRegular() && n.valid() {
			names = append(names, n)
		}
	}
	return names, nil
}

// Read returns a waiting entry after checking all of it, and that its blobs are
// there with their sizes (their content is checked where they are delivered).
//
// Errors: fs.ErrNotExist when it is not waiting; ErrDamaged, after moving it to
// damaged/ so that it is in nobody's way; ErrVersion, leaving it; or that of the
// disk, leaving it.
func (s *Spool) Read(n Name) (Entry, error) {
	e, err := s.read(n)
	if errors.Is(err, ErrDamaged) {
		// Removed by another process meanwhile: not damaged, just gone.
		if moved := s.disk.rename(s.path("new", string(n)), s.path("damaged", string(n))); moved != nil {
			err = moved
		} else if synced := s.syncFolders("damaged", "new"); synced != nil {
			err = errors.Join(err, synced)
		}
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read entry %q: %w", n, err)
	}
	return e, nil
}

// Peek is Read that moves nothing: a damaged entry stays where it is.
func (s *Spool) Peek(n Name) (Entry, error) {
	e, err := s.read(n)
	if err != nil {
		return Entry{}, fmt.Errorf("look at entry %q: %w", n, err)
	}
	return e, nil
}

func (s *Spool) read(n Name) (Entry, error) {
	f, err := s.open(n)
	if err != nil {
		return Entry{}, err
	}
	defer func() { _ = f.Close() }() // only read
	file, err := io.ReadAll(io.LimitReader(f, maxHead+MaxBody+1))
	if err != nil {
		return Entry{}, err
	}
	if len(file) > maxHead+MaxBody {
		return Entry{}, fmt.Errorf("%w: over %d bytes", ErrDamaged, maxHead+MaxBody)
	}
	e, err := decode(file)
	if err != nil {
		return Entry{}, err
	}
	for _, b := range e.Blobs {
		info, err := os.Lstat(s.path("blobs", b.Digest))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Entry{}, fmt.Errorf("%w: blob %s is missing", ErrDamaged, b.Digest)
		case err != nil:
			return Entry{}, err
		case info.Size() != b.Size || !info.Mode().IsRegular():
			return Entry{}, fmt.Errorf("%w: blob %s has %d bytes, not %d", ErrDamaged, b.Digest, info.Size(), b.Size)
		}
	}
	e.Name = n
	return e, nil
}

// open opens a waiting entry without following a link or waiting for a pipe.
func (s *Spool) open(n Name) (*os.File, error) {
	if !n.valid() {
		return nil, fmt.Errorf("%w: not an entry's name", fs.ErrNotExist)
	}
	f, err := os.OpenFile(s.path("new", string(n)), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: not a regular file", ErrDamaged)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenBlob opens a blob for reading.
func (s *Spool) OpenBlob(digest string) (*os.File, error) {
	if !isHex(digest, 64) {
		return nil, fmt.Errorf("open blob %q: %w", digest, fs.ErrNotExist)
	}
	f, err := os.OpenFile(s.path("blobs", digest), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return f, nil
}

// Remove deletes a waiting entry, and those of its blobs that no other entry,
// waiting or rejected, refers to. One that is gone already is no error. Call it
// only after the verdict on the entry is durable at the other end.
//
// Without blobs the removal is not synced: an entry that comes back after a
// power loss is delivered again and found to be known.
func (s *Spool) Remove(n Name) error {
	f, err := s.open(n)
	if errors.Is(err, fs.ErrNotExist) && n.valid() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove entry %q: %w", n, err)
	}
	blobs, _ := blobsOf(f) // unreadable: its blobs wait for Clean
	if err := f.Close(); err != nil {
		return fmt.Errorf("remove entry: %w", err)
	}
	if err := s.disk.remove(s.path("new", string(n))); err != nil {
		return fmt.Errorf("remove entry: %w", err)
	}
	if len(blobs) == 0 {
		return nil
	}
	// In this order, an entry that a power loss brings back still has its blobs.
	if err := s.disk.syncFolder(s.path("new")); err != nil {
		return fmt.Errorf("remove entry: %w", err)
	}
	unlock, err := s.lockBlobs()
	if err != nil {
		return fmt.Errorf("remove blobs: %w", err)
	}
	return errors.Join(s.drop(blobs), unlock())
}

// Reject moves a waiting entry to rejected/ and writes reason to NAME.reason
// beside it. Its blobs stay. One rejected already is no error.
func (s *Spool) Reject(n Name, reason string) error {
	if !n.valid() {
		return fmt.Errorf("reject entry %q: %w", n, fs.ErrNotExist)
	}
	from, to := s.path("new", string(n)), s.path("rejected", string(n))
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(to); err == nil {
			return nil
		}
		return fmt.Errorf("reject entry: %w", err)
	}
	// The reason goes first: an entry in rejected/ always has one.
	if err := s.disk.replace(s.path("tmp"), to+reasonSuffix, strings.NewReader(reason+"\n")); err != nil {
		return fmt.Errorf("reject entry: %w", err)
	}
	if err := s.disk.rename(from, to); err != nil {
		return fmt.Errorf("reject entry: %w", err)
	}
	if err := s.syncFolders("rejected", "new"); err != nil {
		return fmt.Errorf("reject entry: %w", err)
	}
	return nil
}

// Reason returns what Reject was told about an entry.
func (s *Spool) Reason(n Name) (string, error) {
	if !n.valid() {
		return "", fmt.Errorf("read reason of %q: %w", n, fs.ErrNotExist)
	}
	b, err := os.ReadFile(s.path("rejected", string(n)+reasonSuffix))
	if err != nil {
		return "", fmt.Errorf("read reason: %w", err)
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

func (s *Spool) syncFolders(names ...string) error {
	for _, name := range names {
		if err := s.disk.syncFolder(s.path(name)); err != nil {
			return err
		}
	}
	return nil
}
