package boltkv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"macbatch/lease/kv"
)

// TestCompact: what is read stays the same, nothing may be appended below what
// was ever, and the room that deleted rows left is gone.
func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if _, _, err := Compact(path, Options{}); err == nil {
		t.Fatal("compacted what is not there")
	}
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		err := db.Update(func(w kv.Writer) error {
			for k := range 300 {
				if err := w.Put(fmt.Append(nil, "k", i, "/", k), make([]byte, 1000)); err != nil {
					return err
				}
			}
			return w.Append(uint64(i+1), []byte("record"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = db.Update(func(w kv.Writer) error {
		for i := 1; i < 10; i++ {
			for k := range 300 {
				if err := w.Delete(fmt.Append(nil, "k", i, "/", k)); err != nil {
					return err
				}
			}
		}
		return w.Trim(11)
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := db.digest()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Compact(path, Options{}); !errors.Is(err, ErrHeld) {
		t.Fatalf("compact of an open store = %v, want ErrHeld", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".compact", []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, after, err := Compact(path, Options{})
	if err != nil || after >= before/3 {
		t.Fatalf("compact: %d bytes from %d, %v", after, before, err)
	}
	if db, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := db.digest()
	if err != nil || got != want {
		t.Fatalf("compacted to something else, %v", err)
	}
	if err := db.Update(func(w kv.Writer) error { return w.Append(10, nil) }); !errors.Is(err, kv.ErrOrder) {
		t.Fatalf("append below the highest sequence = %v, want ErrOrder", err)
	}
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Fatal(err)
	}
}
