package gather

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"macbatch/transcode/inventory"
)

func TestStrangers(t *testing.T) {
	for _, tt := range []struct {
		what  string
		path  inventory.Path
		there func(t *testing.T, out, elsewhere string)
		want  string
	}{
		{"a file", "d/a.mp4", func(t *testing.T, out, _ string) { write(t, out+"/d/a.json", "mine") }, "d/a.mp4"},
		{"two files", "d/a.mp4", func(t *testing.T, out, _ string) {
			write(t, out+"/d/a.json", "mine")
			write(t, out+"/d/a.mp4.txt", "mine")
		}, "d/a.mp4" + mark("d/a.mp4")},
		{"three files", "d/a.mp4", func(t *testing.T, out, _ string) {
			write(t, out+"/d/a.json", "mine")
			write(t, out+"/d/a.mp4.txt", "mine")
			write(t, out+"/d/a.mp4"+mark("d/a.mp4")+".summary.md", "mine")
		}, "d/a.mp4" + mark("d/a.mp4") + "-2"},
		{"an empty file", "a.mp4", func(t *testing.T, out, _ string) { write(t, out+"/a.srt", "") }, "a.mp4"},
		{"a folder", "a.mp4", func(t *testing.T, out, _ string) { write(t, out+"/a.vtt/x", "mine") }, "a.mp4"},
		{"a link", "a.mp4", func(t *testing.T, out, elsewhere string) { link(t, elsewhere+"/x", out+"/a.vtt") }, "a.mp4"},
		{"a file for a folder", "d/e/a.mp4", func(t *testing.T, out, _ string) { write(t, out+"/d/e", "mine") }, "a.mp4" + mark("d/e/a.mp4")},
		{"the same, its name taken", "d/e/a.mp4", func(t *testing.T, out, _ string) {
			write(t, out+"/d/e", "mine")
			write(t, out+"/a.mp4"+mark("d/e/a.mp4")+".txt", "mine")
		}, "a.mp4" + mark("d/e/a.mp4") + "-2"},
		{"a link out for a folder", "d/a.mp4", func(t *testing.T, out, elsewhere string) { link(t, elsewhere, out+"/d") }, "a.mp4" + mark("d/a.mp4")},
		{"a broken link for a folder", "d/a.mp4", func(t *testing.T, out, _ string) { link(t, "nowhere", out+"/d") }, "a.mp4" + mark("d/a.mp4")},
		{"a link within for a folder", "d/a.mp4", func(t *testing.T, out, _ string) {
			write(t, out+"/e/x", "mine")
			link(t, "e", out+"/d")
		}, "d/a"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			c, out, elsewhere := newControl(), t.TempDir(), t.TempDir()
			write(t, elsewhere+"/x", "mine")
			tt.there(t, out, elsewhere)
			before := tree(t, out)
			job := library(t, c, jobA, "films", "w", []movie{{path: tt.path, says: "one"}, {path: "z.mp4", says: "two"}})
			for pass, written := range []int{2, 0} {
				if r := gathered(t, c, job, out); r.Written != written || r.ByOutcome[Done] != 2 {
					t.Errorf("Pass %d = %+v", pass, r)
				}
			}
			if l := lines(t, out)[tt.path]; string(l.Name) != tt.want {
				t.Errorf("name of %q = %q, want %q", tt.path, l.Name, tt.want)
			}
			after := tree(t, out)
			for p, want := range before {
				if after[p] != want {
					t.Errorf("%q = %q, want %q", p, after[p], want)
				}
			}
			sameTree(t, tree(t, elsewhere), map[string]string{"x": "mine"})
			if p, err := VerifyOutputs(out); len(p) > 0 || err != nil {
				t.Errorf("VerifyOutputs = %v, %v", p, err)
			}
		})
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

func TestAFileThatIsAsItWouldBe(t *testing.T) {
	c, out, want := newControl(), t.TempDir(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}})
	gathered(t, c, job, want)
	write(t, out+"/a.srt", tree(t, want)["a.srt"])
	gathered(t, c, job, out)
	sameTree(t, tree(t, out), tree(t, want))
}

func TestEditedOutputs(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}})
	gathered(t, c, job, out)
	whole := tree(t, out)
	write(t, out+"/a.srt", "edited")
	if r := gathered(t, c, job, out); r.Edited != 1 || r.Written != 0 {
		t.Errorf("Pass = %+v", r)
	}
	if err := os.Remove(out + "/a.vtt"); err != nil { // what is missing comes back beside it
		t.Fatal(err)
	}
	if r := gathered(t, c, job, out); r.Edited != 1 || r.Written != 1 {
		t.Errorf("Pass = %+v", r)
	}
	whole["a.srt"] = "edited"
	sameTree(t, tree(t, out), whole)
	// Another transcript does not replace the edited one.
	gathered(t, c, library(t, c, jobB, "films", "w", []movie{{path: "a.mp4", says: "uno"}}), out)
	got := tree(t, out)
	if got["a.srt"] != "edited" || got["a.mp4.txt"] != "uno\n" {
		t.Errorf("tree = %q", got)
	}
	if l := lines(t, out)["a.mp4"]; l.Name != "a.mp4" {
		t.Errorf("line = %+v", l)
	}
}

// An earlier job's outputs are replaced by a later one's, and survive its failure.
func TestLaterJobs(t *testing.T) {
	c, out := newControl(), t.TempDir()
	for i, tt := range []struct {
		m       movie
		outcome Outcome
		outputs int
		text    string
	}{
		{movie{path: "a.mp4", says: "one"}, Done, 5, "one\n"},
		{movie{path: "a.mp4", says: "two"}, Done, 5, "two\n"},
		{movie{path: "a.mp4", ends: Failed}, Failed, 5, "two\n"},
		{movie{path: "a.mp4", says: "three", ends: Partial}, Partial, 5, "three\n"},
		{movie{path: "a.mp4", says: "four"}, Done, 5, "four\n"},
	} {
		gathered(t, c, library(t, c, jobB, "films", "w", []movie{tt.m}), out)
		l := lines(t, out)["a.mp4"]
		if l.Outcome != tt.outcome || len(l.Outputs) != tt.outputs || tree(t, out)["a.txt"] != tt.text {
			t.Errorf("job %d: line %+v, tree %q", i, l, tree(t, out))
		}
		if n := len(tree(t, out)); n != 6 {
			t.Errorf("job %d: there are %d files, want 6", i, n)
		}
	}
}

func TestAnothersManifest(t *testing.T) {
	c := newControl()
	job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}})
	for _, text := range []string{`{"path":"x","sha256":"y"}` + "\n", "\n", "hello", `{"source":{"root":"r","path":"../x"},"outcome":"done"}`} {
		out := t.TempDir()
		write(t, out+"/manifest.jsonl", text)
		if g, err := New(c, job, out, usual); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("New beside manifest %q = %v, %v", text, g, err)
		}
		sameTree(t, tree(t, out), map[string]string{manifestName: text})
	}
}

func TestPoorFileSystems(t *testing.T) {
	for what, step := range map[string]func(f *folder, op, name string) error{
		"no links": func(_ *folder, op, _ string) error {
			if op == "link" {
				return syscall.EPERM
			}
			return nil
		},
		"UTF-8 only": func(_ *folder, op, name string) error {
			if op != "sync folder" && strings.ContainsRune(name, '\uFFFD') {
				return &fs.PathError{Op: op, Path: name, Err: syscall.EILSEQ}
			}
			return nil
		},
	} {
		c, out := newControl(), t.TempDir()
		write(t, out+"/b.srt", "mine")
		job := library(t, c, jobA, "films", "w", []movie{{path: "d/\xff.mp4", says: "one"}, {path: "b.mp4", says: "two"}, {path: "\xff/c.mp4", says: "three"}})
		for range 2 {
			g, err := open(c, job, out, usual, step)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := g.Pass(t.Context()); err != nil || r.ByOutcome[Done] != 3 {
				t.Errorf("%s: Pass = %+v, %v", what, r, err)
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := VerifyOutputs(out); len(p) > 0 || err != nil {
			t.Errorf("%s: VerifyOutputs = %v, %v", what, p, err)
		}
		if got := tree(t, out); got["b.srt"] != "mine" || got["b.mp4.txt"] != "two\n" || len(got) != 3*5+2 {
			t.Errorf("%s: tree = %q", what, got)
		}
	}
}

// A file that comes between the look and the link is not written over.
func TestAFileThatComesInBetween(t *testing.T) {
	for _, links := range []error{nil, syscall.EPERM} {
		c, out := newControl(), t.TempDir()
		job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}})
		g, err := open(c, job, out, usual, func(_ *folder, op, name string) error {
			if op == "link" && name == "a.vtt" {
				write(t, filepath.Join(out, name), "mine")
			}
			if op == "link" {
				return links
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, out); got["a.vtt"] != "mine" || got["a.mp4.txt"] != "one\n" {
			t.Errorf("tree = %q", got)
		}
	}
}

func TestNotAFolder(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", nil)
	write(t, out+"/x", "mine")
	write(t, out+"/y/.macbatch", "mine")
	for _, dir := range []string{"/x", "/y"} {
		if _, err := New(c, job, out+dir, usual); err == nil {
			t.Errorf("New into %s = nil", dir)
		}
	}
	link(t, t.TempDir(), out+"/y/d")
	if err := os.Remove(out + "/y/.macbatch"); err != nil {
		t.Fatal(err)
	}
	link(t, out+"/d", out+"/y/.macbatch")
	if _, err := New(c, job, out+"/y", usual); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("New over a link = %v", err)
	}
}
