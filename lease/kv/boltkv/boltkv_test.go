package boltkv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"macbatch/lease/kv"
	"macbatch/lease/kv/kvtest"
)

// open opens a store and has it checked at the end of the test.
func open(t *testing.T, path string, opts Options) *DB {
	t.Helper()
	db, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Check(); err != nil && !errors.Is(err, kv.ErrClosed) && !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func storePath(t *testing.T) string { return filepath.Join(t.TempDir(), "store.db") }

func put(e kv.Engine, key, value string) error {
	return e.Update(func(w kv.Writer) error { return w.Put([]byte(key), []byte(value)) })
}

func get(t *testing.T, e kv.Engine, key string) string {
	t.Helper()
	var v string
	if err := e.View(func(r kv.Reader) error { v = string(r.Get([]byte(key))); return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEngine(t *testing.T) {
	kvtest.Run(t,
		func(t *testing.T) kv.Engine { return open(t, storePath(t), Options{}) },
		func(t *testing.T, e kv.Engine) kv.Engine {
			db := e.(*DB)
			if err := db.Check(); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, db.Path(), Options{})
		})
}

// What a failed commit means is read from the file, not from bbolt's answer.
func TestCommitOutcome(t *testing.T) {
	applied := func(err error) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return errors.Join(tx.Commit(), err) }
	}
	undone := func(err error) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return errors.Join(tx.Rollback(), err) }
	}
	for name, c := range map[string]struct {
		commit func(*bbolt.Tx) error
		want   error
		after  string // the value once reopened
	}{
		"io error, applied":     {applied(syscall.EIO), kv.ErrUnknownOutcome, "2"},
		"io error, not applied": {undone(syscall.EIO), kv.ErrUnknownOutcome, "1"},
		"full, applied":         {applied(syscall.ENOSPC), kv.ErrUnknownOutcome, "2"},
		"full":                  {undone(syscall.ENOSPC), kv.ErrFull, "1"},
		"full, as text":         {undone(errors.New("file resize error: " + syscall.ENOSPC.Error())), kv.ErrFull, "1"},
		"quota":                 {undone(syscall.EDQUOT), kv.ErrFull, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, storePath(t), Options{})
			if err := put(db, "a", "1"); err != nil {
				t.Fatal(err)
			}
			db.opts.commit = c.commit
			if err := put(db, "a", "2"); !errors.Is(err, c.want) {
				t.Fatalf("Update = %v, want %v", err, c.want)
			}
			db.opts.commit = nil
			if errors.Is(c.want, kv.ErrFull) {
				if got := get(t, db, "a"); got != "1" {
					t.Fatalf("after ErrFull a = %q, want \"1\"", got)
				}
				if err := errors.Join(put(db, "b", "1"), db.Check()); err != nil {
					t.Fatalf("after ErrFull: %v", err)
				}
			} else {
				if err := put(db, "b", "1"); !errors.Is(err, kv.ErrUnknownOutcome) {
					t.Fatalf("next Update = %v, want ErrUnknownOutcome", err)
				}
				if err := db.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrUnknownOutcome) {
					t.Fatalf("next View = %v, want ErrUnknownOutcome", err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if got := get(t, open(t, db.Path(), Options{}), "a"); got != c.after {
				t.Fatalf("reopened, a = %q, want %q", got, c.after)
			}
		})
	}
}

// A commit that bbolt shows already, but that then fails, is neither read nor
// built upon by those who waited for it.
func TestPhantomCommit(t *testing.T) {
	db := open(t, storePath(t), Options{})
	if err := put(db, "a", "1"); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	seen := make(chan string, 1)
	db.opts.commit = func(tx *bbolt.Tx) error {
		if err := tx.Commit(); err != nil {
			return err
		}
		started := make(chan struct{}, 2)
		go func() {
			started <- struct{}{}
			results <- db.View(func(r kv.Reader) error { seen <- string(r.Get([]byte("a"))); return nil })
		}()
		go func() {
			started <- struct{}{}
			results <- put(db, "b", "1")
		}()
		<-started
		<-started
		for range 10_000 { // give them every chance
			if len(seen) > 0 || len(results) > 0 {
				t.Error("a reader or a writer was answered before the commit ended")
				break
			}
			runtime.Gosched()
		}
		return syscall.EIO
	}
	if err := put(db, "a", "2"); !errors.Is(err, kv.ErrUnknownOutcome) {
		t.Fatalf("Update = %v, want ErrUnknownOutcome", err)
	}
	for range 2 {
		if err := <-results; !errors.Is(err, kv.ErrUnknownOutcome) {
			t.Fatalf("waiting for the failed commit = %v, want ErrUnknownOutcome", err)
		}
	}
}

func TestNothingWritten(t *testing.T) {
	db := open(t, storePath(t), Options{})
	before, err := db.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(w kv.Writer) error { w.Get([]byte("a")); return nil }); err != nil {
		t.Fatal(err)
	}
	if after, err := db.Stats(); err != nil || after != before {
		t.Fatalf("Stats = %+v, %v, want %+v: no commit", after, err, before)
	}
	if err := put(db, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if after, err := db.Stats(); err != nil || after.Commits != before.Commits+1 || after.Size <= 0 || after.Free < 0 {
		t.Fatalf("Stats = %+v, %v, want one commit more than %+v", after, err, before)
	}
}

func TestBackup(t *testing.T) {
	db := open(t, storePath(t), Options{})
	for i := range 50 {
		if err := put(db, fmt.Sprint("k", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 5 {
		done := make(chan error)
		go func() {
			var err error
			for i := range 20 {
				err = errors.Join(err, db.Update(func(w kv.Writer) error {
					n := uint64(round*20 + i + 1)
					return errors.Join(w.Put([]byte("n"), fmt.Append(nil, n)), w.Append(n, bytes.Repeat([]byte("x"), 3000)))
				}))
			}
			done <- err
		}()
		copied := filepath.Join(t.TempDir(), "copy.db")
		f, err := os.Create(copied)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Backup(f); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(), <-done); err != nil {
			t.Fatal(err)
		}
		for _, opts := range []Options{{ReadOnly: true}, {}} {
			c := open(t, copied, opts)
			err := c.View(func(r kv.Reader) error {
				records := 0
				r.Log(0, func(uint64, []byte) bool { records++; return true })
				if n := string(r.Get([]byte("n"))); records > 0 && n != fmt.Sprint(records) || r.Get([]byte("k49")) == nil {
					return fmt.Errorf("%d records, n = %q", records, n)
				}
				return nil
			})
			if err := errors.Join(err, c.Check(), c.Close()); err != nil {
				t.Fatalf("backup %d: %v", round, err)
			}
		}
	}
}

// Get is right whatever it was asked for before, and whatever was written since.
func TestGetAmongNeighbours(t *testing.T) {
	db := open(t, storePath(t), Options{})
	random := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	key := func() string { return fmt.Sprintf("key %04d%.*s", random.IntN(3000), random.IntN(2), "x") }
	for range 20 {
		err := db.Update(func(w kv.Writer) error {
			next := ""
			for i := range 2000 {
				k := key()
				if next != "" && random.IntN(4) > 0 {
					k = next
				}
				var n int
				if _, err := fmt.Sscanf(k, "key %d", &n); err != nil {
					return err
				}
				next = fmt.Sprintf("key %04d", n+1)
				v := w.Get([]byte(k))
				if have, ok := want[k]; string(v) != have || (v != nil) != ok {
					t.Fatalf("Get(%q) = %q, want %q", k, v, have)
				}
				if random.IntN(2) == 0 {
					k = next // what is read next is written
				}
				var err error
				switch random.IntN(30) {
				case 0, 1:
					want[k] = fmt.Sprint(i)
					err = w.Put([]byte(k), []byte(want[k]))
				case 2:
					delete(want, k)
					err = w.Delete([]byte(k))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
