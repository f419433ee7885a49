// Package boltkv is the embedded storage engine: one bbolt file.
//
// The file has two buckets: "map", the ordered map as it is, and "log", whose
// keys are sequences as 8 bytes big-endian. A commit is durable when Update
// returns nil.
//
// A file is never made over: an empty, truncated or foreign one is refused. A
// new store is made under a temporary name and renamed when it is whole. One
// process writes: a second one is told who the first is.
package boltkv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"macbatch/lease/kv"
)

var (
	// ErrHeld is returned when another process has the store open. It is named.
	ErrHeld = errors.New("the store is in use")
	// ErrNotAStore is returned for a file that is not a whole store.
	ErrNotAStore = errors.New("not a macbatch store")
	// ErrNetwork is returned for a store on a network file system, which does not keep locks and syncs.
	ErrNetwork = errors.New("the store must be on a local disk")
	// ErrClosed is returned by an engine that was closed.
	ErrClosed = errors.New("the store is closed")
)

var bucketMap, bucketLog = []byte("map"), []byte("log")

// lockWait is how long Open waits for another process to leave.
const lockWait = time.Second

// initialMap is mapped from the start, so that a reader never keeps the file from growing.
const initialMap = 1 << 30

// Options of Open.
type Options struct {
	ReadOnly bool // open a store at rest, changing nothing
	NoSync   bool // for tests that need speed: nothing is durable
}

// DB is an open store file.
type DB struct {
	db     *bolt.DB
	path   string
	mu     sync.Mutex
	broken error // a commit's outcome is unknown
}

var _ kv.Engine = (*DB)(nil)

// Open opens the store at path, and makes it when there is none.
func Open(path string, o Options) (db *DB, err error) {
	defer func() {
		if p := recover(); p != nil { // bbolt's way to say that pages make no sense
			db, err = nil, fmt.Errorf("open store %q: damaged: %v: %w", path, p, ErrNotAStore)
		}
	}()
	if err := local(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open store %q: %w", path, err)
	}
	fi, err := os.Stat(path)
	switch {
	case err == nil:
		if err := whole(path, fi); err != nil {
			return nil, fmt.Errorf("open store %q: %w", path, err)
		}
	case os.IsNotExist(err) && !o.ReadOnly:
		if err := create(path); err != nil {
			return nil, fmt.Errorf("make store %q: %w", path, err)
		}
	default:
		return nil, fmt.Errorf("open store: %w", err)
	}
	b, err := bolt.Open(path, 0o600, options(o))
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open store %q: %w by %s", path, ErrHeld, holder(path))
	}
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w: %w", path, ErrNotAStore, err)
	}
	err = b.View(func(tx *bolt.Tx) error {
		if tx.Bucket(bucketMap) == nil || tx.Bucket(bucketLog) == nil {
			return ErrNotAStore
		}
		return nil
	})
	if err == nil && !o.ReadOnly {
		err = os.WriteFile(holderFile(path), fmt.Appendf(nil, "process %d\n", os.Getpid()), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store %q: %w", path, err), b.Close())
	}
	b.AllocSize = 16 << 20 // grow rarely: growing syncs
	return &DB{db: b, path: path}, nil
}

func options(o Options) *bolt.Options {
	return &bolt.Options{
		Timeout: lockWait, ReadOnly: o.ReadOnly, NoSync: o.NoSync, FreelistType: bolt.FreelistMapType,
		NoFreelistSync: true, InitialMmapSize: initialMap, NoStatistics: true,
	}
}

// create makes an empty store under a temporary name and renames it when whole.
func create(path string) error {
	tmp := fmt.Sprintf("%s.new-%d", path, os.Getpid())
	b, err := bolt.Open(tmp, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return err
	}
	err = b.Update(func(tx *bolt.Tx) error {
		_, err1 := tx.CreateBucket(bucketMap)
		_, err2 := tx.CreateBucket(bucketLog)
		return errors.Join(err1, err2)
	})
	if err = errors.Join(err, b.Close()); err == nil {
		// A link is not made over a store that appeared meanwhile.
		err = os.Link(tmp, path)
		if errors.Is(err, os.ErrExist) {
			err = nil
		}
	}
	if err = errors.Join(err, os.Remove(tmp)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// whole refuses what bbolt would trip over: the file must hold every page that
// its newest valid meta page speaks of.
func whole(path string, fi os.FileInfo) (err error) {
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("it is not a regular file: %w", ErrNotAStore)
	}
	if fi.Size() == 0 {
		return fmt.Errorf("it is empty: %w", ErrNotAStore)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	txid, pages, size := newestMeta(f)
	if txid == 0 {
		return fmt.Errorf("it has no valid page of its own: %w", ErrNotAStore)
	}
	if int64(pages)*int64(size) > fi.Size() {
		return fmt.Errorf("it is cut short: %d bytes of %d: %w", fi.Size(), int64(pages)*int64(size), ErrNotAStore)
	}
	return nil
}

// newestMeta reads bbolt's two meta pages: the newer transaction, how many pages
// the file must have, and their size. A zero transaction means there is none.
func newestMeta(f *os.File) (txid, pages uint64, size uint32) {
	const magic, header = 0xED0CDAED, 16
	for _, at := range []int64{0, 4096, 8192, 16384, 32768, 65536} {
		var b [header + 64]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			continue
		}
		m := b[header:]
		if binary.NativeEndian.Uint32(m) != magic || binary.NativeEndian.Uint64(m[56:]) != fnv64a(m[:56]) {
			continue
		}
		ps := binary.NativeEndian.Uint32(m[8:])
		if at != 0 && at != int64(ps) {
			continue
		}
		if id := binary.NativeEndian.Uint64(m[48:]); id >= txid {
			txid, pages, size = id, binary.NativeEndian.Uint64(m[40:]), ps
		}
	}
	return txid, pages, size
}

func fnv64a(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func holderFile(path string) string { return path + ".holder" }

func holder(path string) string {
	b, err := os.ReadFile(holderFile(path))
	if err != nil || len(b) == 0 {
		return "another process"
	}
	return strings.TrimSpace(string(b))
}

// View implements kv.Engine.
func (d *DB) View(fn func(kv.Reader) error) error {
	tx, err := d.db.Begin(false)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = tx.Rollback() }() // a read transaction has nothing to lose
	return fn(reader{tx.Bucket(bucketMap), tx.Bucket(bucketLog)})
}

// Update implements kv.Engine.
func (d *DB) Update(fn func(kv.Writer) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	tx, err := d.db.Begin(true)
	if err != nil {
		return closed(err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	m, l := tx.Bucket(bucketMap), tx.Bucket(bucketLog)
	l.FillPercent = 1 // only ever appended to
	if err := fn(&writer{reader{m, l}}); err != nil {
		return err
	}
	id := uint64(tx.ID())
	if err := tx.Commit(); err != nil {
		if errors.Is(err, syscall.ENOSPC) && d.absent(id) {
			return fmt.Errorf("%w: %w", kv.ErrFull, err)
		}
		d.broken = fmt.Errorf("%w: %w", kv.ErrUnknownOutcome, err)
		return d.broken
	}
	return nil
}

// absent reports whether the file surely does not hold transaction id: its meta
// page was not written.
func (d *DB) absent(id uint64) bool {
	f, err := os.Open(d.path)
	if err != nil {
		return false
	}
	txid, _, _ := newestMeta(f)
	return f.Close() == nil && txid != 0 && txid < id
}

func closed(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// Close implements kv.Engine.
func (d *DB) Close() error { return d.db.Close() }

// Size is the length of the file in bytes.
func (d *DB) Size() (int64, error) {
	fi, err := os.Stat(d.path)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

type reader struct{ m, l *bolt.Bucket }

func (r reader) Get(key []byte) []byte { return r.m.Get(key) }

func (r reader) Scan(from, to []byte, fn func(key, value []byte) bool) {
	c := r.m.Cursor()
	for k, v := c.Seek(from); k != nil && (to == nil || string(k) < string(to)) && fn(k, v); k, v = c.Next() {
	}
}

func (r reader) Log(from uint64, fn func(seq uint64, record []byte) bool) {
	c := r.l.Cursor()
	for k, v := c.Seek(sequence(from)); k != nil && fn(binary.BigEndian.Uint64(k), v); k, v = c.Next() {
	}
}

func (r reader) LogBack(from uint64, fn func(seq uint64, record []byte) bool) {
	c := r.l.Cursor()
	k, v := c.Seek(sequence(from))
	if k == nil {
		k, v = c.Last()
	}
	for ; k != nil; k, v = c.Prev() {
		if seq := binary.BigEndian.Uint64(k); seq <= from && !fn(seq, v) {
			return
		}
	}
}

func sequence(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

type writer struct{ reader }

func (w *writer) Put(key, value []byte) error { return w.m.Put(key, value) }
func (w *writer) Delete(key []byte) error     { return w.m.Delete(key) }

func (w *writer) Append(seq uint64, record []byte) error {
	if k, _ := w.l.Cursor().Last(); k != nil && binary.BigEndian.Uint64(k) >= seq {
		return fmt.Errorf("append to the log: %d does not follow %d", seq, binary.BigEndian.Uint64(k))
	}
	return w.l.Put(sequence(seq), record)
}

func (w *writer) Trim(before uint64) error {
	c := w.l.Cursor()
	for k, _ := c.First(); k != nil && binary.BigEndian.Uint64(k) < before; k, _ = c.First() {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}
