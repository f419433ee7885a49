package boltkv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
)

// Reserve fills PATH.reserve up to Options.Reserve bytes, really taken from the
// disk. After ErrFull, give it up with Release to commit what makes room, and
// take it again once there is some.
func (db *DB) Reserve() error {
	path, size := db.path+".reserve", db.opts.Reserve
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("take reserve: %w", err)
	}
	// Bytes that no file system compresses or leaves out.
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), size)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("take reserve: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Release gives the reserve up. That there is none is no error.
func (db *DB) Release() error {
	if err := os.Remove(db.path + ".reserve"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give up reserve: %w", err)
	}
	return nil
}
