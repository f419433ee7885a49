package boltkv

import (
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
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
