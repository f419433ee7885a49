package boltkv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"syscall"
	"testing"
	"unsafe"

	"macbatch/lease/kv"
)

// faults stands between bbolt and its file: it is asked before each write and
// before each sync, in the order in which the disk sees them, but that a commit's
// first sync is asked about together with its first write.
type faults struct {
	db    *DB
	fd    int
	under *os.File // the file, whatever the descriptor bbolt knows leads to
	meta  int64    // where the meta pages end
	dirty bool     // the commit has written
	deaf  bool     // the descriptor bbolt knows leads to what can't be synced
	ask   func(op string, off int64, b []byte) error
}

// The operations a fault may befall.
const (
	opWrite     = "write"
	opSync      = "sync"
	opWriteMeta = "write of the meta page"
	opSyncMeta  = "sync of the meta page"
)

// field returns a field of bbolt's database that it does not show. A version of
// bbolt without it fails the test at once.
func field[T any](t *testing.T, v reflect.Value, name string) *T {
	t.Helper()
	f := v.FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		t.Fatalf("bbolt has no field %s of type %v any more", name, reflect.TypeFor[T]())
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// between puts ask between a store and its disk, until the test ends or heal.
func between(t *testing.T, db *DB, ask func(op string, off int64, b []byte) error) *faults {
	t.Helper()
	bolt := reflect.ValueOf(db.bolt).Elem()
	f := &faults{db: db, ask: ask, fd: int((*field[*os.File](t, bolt, "file")).Fd()), meta: 2 * int64(db.bolt.Info().PageSize)}
	dup, err := syscall.Dup(f.fd)
	if err != nil {
		t.Fatal(err)
	}
	f.under = os.NewFile(uintptr(dup), db.path)
	*field[func([]byte, int64) (int, error)](t, bolt.FieldByName("ops"), "writeAt") = f.writeAt
	return f
}

// writeAt writes, or writes half and fails. A sync that is to fail is made to by
// a descriptor that can't be synced.
func (f *faults) writeAt(b []byte, off int64) (int, error) {
	ops := []string{opWrite}
	switch {
	case off < f.meta:
		ops = []string{opWriteMeta, opSyncMeta}
		f.dirty = false
	case !f.dirty:
		ops = []string{opWrite, opSync}
		f.dirty = true
	}
	for _, op := range ops {
		err := f.ask(op, off, b)
		switch {
		case err == nil:
		case op == opSync || op == opSyncMeta:
			if err := f.deafen(); err != nil {
				return 0, err
			}
		default:
			f.dirty = false
			n, _ := f.under.WriteAt(b[:len(b)/2], off)
			return n, err
		}
	}
	return f.under.WriteAt(b, off)
}

func (f *faults) deafen() error {
	if f.deaf {
		return nil
	}
	f.deaf = true
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	return errors.Join(syscall.Dup3(int(w.Fd()), f.fd, syscall.O_CLOEXEC), r.Close(), w.Close())
}

// heal gives bbolt its file back.
func (f *faults) heal() error {
	f.ask = func(string, int64, []byte) error { return nil }
	err := syscall.Dup3(int(f.under.Fd()), f.fd, syscall.O_CLOEXEC)
	return errors.Join(err, f.under.Close())
}

// A commit is data, sync, one meta page, sync: what a probe's model of a power
// loss relies on. Where a sync fails the commit is not acknowledged, which shows
// that it takes place.
func TestCommitOrder(t *testing.T) {
	db := open(t, storePath(t), Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	for commit := range 200 {
		var ops []string
		f := between(t, db, func(op string, _ int64, _ []byte) error { ops = append(ops, op); return nil })
		value := make([]byte, rnd.IntN(20_000))
		err := db.Update(func(w kv.Writer) error {
			return errors.Join(w.Put(fmt.Append(nil, "k", rnd.IntN(50)), value), w.Append(uint64(commit+1), value[:len(value)/3]))
		})
		if err := errors.Join(err, f.heal()); err != nil {
			t.Fatal(err)
		}
		for i, op := range ops {
			want := opWrite
			switch i {
			case 1:
				want = opSync
			case len(ops) - 2:
				want = opWriteMeta
			case len(ops) - 1:
				want = opSyncMeta
			}
			if op != want || len(ops) < 4 {
				t.Fatalf("commit %d does %q", commit, ops)
			}
		}
	}
	for _, which := range []string{opSync, opSyncMeta} {
		t.Run(which, func(t *testing.T) {
			db := open(t, storePath(t), Options{})
			metas := 0
			f := between(t, db, func(op string, _ int64, _ []byte) error {
				if op == opWriteMeta {
					metas++
				}
				if op == which {
					return syscall.EIO
				}
				return nil
			})
			if err := put(db, "a", "1"); !errors.Is(err, kv.ErrUnknownOutcome) {
				t.Fatalf("Update while no sync works = %v, want ErrUnknownOutcome: it does not sync", err)
			}
			if want := map[string]int{opSync: 0, opSyncMeta: 1}[which]; metas != want {
				t.Fatalf("%d meta pages written, want %d", metas, want)
			}
			if err := f.heal(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
