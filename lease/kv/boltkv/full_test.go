//go:build linux

package boltkv

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"macbatch/lease/kv"
)

// On a really full disk: nothing changed, reads go on, the reserve makes room to
// make room, and no restart is needed.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Logf("no small disk to be had (%v); TestCommitOutcome stands in for it", err)
		return
	}
	defer func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	db, err := Open(filepath.Join(disk, "store.db"), Options{Reserve: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	add := func() error {
		return db.Update(func(w kv.Writer) error {
			return errors.Join(w.Put(fmt.Append(nil, "k", n), make([]byte, 5000)), w.Append(uint64(n+1), []byte("r")))
		})
	}
	for ; ; n++ {
		if n > 1000 {
			t.Fatal("1 MB holds 1,000 rows of 5 KB")
		}
		if err = add(); err != nil {
			break
		}
	}
	check := func() {
		t.Helper()
		err := db.View(func(r kv.Reader) error {
			keys, records := 0, 0
			r.Scan(nil, nil, func(_, _ []byte) bool { keys++; return true })
			r.Log(0, func(uint64, []byte) bool { records++; return true })
			if keys != n || records != n {
				return fmt.Errorf("%d keys, %d records, want %d of each", keys, records, n)
			}
			return nil
		})
		if err := errors.Join(err, db.Check()); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if !errors.Is(err, kv.ErrFull) {
			t.Fatalf("Update on a full disk = %v, want ErrFull", err)
		}
		check()
		err = add()
	}
	if err := db.Release(); err != nil {
		t.Fatal(err)
	}
	for range n / 2 { // the prune
		n--
		err := db.Update(func(w kv.Writer) error {
			return errors.Join(w.Delete(fmt.Append(nil, "k", n)), w.Put([]byte("k"), nil))
		})
		if err != nil {
			t.Fatalf("deleting with the reserve given up: %v", err)
		}
	}
	if err := db.Update(func(w kv.Writer) error { return errors.Join(w.Delete([]byte("k")), w.Append(2000, nil), w.Trim(2000)) }); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := put(db, "again", "there is room inside the file"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Fatal(err)
	}
	db, err = Open(db.Path(), Options{Reserve: 64 << 10})
	if err != nil {
		t.Fatalf("opening on a nearly full disk: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
