package boltkv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"macbatch/lease/kv"
)

// filled returns the path and the bytes of a closed store with something in it.
func filled(t *testing.T) (path string, file []byte) {
	t.Helper()
	db := open(t, storePath(t), Options{})
	for i := range 20 {
		err := db.Update(func(w kv.Writer) error {
			for j := range 50 {
				if err := w.Put(fmt.Appendf(nil, "%d/%d", i, j), bytes.Repeat([]byte{'v'}, 100)); err != nil {
					return err
				}
			}
			return w.Append(uint64(i+1), []byte("record"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(db.Path())
	if err != nil {
		t.Fatal(err)
	}
	m, err := newestMeta(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	file = file[:int(m.high)*os.Getpagesize()] // without the room to grow
	if err := os.WriteFile(db.Path(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return db.Path(), file
}

// refused opens a file both ways, wants want and the file's name, and the file
// left as it was.
func refused(t *testing.T, what, path string, file []byte, want error) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		db, err := Open(path, Options{ReadOnly: readOnly})
		if err == nil {
			err = db.Close()
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s (read only %v): Open = %v, want %v naming the file", what, readOnly, err, want)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, file) {
		t.Fatalf("%s: the refused file was changed (%v)", what, err)
	}
}

func TestRefused(t *testing.T) {
	_, file := filled(t)
	path := storePath(t)
	page := os.Getpagesize()
	broken := func(at ...int) []byte {
		b := bytes.Clone(file)
		for _, i := range at {
			b[i] ^= 0xff
		}
		return b
	}
	for what, bad := range map[string][]byte{
		"empty":          {},
		"one byte":       {0},
		"text":           []byte(strings.Repeat("Dear diary,\n", 2000)),
		"zeros":          make([]byte, 1<<16),
		"SQLite":         append([]byte("SQLite format 3\x00"), make([]byte, 8192)...),
		"both metas bad": broken(pageHead+50, page+pageHead+50),
		"other magic":    broken(pageHead, page+pageHead),
	} {
		refused(t, what, path, bad, ErrNotStore)
	}
	m, err := newestMeta(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	need := int(m.high) * page
	for size := 1; size < need; size += page/2 + 7 {
		refused(t, fmt.Sprintf("cut to %d of %d", size, need), path, file[:size], ErrNotStore)
	}
	refused(t, "cut by one byte", path, file[:need-1], ErrNotStore)
	for what, id := range map[string]uint64{"root": m.root, "freelist": m.freelist} {
		refused(t, what+" page bad", path, broken(int(id)*page+8), ErrNotStore)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNotStore) {
		t.Fatalf("Open of a folder = %v, want ErrNotStore", err)
	}
}

// With one meta page torn, as by a crash in the middle of a commit, the store is
// what the other one says.
func TestTornMeta(t *testing.T) {
	path, file := filled(t)
	for i := range 2 {
		bad := bytes.Clone(file)
		clear(bad[i*os.Getpagesize()+40 : (i+1)*os.Getpagesize()])
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		db := open(t, path, Options{})
		if got := get(t, db, "0/0"); len(got) != 100 {
			t.Fatalf("meta page %d torn: Get = %q", i, got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever the bytes, Open returns.
func TestOpenGarbage(t *testing.T) {
	path, file := filled(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	m, err := newestMeta(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	refusedCount := 0
	for range 200 {
		bad := bytes.Clone(file)
		page := []uint64{0, 1, m.root, m.freelist}[rnd.IntN(4)]
		for range 1 + rnd.IntN(30) {
			bad[int(page)*os.Getpagesize()+rnd.IntN(200)] = byte(rnd.Uint32())
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			refusedCount++
			continue
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 200 refused", refusedCount)
	if refusedCount < 50 {
		t.Fatalf("only %d of 200 refused: the test reaches nothing", refusedCount)
	}
}

func TestForeign(t *testing.T) {
	for what, c := range map[string]struct {
		fill func(tx *bbolt.Tx) error
		want error
	}{
		"no buckets": {func(tx *bbolt.Tx) error { return nil }, ErrNotStore},
		"other buckets": {func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("map"))
			return err
		}, ErrNotStore},
		"newer": {func(tx *bbolt.Tx) error {
			for _, name := range []string{"map", "log"} {
				if _, err := tx.CreateBucket([]byte(name)); err != nil {
					return err
				}
			}
			b, err := tx.CreateBucket(metaBucket)
			if err != nil {
				return err
			}
			return b.Put(formatKey, []byte("2"))
		}, ErrNewer},
	} {
		made := storePath(t)
		b, err := bbolt.Open(made, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Update(c.fill), b.Close()); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, what, storePath(t), file, c.want)
	}
}

func folder(t *testing.T, path string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(b)
	}
	return all
}

func TestReadOnly(t *testing.T) {
	path, _ := filled(t)
	before := folder(t, path)
	a, b := open(t, path, Options{ReadOnly: true}), open(t, path, Options{ReadOnly: true})
	for _, db := range []*DB{a, b} {
		if got := get(t, db, "0/0"); len(got) != 100 {
			t.Fatalf("Get = %q", got)
		}
		if err := put(db, "a", "1"); !errors.Is(err, kv.ErrNotLeader) {
			t.Fatalf("Update = %v, want ErrNotLeader", err)
		}
		if err := db.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path, Options{Timeout: 1}); !errors.Is(err, ErrHeld) {
		t.Fatalf("Open for writing beside a reader = %v, want ErrHeld", err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if after := folder(t, path); !maps.Equal(after, before) {
		t.Fatalf("reading changed the folder: %v, was %v", slices.Collect(maps.Keys(after)), slices.Collect(maps.Keys(before)))
	}
	missing := storePath(t)
	if _, err := Open(missing, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open of a missing store = %v, want fs.ErrNotExist", err)
	}
	if left := folder(t, missing); len(left) != 0 {
		t.Fatalf("reading a missing store left %v", left)
	}
}

func TestNetwork(t *testing.T) {
	path := storePath(t)
	remote := func(string) (string, bool, error) { return "nfs", false, nil }
	if _, err := Open(path, Options{fsType: remote}); !errors.Is(err, ErrNetwork) || !strings.Contains(err.Error(), "nfs") {
		t.Fatalf("Open on a network disk = %v, want ErrNetwork", err)
	}
	if left := folder(t, path); len(left) != 0 {
		t.Fatalf("refused, but left %v", left)
	}
}

// A new store appears whole or not at all, whatever step fails.
func TestCreateFaults(t *testing.T) {
	failure := errors.New("on purpose")
	steps := 0
	for n := 1; ; n++ {
		path := storePath(t)
		count, op := 0, ""
		_, err := Open(path, Options{step: func(o string) error {
			if count++; count >= n {
				op = o
				return failure
			}
			return nil
		}})
		if count < n {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		steps++
		if !errors.Is(err, failure) {
			t.Fatalf("%s failing: Open = %v", op, err)
		}
		if _, err := os.Stat(path); err == nil {
			if err := inspect(path); err != nil {
				t.Fatalf("%s failing left: %v", op, err)
			}
		}
		db := open(t, path, Options{})
		if err := errors.Join(put(db, "a", "1"), db.Close()); err != nil {
			t.Fatalf("after %s failed: %v", op, err)
		}
		if left := folder(t, path); len(left) != 2 {
			t.Fatalf("after %s failed: %v left, want the store and its lock", op, slices.Collect(maps.Keys(left)))
		}
	}
	if steps < 5 {
		t.Fatalf("only %d steps", steps)
	}
}
