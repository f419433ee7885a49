package gather

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTampered: whatever was done to a folder of results is named; files of others are
// counted and nothing else.
func TestTampered(t *testing.T) {
	edit := func(old, new string) func(t *testing.T, out string) {
		return func(t *testing.T, out string) {
			name := filepath.Join(out, manifestName)
			b, err := os.ReadFile(name)
			if err != nil || !bytes.Contains(b, []byte(old)) {
				t.Fatalf("%q is not in %s, %v", old, b, err)
			}
			write(t, name, strings.Replace(string(b), old, new, 1))
		}
	}
	lineEdit := func(fn func(lines []string) []string) func(t *testing.T, out string) {
		return func(t *testing.T, out string) {
			name := filepath.Join(out, manifestName)
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, name, strings.Join(fn(strings.SplitAfter(strings.TrimSuffix(string(b), "\n")+"\n", "\n")[:3]), ""))
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, out string)
		want string // kind and subject of each problem
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"a stranger", func(t *testing.T, out string) { write(t, out+"/d/notes.txt", "mine") }, ""},
		{"an output is changed", func(t *testing.T, out string) { write(t, out+"/a.txt", "One.\n") }, "output_changed a.txt"},
		{"an output is cut short", func(t *testing.T, out string) { truncate(t, out+"/d/b.json", 20) }, "output_changed d/b.json"},
		{"an output is empty", func(t *testing.T, out string) { truncate(t, out+"/a.srt", 0) }, "output_changed a.srt"},
		{"an output is gone", func(t *testing.T, out string) { remove(t, out+"/a.vtt") }, "output_missing a.vtt"},
		{"an output has another name", func(t *testing.T, out string) { rename(t, out+"/a.vtt", out+"/c.vtt") }, "output_missing a.vtt"},
		{"two outputs have each other's names", func(t *testing.T, out string) {
			rename(t, out+"/a.txt", out+"/x")
			rename(t, out+"/d/b.txt", out+"/a.txt")
			rename(t, out+"/x", out+"/d/b.txt")
		}, "output_changed a.txt, output_changed d/b.txt"},
		{"an output is a link to its own bytes", func(t *testing.T, out string) {
			rename(t, out+"/a.txt", out+"/x")
			link(t, "x", out+"/a.txt")
		}, "output_missing a.txt"},
		{"a folder is gone", func(t *testing.T, out string) {
			if err := os.RemoveAll(out + "/d"); err != nil {
				t.Fatal(err)
			}
		}, "output_missing d/b.json, output_missing d/b.srt, output_missing d/b.summary.md, output_missing d/b.txt, output_missing d/b.vtt"},
		{"the manifest tells another outcome", edit(`"outcome":"done"`, `"outcome":"failed"`), "manifest_changed manifest.jsonl"},
		{"the manifest forgets an output", edit(`{"path":"a.vtt"`, `{"path":"a.txt"`), "output_changed a.txt, manifest_changed manifest.jsonl"},
		{"the manifest has a blank more", edit(`,"outcome"`, `, "outcome"`), "manifest_changed manifest.jsonl"},
		{"the manifest lost its first line", lineEdit(func(l []string) []string { return l[1:] }), "manifest_changed manifest.jsonl"},
		{"the manifest lost a line", lineEdit(func(l []string) []string { return []string{l[0], l[2]} }), "manifest_changed manifest.jsonl"},
		{"the manifest lost its last line", lineEdit(func(l []string) []string { return l[:2] }), "manifest_changed manifest.jsonl"},
		{"the manifest has a line twice", lineEdit(func(l []string) []string { return []string{l[0], l[0], l[1], l[2]} }), "manifest_changed manifest.jsonl"},
		{"the manifest has another order", lineEdit(func(l []string) []string { return []string{l[1], l[0], l[2]} }), "manifest_changed manifest.jsonl"},
		{"the manifest is of an earlier version", lineEdit(func(l []string) []string {
			for i := range l {
				at := strings.Index(l[i], `,"all":`)
				if at < 0 {
					at = strings.Index(l[i], `,"sum":`)
				}
				l[i] = l[i][:at] + "}\n"
			}
			return l
		}), ""},
		{"a gathering was interrupted", func(t *testing.T, out string) { write(t, out+"/"+journalName, "{}\n") }, "gathering_unfinished manifest.jsonl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctl, out := newControl(), t.TempDir()
			gathered(t, ctl, library(t, ctl, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}, {path: "d/b.mp4", says: "two"}, {path: "e.mp4", says: "three", ends: Failed}}), out)
			c.do(t, out)
			problems, err := VerifyOutputs(out)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range problems {
				got = append(got, p.Kind+" "+p.Subject)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("problems %+v, want %q", problems, c.want)
			}
		})
	}
}

func TestCountStrangers(t *testing.T) {
	ctl, out := newControl(), t.TempDir()
	gathered(t, ctl, library(t, ctl, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}}), out)
	for _, want := range []int{0, 1, 2, 3} {
		known, err := Outputs(out)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := Strangers(out, known); n != want || err != nil {
			t.Errorf("strangers %d, %v, want %d", n, err, want)
		}
		write(t, out+"/d/"+strings.Repeat("x", want+1), "mine")
	}
	link(t, "nowhere", out+"/link")
	write(t, out+"/"+workDir+"/tmp/x", "macbatch's")
	known, err := Outputs(out)
	if n, err2 := Strangers(out, known); n != 5 || err != nil || err2 != nil {
		t.Errorf("strangers %d, %v, %v, want 5", n, err, err2)
	}
}

func truncate(t *testing.T, name string, n int64) {
	t.Helper()
	if err := os.Truncate(name, n); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
