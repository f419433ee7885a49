package gather

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/transcode/inventory"
)

var errInjected = errors.New("injected")

// world is an output folder that an earlier job and a stranger wrote into, and a
// later job over the same root.
type world struct {
	c       *control
	job     lease.Job
	before  map[string]string
	allowed map[string][]string // path → what may be seen there
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{c: newControl(), allowed: map[string][]string{}}
	out := t.TempDir()
	write(t, out+"/s.srt", "mine")
	gathered(t, w.c, library(t, w.c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}, {path: "gone.mp4", says: "gone"}}), out)
	w.before = tree(t, out)
	w.job = library(t, w.c, jobB, "films", "w", w.movies())
	return w
}

func (w *world) movies() []movie {
	return []movie{
		{path: "a.mp4", says: "uno dos"}, {path: "d/e/c.mp4", says: "three"}, {path: "d/e/C.mkv", says: "four"}, {path: "s.mp4", says: "five"},
		{path: "still.mp4"}, {path: "x.mp4", ends: Failed},
	}
}

// folder is a copy of the output folder as it was before.
func (w *world) folder(t *testing.T) string {
	t.Helper()
	out := memory(t)
	for p, text := range w.before {
		write(t, filepath.Join(out, p), text)
	}
	return out
}

// memory is a temporary folder that is quick to sync, where there is one: these
// tests sync some 20,000 times.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gather")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// run gathers a job in two passes, the first one while it runs.
func (w *world) run(job lease.Job, out string, step func(f *folder, op, name string) error) (g *Gatherer, err error) {
	if g, err = open(w.c, job, out, usual, step); err != nil {
		return nil, err
	}
	if err := w.half(g); err != nil {
		return g, err
	}
	_, err = g.Pass(context.Background())
	return g, err
}

// half runs a pass while most of the job's films are still being worked on.
func (w *world) half(g *Gatherer) error {
	id := g.job.ID
	all, state := w.c.rows[id], w.c.jobs[id].State
	defer func() { w.c.rows[id], w.c.jobs[id].State = all, state }()
	w.c.jobs[id].State = lease.JobRunning
	w.c.rows[id] = append([]lease.Shard{}, all...)
	for i := range all {
		if s := &w.c.rows[id][i]; s.Item > 1 {
			s.State, s.Planned = lease.Ready, 0
		}
	}
	_, err := g.Pass(context.Background())
	return err
}

// whole fails the test when a name that others see has contents it must not have.
func (w *world) whole(t *testing.T, out string) {
	t.Helper()
next:
	for p, got := range tree(t, out) {
		if strings.HasPrefix(p, workDir+"/") {
			continue
		}
		if p == manifestName {
			lines(t, out) // it reads
			continue
		}
		for _, want := range w.allowed[p] {
			if got == want {
				continue next
			}
		}
		t.Fatalf("%q is to be seen with %q", p, got)
	}
}

func (w *world) allow(tree map[string]string) {
	for p, text := range tree {
		w.allowed[p] = append(w.allowed[p], text)
	}
}

func TestCrashAtEveryStep(t *testing.T) {
	w := newWorld(t)
	undisturbed := w.folder(t)
	gathered(t, w.c, w.job, undisturbed)
	want := tree(t, undisturbed)
	w.allow(w.before)
	w.allow(want)
	watched := w.folder(t)
	g, err := w.run(w.job, watched, func(*folder, string, string) error {
		w.whole(t, watched)
		return nil
	})
	if err = errors.Join(err, g.Close()); err != nil {
		t.Fatal(err)
	}
	sameTree(t, tree(t, watched), want)
	other := library(t, w.c, lease.JobID(1<<32|3), "films", "another", w.movies())
	if s := lines(t, undisturbed)["s.mp4"].Name; s != "s.mp4" || want["s.srt"] != "mine" {
		t.Fatalf("name of s.mp4 = %q, tree %q", s, want)
	}
	for _, mode := range []string{"killed", "once, then again", "killed, then another job", "once, then another job"} {
		t.Run(mode, func(t *testing.T) {
			steps := 0
			for n := 1; ; n++ {
				out := w.folder(t)
				at := 0
				step := func(f *folder, op, name string) error {
					at++
					if at < n || at > n && strings.HasPrefix(mode, "once") {
						return nil
					}
					if at == n && strings.HasPrefix(mode, "killed") && op == "sync" {
						tear(t, f, name)
					}
					return errInjected
				}
				g, err := w.run(w.job, out, step)
				if err != nil && !errors.Is(err, errInjected) && !strings.Contains(err.Error(), errInjected.Error()) {
					t.Fatalf("step %d: %v", n, err)
				}
				if g != nil && mode == "once, then again" {
					if _, err := g.Pass(t.Context()); err != nil {
						t.Fatalf("step %d: Pass = %v", n, err)
					}
				}
				if g != nil {
					if err := g.Close(); err != nil && !errors.Is(err, errInjected) {
						t.Fatalf("step %d: Close = %v", n, err)
					}
				}
				w.whole(t, out)
				job := w.job
				if strings.HasSuffix(mode, "another job") {
					job = other
				}
				gathered(t, w.c, job, out)
				got := tree(t, out)
				if job.ID == other.ID {
					sameTree(t, essence(t, got), essence(t, want))
				} else {
					sameTree(t, got, want)
				}
				if p, err := VerifyOutputs(out); len(p) > 0 || err != nil {
					t.Fatalf("VerifyOutputs = %v, %v", p, err)
				}
				if t.Failed() {
					t.Fatalf("at step %d", n)
				}
				if at < n {
					break
				}
				steps = n
			}
			if steps < 100 {
				t.Errorf("only %d steps", steps)
			}
			t.Logf("%d steps", steps)
		})
	}
}

// tear leaves a file as a kill may leave it that was not synced.
func tear(t *testing.T, f *folder, name string) {
	t.Helper()
	fi, err := f.root.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	size := fi.Size() / 2
	if name == journalName {
		size = fi.Size() - 20 // what was synced before stays
	}
	if err := os.Truncate(filepath.Join(f.root.Name(), name), size); err != nil {
		t.Fatal(err)
	}
}

// essence is a tree without what may differ from run to run: provenance, and the
// digests of files that have it.
func essence(t *testing.T, tree map[string]string) map[string]string {
	t.Helper()
	tree = maps.Clone(tree)
	for p, text := range tree {
		switch {
		case strings.HasSuffix(p, suffixJSON):
			var doc document
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatal(err)
			}
			doc.Provenance = provenance{Source: Source{Path: doc.Path}}
			tree[p] = string(encoded(t, doc))
		case p == manifestName:
			var all []string
			for l := range strings.Lines(text) {
				var line Line
				if err := json.Unmarshal([]byte(l), &line); err != nil {
					t.Fatal(err)
				}
				for i, o := range line.Outputs {
					if strings.HasSuffix(string(o.Path), suffixJSON) {
						line.Outputs[i] = Output{Path: o.Path}
					}
				}
				line.All, line.Sum = "", "" // of the others' digests
				all = append(all, string(encoded(t, line)))
			}
			tree[p] = strings.Join(all, "\n")
		}
	}
	return tree
}

// What a killed gathering wrote for films that a later job has not come to yet is
// not taken for a stranger's when that one is killed too.
func TestKilledTwice(t *testing.T) {
	w := newWorld(t)
	out := w.folder(t)
	killed := false
	g, err := w.run(w.job, out, func(_ *folder, op, name string) error {
		if killed = killed || op == "remove" && strings.HasPrefix(name, tmpDir) && exists(out, "still.summary.md"); killed {
			return errInjected
		}
		return nil
	})
	if !errors.Is(err, errInjected) {
		t.Fatalf("run = %v", err)
	}
	_ = g.Close()
	other := library(t, w.c, lease.JobID(1<<32|3), "films", "another", w.movies())
	if g, err = open(w.c, other, out, usual, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.half(g); err != nil {
		t.Fatal(err)
	}
	if err := g.folder.lock.Close(); err != nil { // it is killed too
		t.Fatal(err)
	}
	gathered(t, w.c, library(t, w.c, lease.JobID(1<<32|4), "films", "third", w.movies()), out)
	if l := lines(t, out)["still.mp4"]; l.Name != "still" {
		t.Errorf("line = %+v", l)
	}
	if p, err := VerifyOutputs(out); len(p) > 0 || err != nil {
		t.Errorf("VerifyOutputs = %v, %v", p, err)
	}
}

func exists(out string, p inventory.Path) bool {
	_, err := os.Lstat(filepath.Join(out, string(p)))
	return err == nil
}
