package main

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

// partSuffix is between a file's name and a number while the file is not whole.
const partSuffix = ".part-"

// writeNew makes a file that only its owner reads: under another name first, until
// it is on the disk and was checked there. An existing file is never replaced. What
// a predecessor that was killed left of the same file goes.
func writeNew(path string, write func(io.Writer) error, check func(*os.File) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = usagef("%q is there already", path)
		}
		return err
	}
	if err := sweepParts(path, partSuffix); err != nil {
		return err
	}
	f, err := makePart(func() (*os.File, error) {
		return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+partSuffix+"*") // made with mode 0600
	})
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = check(f)
	}
	if err == nil {
		err = os.Link(f.Name(), path) // fails where a file appeared meanwhile
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(f.Name(), path) // a file system without links
		}
	}
	if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return errors.Join(err, f.Close(), syncFolder(filepath.Dir(path)))
}

// makePart makes a file or folder under a name of its own and holds it: as long as
// it is open nobody takes it for a dead one's.
func makePart(create func() (*os.File, error)) (*os.File, error) {
	for {
		f, err := create()
		if err != nil {
			return nil, err
		}
		// Where the file system knows no locks, nobody can take it away either.
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			if is, err := leadsTo(f.Name(), f); is || err != nil {
				return f, err
			}
		}
		if err := f.Close(); err != nil { // it was swept before it was held
			return nil, err
		}
	}
}

// leadsTo tells whether a name still is the open file's.
func leadsTo(name string, f *os.File) (bool, error) {
	there, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(there, open), err
}

// sweepParts removes the unfinished files and folders of path that nobody holds:
// their makers were killed.
func sweepParts(path, suffix string) error {
	dir := filepath.Dir(path)
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+suffix)
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		if err := sweepPart(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove what an earlier attempt left: %w", err)
		}
	}
	return nil
}

func sweepPart(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // of somebody else, then
		return nil
	}
	if err != nil {
		return err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return f.Close() // somebody holds it, or that can't be known
	}
	if is, err := leadsTo(name, f); !is || err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(os.RemoveAll(name), f.Close())
}

// syncFolder makes names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
