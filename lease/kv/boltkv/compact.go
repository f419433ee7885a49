package boltkv

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
)

// compactStep bounds, in bytes, what one commit of a compaction copies.
const compactStep = 16 << 20

// Compact writes the store at path anew without the room that deleted rows left,
// beside it, compares, and puts it in its place. It returns the file's bytes
// before and after. Nobody may have the store open; after an error, or a crash, it
// is as it was.
func Compact(path string, opts Options) (before, after int64, err error) {
	if _, err := os.Lstat(path); err != nil {
		return 0, 0, fmt.Errorf("compact store: %w", err)
	}
	db, err := Open(path, opts)
	if err != nil {
		return 0, 0, err
	}
	if before, err = db.Size(); err == nil {
		after, err = db.compact()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return before, after, fmt.Errorf("compact store %q: %w", db.path, err)
	}
	return before, after, nil
}

func (db *DB) compact() (size int64, err error) {
	tmp := db.path + ".compact"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err = db.copyTo(tmp); err == nil {
		err = db.same(tmp)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(tmp))
	}
	info, err := os.Stat(tmp)
	if err != nil {
		return 0, err
	}
	if err := os.Rename(tmp, db.path); err != nil {
		return 0, err
	}
	return info.Size(), db.syncFolder()
}

func (db *DB) copyTo(tmp string) error {
	// Each step without a sync: the file is of no use to anybody before the last one.
	to, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: db.opts.Timeout, NoSync: true, NoFreelistSync: false, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = bbolt.Compact(to, db.bolt, compactStep)
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// same holds a copy against the store, pair by pair and record by record.
func (db *DB) same(path string) error {
	copied, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		return err
	}
	a, errA := db.digest()
	b, errB := copied.digest()
	if err := errors.Join(errA, errB, copied.Close()); err != nil {
		return err
	}
	if a != b {
		return errors.New("the copy differs")
	}
	return nil
}

// digest is over everything that the engine's readers can see, and the sequence
// below which nothing may be appended.
func (db *DB) digest() (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	add := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	err = db.view(func(tx *bbolt.Tx) error {
		r := newReader(tx)
		r.Scan(nil, nil, func(k, v []byte) bool { add(k); add(v); return true })
		add(nil)
		r.Log(0, func(seq uint64, v []byte) bool { add(logKey(seq)); add(v); return true })
		add(logKey(r.records.Sequence()))
		return nil
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}
