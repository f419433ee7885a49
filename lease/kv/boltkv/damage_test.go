package boltkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"macbatch/lease/kv"
)

// Whatever byte of a store is damaged: reading, writing and checking it end in an
// error or in other bytes, never in a panic or a fault.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole.db")
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(db *DB, from, to int) error {
		return db.Update(func(w kv.Writer) error {
			var errs []error
			for i := from; i < to; i++ {
				errs = append(errs, w.Put(fmt.Append(nil, "k", i), make([]byte, i%200)), w.Append(uint64(i+1), make([]byte, i%100)))
			}
			return errors.Join(append(errs, w.Delete(fmt.Append(nil, "k", from/2)))...)
		})
	}
	for i := range 4 {
		if err := fill(db, 200*i, 200*(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newestMeta(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	const places = 150
	random := rand.New(rand.NewPCG(1, 2))
	refused, damaged := 0, 0
	for range places {
		// Where bbolt trusts what it reads: page heads and the elements behind them.
		b := append([]byte{}, whole...)
		at := random.IntN(int(m.high))*int(m.pageSize) + random.IntN(160)
		b[at] ^= 1 << random.IntN(8)
		path := filepath.Join(dir, "damaged.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{true, false} {
			db, err := Open(path, Options{ReadOnly: readOnly})
			if errors.Is(err, ErrNotStore) || errors.Is(err, ErrNewer) {
				refused++
				continue
			} else if err != nil {
				t.Fatalf("byte %d: %v", at, err)
			}
			if errors.Is(db.Check(), ErrDamaged) {
				refused++
			}
			err = db.View(func(r kv.Reader) error {
				n := 0
				see := func(b []byte) { // all of it
					for _, c := range b {
						n += int(c)
					}
				}
				r.Scan(nil, nil, func(k, v []byte) bool { see(k); see(v); return true })
				r.Log(0, func(_ uint64, v []byte) bool { see(v); return true })
				r.LogBack(1<<63, func(_ uint64, v []byte) bool { see(v); return true })
				return nil
			})
			if !readOnly {
				err = errors.Join(err, fill(db, 800, 1000))
			}
			if errors.Is(err, ErrDamaged) {
				damaged++
			}
			if err := db.Close(); err != nil {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
	}
	t.Logf("of %d damaged stores %d were refused when opened or checked, %d found damaged later", 2*places, refused, damaged)
	if refused < places || damaged == 0 {
		t.Error("the damage missed")
	}
}

// TestCheckFreelist: a page that is in use and listed as free would be written over;
// nothing but Check meets it before.
func TestCheckFreelist(t *testing.T) {
	path, file := filled(t)
	m, err := newestMeta(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	list := int(m.freelist)*int(m.pageSize) + pageHead
	if binary.LittleEndian.Uint16(file[list-6:]) == 0 {
		t.Fatal("no page is free")
	}
	for what, id := range map[string]uint64{"in use": m.root, "free twice": binary.LittleEndian.Uint64(file[list+8:]), "not there": m.high} {
		bad := bytes.Clone(file)
		binary.LittleEndian.PutUint64(bad[list:], id)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Check(); !errors.Is(err, ErrDamaged) {
			t.Errorf("a free page that is %s: %v, want ErrDamaged", what, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
