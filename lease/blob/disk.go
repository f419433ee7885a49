package blob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// disk makes every change to the store's folders, one step each, so that a test
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

func (d disk) create(folder string) (*os.File, error) {
	if err := d.step("create", folder); err != nil {
		return nil, err
	}
	return os.CreateTemp(folder, "blob.*")
}

// mkdir makes a folder where it is missing.
func (d disk) mkdir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := d.step("mkdir", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
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

func (d disk) sync(f *os.File) error {
	if err := d.step("sync", f.Name()); err != nil {
		return err
	}
	return f.Sync()
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
