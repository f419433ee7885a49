package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// scene is a spool with one entry waiting, and a result to be added that shares
// a blob with it.
type scene struct {
	s     *Spool
	old   Entry
	files []string
}

func newScene(t *testing.T) scene {
	s := open(t)
	return scene{s, add(t, s, "old", "old body", "shared"), []string{source(t, "shared"), source(t, "own")}}
}

// check looks at what a failed or cut-off run left and cleans it up.
func (c scene) check(t *testing.T, what string) {
	t.Helper()
	s, err := Open(c.s.dir) // a new process, on a sound disk
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, n := range list {
		e, err := s.Read(n)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, b := range e.Blobs {
			want[b.Digest] = true
		}
	}
	rejected, err := s.Rejected()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range rejected {
		if _, err := s.Reason(n); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		want[c.old.Blobs[0].Digest] = true
	}
	if got := names(t, s.path("blobs")); len(got) != len(want) {
		t.Fatalf("%s: blobs %v, want %d", what, got, len(want))
	}
	if got := names(t, s.path("tmp")); len(got) != 0 {
		t.Fatalf("%s: tmp left %v", what, got)
	}
}

// faults runs do on a fresh scene once for each step it makes, that step
// failing once or it and all later ones, until a run makes no failing step.
func faults(t *testing.T, do func(c scene) error, after func(t *testing.T, c scene, err error, what string)) {
	steps := 0
	for _, forEver := range []bool{false, true} {
		for n := 1; ; n++ {
			c := newScene(t)
			count, op := 0, ""
			var mu sync.Mutex
			c.s.disk.before = func(o string, _ ...string) error {
				mu.Lock()
				defer mu.Unlock()
				if count++; count == n || forEver && count > n {
					if op == "" {
						op = o
					}
					return syscall.ENOSPC
				}
				return nil
			}
			err := do(c)
			if count < n {
				if err != nil {
					t.Fatalf("no step failed: %v", err)
				}
				break
			}
			steps++
			what := op + " failing"
			if forEver {
				what += " for ever"
			}
			after(t, c, err, what)
			c.check(t, what)
		}
	}
	t.Logf("%d faults", steps)
	if steps < 6 {
		t.Fatalf("only %d faults: the test doesn't reach the steps", steps)
	}
}

func TestAddFaults(t *testing.T) {
	addNew := func(c scene) error {
		_, err := c.s.Add("new", 9, instant, []byte("new body"), c.files)
		return err
	}
	faults(t, addNew, func(t *testing.T, c scene, err error, what string) {
		list, _ := c.s.List()
		if err == nil {
			if len(list) != 2 {
				t.Fatalf("%s: added, but List = %v", what, list)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: error %v, want ENOSPC", what, err)
		}
		for _, f := range c.files {
			if b, err := os.ReadFile(f); err != nil || len(b) == 0 {
				t.Fatalf("%s: source %q lost: %v", what, f, err)
			}
		}
		if !strings.HasSuffix(what, "for ever") {
			// One failure leaves nothing at all, before any Clean.
			if len(list) != 1 || len(names(t, c.s.path("tmp"))) != 0 || len(names(t, c.s.path("blobs"))) != 1 {
				t.Fatalf("%s: left new %v, tmp %v, blobs %v", what, list, names(t, c.s.path("tmp")), names(t, c.s.path("blobs")))
			}
		}
		c.s.disk.before = nil
		if err := addNew(c); err != nil {
			t.Fatalf("%s: adding again: %v", what, err)
		}
	})
}

// The copying way, taken where the source lies on another disk.
func TestAddCopyFaults(t *testing.T) {
	addNew := func(c scene) error {
		before := c.s.disk.before
		c.s.disk.before = func(op string, paths ...string) error {
			if op == "link" {
				return syscall.EXDEV
			}
			return before(op, paths...)
		}
		_, err := c.s.Add("new", 9, instant, []byte("new body"), c.files)
		return err
	}
	faults(t, addNew, func(t *testing.T, c scene, err error, what string) {
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: error %v, want ENOSPC", what, err)
		}
		list, _ := c.s.List()
		if err == nil && len(list) != 2 {
			t.Fatalf("%s: added, but List = %v", what, list)
		}
	})
}

func TestRemoveAndRejectFaults(t *testing.T) {
	var last string
	remove := func(c scene) error { return c.s.Remove(c.old.Name) }
	reject := func(c scene) error { return c.s.Reject(c.old.Name, "reason") }
	for _, do := range []func(scene) error{remove, reject} {
		steps := 0
		for n := 1; ; n++ {
			c := newScene(t)
			count := 0
			c.s.disk.before = func(op string, _ ...string) error {
				if count++; count >= n {
					last = op
					return syscall.EIO
				}
				return nil
			}
			err := do(c)
			if count < n {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			steps++
			if err == nil {
				t.Fatalf("%s failing: no error", last)
			}
			c.s.disk.before = nil
			c.check(t, last)
			if err := do(c); err != nil {
				t.Fatalf("after %s failed, again: %v", last, err)
			}
			c.check(t, last)
		}
		if steps < 3 {
			t.Fatalf("only %d faults", steps)
		}
	}
}

// Nothing is published before its bytes are synced, no entry before its blobs
// are durable, and each folder is synced after the last change in it.
func TestAddOrder(t *testing.T) {
	c := newScene(t)
	synced := map[string]bool{} // files whose bytes are safe
	dirty := map[string]bool{}  // folders with a change not yet synced
	published := false
	c.s.disk.before = func(op string, paths ...string) error {
		path := paths[0]
		switch op {
		case "write":
			synced[path] = false
		case "sync":
			synced[path] = true
		case "rename":
			from, to := paths[0], paths[1]
			folder := filepath.Base(filepath.Dir(to))
			if folder == "tmp" {
				break
			}
			if !synced[from] {
				t.Errorf("%s published before its bytes were synced", to)
			}
			if folder == "new" {
				published = true
				if dirty["blobs"] {
					t.Error("entry published before its blobs were durable")
				}
			}
			dirty[folder] = true
		case "syncfolder":
			dirty[filepath.Base(path)] = false
		case "remove":
			if slices.Contains(c.files, path) && (!published || dirty["new"]) {
				t.Error("source removed before the entry was durable")
			}
		}
		return nil
	}
	if _, err := c.s.Add("new", 9, instant, []byte("new body"), c.files); err != nil {
		t.Fatal(err)
	}
	if !published || dirty["new"] || dirty["blobs"] {
		t.Fatalf("published %v, folders not synced: %v", published, dirty)
	}
}
