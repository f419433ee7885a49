package boltkv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"macbatch/lease/kv"
)

const format = "1"

var (
	metaBucket = []byte("macbatch")
	mapBucket  = []byte("map")
	logBucket  = []byte("log")
	formatKey  = []byte("format")
)

// How full pages are left when they split. Nothing is ever inserted between the
// log's records; keys of the map mostly ascend too, but rows grow in place.
const (
	logFill = 0.95
	mapFill = 0.7
)

// DB is a store file, open. Its methods may be called from several goroutines.
type DB struct {
	path   string
	opts   Options
	bolt   *bbolt.DB
	lock   *os.File
	write  sync.Mutex    // held from before a write transaction until its outcome is noted
	acked  atomic.Uint64 // counter of the newest commit known to be durable
	broken atomic.Bool   // once an outcome is unknown
	close  sync.Once
}

var _ kv.Engine = (*DB)(nil)

// Path returns the absolute path of the file.
func (db *DB) Path() string { return db.path }

// View runs fn on a snapshot. Keep it short: pages freed meanwhile can't be used
// again before it ends, and the file grows.
func (db *DB) View(fn func(kv.Reader) error) error {
	return db.view(func(tx *bbolt.Tx) error {
		return fn(newReader(tx))
	})
}

// Peek is View for what need not be durable: it may show a commit whose sync is
// still running, or that turns out to have failed, and does not wait for it.
func (db *DB) Peek(fn func(kv.Reader) error) error {
	if db.broken.Load() {
		return kv.ErrUnknownOutcome
	}
	tx, err := db.bolt.Begin(false)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = tx.Rollback() }() // of a read: it can't fail
	return guard(func() error { return fn(newReader(tx)) })
}

func (db *DB) view(fn func(tx *bbolt.Tx) error) error {
	for !db.broken.Load() {
		tx, err := db.bolt.Begin(false)
		if err != nil {
			return closed(err)
		}
		if uint64(tx.ID()) <= db.acked.Load() {
			defer func() { _ = tx.Rollback() }() // of a read: it can't fail
			return guard(func() error { return fn(tx) })
		}
		// bbolt shows a commit before it is synced. Nobody may act on one that a
		// power loss can still undo, or that turns out to have failed.
		if err := tx.Rollback(); err != nil {
			return err
		}
		db.write.Lock()
		db.write.Unlock() //nolint:staticcheck // waits for the commit to end
	}
	return kv.ErrUnknownOutcome
}

func closed(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return kv.ErrClosed
	}
	return err
}

// Update runs fn and commits. See kv.Engine; ErrNotLeader here means that the
// store was opened to be read only.
func (db *DB) Update(fn func(kv.Writer) error) error {
	if db.opts.ReadOnly {
		return fmt.Errorf("%w: opened to be read only", kv.ErrNotLeader)
	}
	db.write.Lock()
	defer db.write.Unlock()
	if db.broken.Load() {
		return kv.ErrUnknownOutcome
	}
	tx, err := db.bolt.Begin(true)
	if err != nil {
		return closed(err)
	}
	ended := false
	defer func() {
		if !ended { // fn panicked
			rollback(tx)
		}
	}()
	var w *writer
	err = guard(func() error {
		w = newWriter(tx)
		if err := fn(w); err != nil || !w.wrote || w.last == w.records.Sequence() {
			return err
		}
		return w.records.SetSequence(w.last)
	})
	ended = true
	if err != nil {
		rollback(tx)
		return err
	}
	if !w.wrote {
		return tx.Rollback()
	}
	return db.commit(tx)
}

// rollback forgets what only memory holds: it fails on a damaged page at most,
// which is known by then.
func rollback(tx *bbolt.Tx) {
	_ = guard(func() error { defer found(); return tx.Rollback() })
}

// commit ends tx. What a failure means is read from the file: bbolt's own answer
// does not tell whether the commit is there.
func (db *DB) commit(tx *bbolt.Tx) error {
	end := (*bbolt.Tx).Commit
	if db.opts.commit != nil {
		end = db.opts.commit
	}
	number := uint64(tx.ID())
	time.Sleep(db.opts.SyncDelay) // of the pages
	err := guard(func() error { defer found(); return end(tx) })
	if errors.Is(err, ErrDamaged) {
		rollback(tx) // or its locks are held for ever
	}
	time.Sleep(db.opts.SyncDelay) // of the page that makes them count
	if err == nil {
		db.acked.Store(number)
		return nil
	}
	if full(err) {
		if now, readErr := db.counter(); readErr == nil && now == db.acked.Load() {
			return fmt.Errorf("%w: %w", kv.ErrFull, err)
		}
	}
	db.broken.Store(true)
	return fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, err)
}

// full tells whether err says that the disk has no room. bbolt hands on some
// errors as text only.
func full(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

// counter reads the commit counter from the file.
func (db *DB) counter() (uint64, error) {
	f, err := os.Open(db.path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	m, err := newestMeta(f)
	return m.txid, err
}

// Close waits for open transactions and releases the file and its locks.
func (db *DB) Close() (err error) {
	db.close.Do(func() {
		if err = db.release(); err != nil {
			err = fmt.Errorf("close store: %w", err)
		}
	})
	return err
}

func (db *DB) release() error {
	var errs []error
	if db.bolt != nil {
		errs = append(errs, db.bolt.Close())
	}
	if db.lock != nil { // last: until here nobody else may open it
		errs = append(errs, db.lock.Truncate(0), db.lock.Close())
	}
	return errors.Join(errs...)
}
