package boltkv

import (
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"

	"macbatch/lease/kv"
)

// Stats are figures of a store.
type Stats struct {
	Commits uint64 // commits since the store was made
	Size    int64  // bytes of the file
	Free    int64  // bytes in it that hold nothing
}

// Stats returns the figures of the newest commit.
func (db *DB) Stats() (Stats, error) {
	var s Stats
	err := db.view(func(tx *bbolt.Tx) error {
		s.Commits = uint64(tx.ID())
		size, err := db.Size()
		if err != nil {
			return err
		}
		b := db.bolt.Stats()
		pageSize := int64(db.bolt.Info().PageSize)
		s.Size = size
		s.Free = size - tx.Size() + int64(b.FreePageN+b.PendingPageN)*pageSize
		return nil
	})
	if err != nil {
		return Stats{}, fmt.Errorf("read figures of store: %w", err)
	}
	return s, nil
}

// Size returns the length of the file in bytes.
func (db *DB) Size() (int64, error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return 0, fmt.Errorf("size of store: %w", err)
	}
	return info.Size(), nil
}

// Backup writes a whole store, as of one commit, to w while the engine goes on
// serving. It returns the number of bytes written.
func (db *DB) Backup(w io.Writer) (n int64, err error) {
	err = db.view(func(tx *bbolt.Tx) error {
		n, err = tx.WriteTo(w)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("back up store: %w", err)
	}
	return n, nil
}

// Check reads the whole file and returns an error that lists what is wrong with
// its structure. On a store open for writing, writers wait meanwhile.
func (db *DB) Check() error {
	db.write.Lock()
	defer db.write.Unlock()
	if db.broken.Load() {
		return kv.ErrUnknownOutcome
	}
	tx, err := db.bolt.Begin(!db.opts.ReadOnly)
	if err != nil {
		return closed(err)
	}
	var errs []error
	for err := range tx.Check() {
		if len(errs) < 20 {
			errs = append(errs, err)
		}
	}
	errs = append(errs, tx.Rollback())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("check store %q: %w", db.path, err)
	}
	return nil
}
