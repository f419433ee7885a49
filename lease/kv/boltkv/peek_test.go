package boltkv

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"macbatch/lease/kv"
)

// TestPeek: while a commit's outcome is open, Peek shows it and View waits.
func TestPeek(t *testing.T) {
	shown, end := make(chan struct{}), make(chan struct{})
	first := true
	db, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{commit: func(tx *bbolt.Tx) error {
		err := tx.Commit()
		if first = !first; first {
			close(shown)
			<-end
		}
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(v string) error {
		return db.Update(func(w kv.Writer) error { return w.Put([]byte("k"), []byte(v)) })
	}
	read := func(view func(func(kv.Reader) error) error) (v string) {
		if err := view(func(r kv.Reader) error { v = string(r.Get([]byte("k"))); return nil }); err != nil {
			t.Error(err)
		}
		return v
	}
	if err := put("old"); err != nil {
		t.Fatal(err)
	}
	written, viewed := make(chan error, 1), make(chan string, 1)
	go func() { written <- put("new") }()
	<-shown
	if got := read(db.Peek); got != "new" {
		t.Errorf("Peek during a commit shows %q, want %q", got, "new")
	}
	go func() { viewed <- read(db.View) }()
	select {
	case got := <-viewed:
		t.Errorf("View during a commit shows %q, want it to wait", got)
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if got := <-viewed; got != "new" {
		t.Errorf("View after the commit shows %q, want %q", got, "new")
	}
	db.broken.Store(true)
	if err := db.Peek(func(kv.Reader) error { return nil }); err == nil {
		t.Error("Peek of an engine that is broken = nil, want an error")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSyncDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	db, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{SyncDelay: delay})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := db.Update(func(w kv.Writer) error { return w.Put([]byte("k"), nil) }); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*delay {
		t.Errorf("a commit took %v, want two delays of %v at least", took, delay)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
