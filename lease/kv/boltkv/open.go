package boltkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"macbatch/lease/kv"
)

var (
	// ErrHeld is returned by Open when another process, named in the text, has
	// the store open.
	ErrHeld = errors.New("store is in use")

	// ErrNotStore is returned by Open for a file that is empty, cut short,
	// damaged or something else than a store.
	ErrNotStore = errors.New("not a whole store")

	// ErrNewer is returned by Open for a store that a newer program wrote.
	ErrNewer = errors.New("store of a newer version")

	// ErrNetwork is returned by Open for a folder whose file system can't keep
	// a store safely.
	ErrNetwork = errors.New("not a local disk")
)

const (
	defaultTimeout = 1500 * time.Millisecond
	defaultMap     = 8 << 30
	allocSize      = 4 << 20 // the file grows in such steps, each costing a sync
)

// Options are choices of Open; the zero value is right for a control plane.
type Options struct {
	ReadOnly    bool          // read a store at rest, changing no file; only others who read may be there too
	Timeout     time.Duration // how long to wait for another process; 0 means 1.5 s
	InitialMmap int           // bytes of address space to map; 0 means 8 GiB. Growing past it waits for all readers
	Reserve     int64         // bytes to keep in PATH.reserve; 0 means none
	SyncDelay   time.Duration // added to each of a commit's two syncs: what a slower disk would do, for measurements

	// Accept refuses a store by what it holds, before anything is made beside it;
	// nil accepts all.
	Accept func(r kv.Reader) error

	step   func(op string) error                   // asked before each step that makes a new store
	commit func(tx *bbolt.Tx) error                // stands in for the commit
	fsType func(path string) (string, bool, error) // stands in for that of the system
}

// Open opens the store at path, making it first where there is none (unless
// ReadOnly).
//
// Errors: ErrHeld, ErrNotStore, ErrNewer, ErrNetwork, each naming the file; or
// that of the disk.
func Open(path string, opts Options) (*DB, error) {
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.InitialMmap == 0 {
		opts.InitialMmap = defaultMap
	}
	if opts.fsType == nil {
		opts.fsType = fsType
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	db := &DB{path: path, opts: opts}
	if opts.ReadOnly {
		err = db.openReadOnly()
	} else {
		err = db.openWriter()
	}
	if err != nil {
		if same := (*fs.PathError)(nil); errors.As(err, &same) && same.Path == path && same.Error() == err.Error() {
			err = same.Err // the path is told once
		}
		return nil, fmt.Errorf("open store %q: %w", path, errors.Join(err, db.release()))
	}
	return db, nil
}

func (db *DB) openWriter() error {
	if name, local, err := db.opts.fsType(filepath.Dir(db.path)); err != nil {
		return err
	} else if !local {
		return fmt.Errorf("%w: %s", ErrNetwork, name)
	}
	var err error
	if db.lock, err = lockWriter(db.path, db.opts.Timeout); err != nil {
		return err
	}
	if _, err := os.Lstat(db.path); errors.Is(err, fs.ErrNotExist) {
		if err := db.create(); err != nil {
			return fmt.Errorf("make it: %w", err)
		}
	}
	if err := inspect(db.path); err != nil {
		return err
	}
	// Renamed by a process that died before it synced the folder, the file would
	// still be gone after a power loss, and all that is committed now with it.
	if err := db.syncFolder(); err != nil {
		return err
	}
	if err := db.openBolt(); err != nil {
		return err
	}
	if db.opts.Accept != nil {
		if err := db.View(db.opts.Accept); err != nil {
			return err
		}
	}
	if db.opts.Reserve > 0 {
		// Without room for it the store still opens: that is when it is needed.
		if err := db.Reserve(); err != nil && !full(err) {
			return err
		}
	}
	return nil
}

func (db *DB) openReadOnly() error {
	// The shared lock is taken before looking: beside a writer, a half-written
	// page is no damage.
	f, err := os.Open(db.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if err := flockWait(f, false, db.opts.Timeout); err != nil {
		if errors.Is(err, errLocked) {
			return fmt.Errorf("%w by %s", ErrHeld, holder(db.path))
		}
		return err
	}
	if err := inspect(db.path); err != nil {
		return err
	}
	return db.openBolt()
}

// openBolt maps the file. It turns what bbolt makes of a damaged page, a panic
// or a fault, into ErrNotStore.
func (db *DB) openBolt() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			db.bolt = nil // its locks are in an unknown state: never used again
			err = fmt.Errorf("%w: damaged: %v", ErrNotStore, r)
		}
	}()
	db.bolt, err = bbolt.Open(db.path, 0o600, &bbolt.Options{
		ReadOnly:        db.opts.ReadOnly,
		Timeout:         db.opts.Timeout,
		InitialMmapSize: db.opts.InitialMmap,
		FreelistType:    bbolt.FreelistMapType,
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("%w by a process that reads it", ErrHeld)
	}
	if err != nil {
		return err
	}
	db.bolt.AllocSize = allocSize
	return db.bolt.View(func(tx *bbolt.Tx) error {
		db.acked.Store(uint64(tx.ID()))
		return checkBuckets(tx)
	})
}

func checkBuckets(tx *bbolt.Tx) error {
	b := tx.Bucket(metaBucket)
	if b == nil || tx.Bucket(mapBucket) == nil || tx.Bucket(logBucket) == nil {
		return fmt.Errorf("%w: a bbolt file, but not macbatch's", ErrNotStore)
	}
	if got := string(b.Get(formatKey)); got != format {
		return fmt.Errorf("%w: format %.20q, this program knows %q", ErrNewer, got, format)
	}
	return nil
}

// create makes an empty store appear at path, whole and durable or not at all.
// The caller holds the writer's lock.
func (db *DB) create() error {
	tmp := db.path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := db.createAt(tmp); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := db.step("rename"); err != nil {
		return err
	}
	if err := os.Rename(tmp, db.path); err != nil {
		return err
	}
	return db.syncFolder()
}

func (db *DB) createAt(tmp string) error {
	if err := db.step("create"); err != nil {
		return err
	}
	b, err := bbolt.Open(tmp, 0o600, &bbolt.Options{Timeout: db.opts.Timeout})
	if err != nil {
		return err
	}
	err = db.step("init")
	if err == nil {
		err = b.Update(func(tx *bbolt.Tx) error {
			for _, name := range [][]byte{mapBucket, logBucket} {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			m, err := tx.CreateBucket(metaBucket)
			if err != nil {
				return err
			}
			return m.Put(formatKey, []byte(format))
		})
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	f, err := os.Open(tmp)
	if err != nil {
		return err
	}
	if err = db.step("sync"); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (db *DB) syncFolder() error {
	if err := db.step("syncfolder"); err != nil {
		return err
	}
	f, err := os.Open(filepath.Dir(db.path))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (db *DB) step(op string) error {
	if db.opts.step == nil {
		return nil
	}
	return db.opts.step(op)
}
