package spool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk makes every change to the spool's folders, one step each, so that a test
// can fail any of them.
type disk struct {
	before func(op string, paths ...string) error // nil outside tests
}

func (d disk) step(op string, paths ...string) error {
	if d.before == nil {
		return nil
	}
	return d.before(op, paths...)
}

// create opens a new file with a name of its own in folder, for writing.
func (d disk) create(folder, pattern string) (*os.File, error) {
	if err := d.step("create", folder); err != nil {
		return nil, err
	}
	return os.CreateTemp(folder, pattern)
}

// fill writes what r holds into f, makes it durable and closes f in any case.
func (d disk) fill(f *os.File, r io.Reader) error {
	w := io.Writer(f)
	if d.before != nil {
		w = stepWriter{d, f}
	}
	_, err := io.Copy(w, r)
	if err == nil {
		err = d.sync(f)
	}
	return errors.Join(err, f.Close())
}

func (d disk) sync(f *os.File) error {
	if err := d.step("sync", f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

func (d disk) link(from, to string) error {
	if err := d.step("link", from, to); err != nil {
		return err
	}
	return os.Link(from, to)
}

func (d disk) rename(from, to string) error {
	if err := d.step("rename", from, to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// remove deletes a file; one that is gone already is no error.
func (d disk) remove(path string) error {
	if err := d.step("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncFolder makes renames into and removals from a folder durable.
func (d disk) syncFolder(path string) error {
	if err := d.step("syncfolder", path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// replace puts data at path by way of a file in tmp. It does not sync the folder.
func (d disk) replace(tmp, path string, r io.Reader) error {
	f, err := d.create(tmp, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err := d.fill(f, r); err != nil {
		return errors.Join(err, d.remove(f.Name()))
	}
	if err := d.rename(f.Name(), path); err != nil {
		return errors.Join(err, d.remove(f.Name()))
	}
	return nil
}

// stepWriter asks before each write; a refused one leaves half of its bytes, as
// a full disk does.
type stepWriter struct {
	d disk
	f *os.File
}

func (w stepWriter) Write(p []byte) (int, error) {
	if err := w.d.step("write", w.f.Name()); err != nil {
		n, _ := w.f.Write(p[:len(p)/2])
		return n, err
	}
	return w.f.Write(p)
}

// makeFolders makes dir, and folders in it, where they are missing, durably.
func (d disk) makeFolders(dir string, folders ...string) error {
	changed := []string{dir} // also when nothing is missing: a process may have died here
	for p := dir; ; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			break // there, or MkdirAll says what is wrong
		}
		changed = append(changed, filepath.Dir(p))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return err
		}
	}
	for _, folder := range changed {
		if err := d.syncFolder(folder); err != nil {
			return err
		}
	}
	return nil
}
