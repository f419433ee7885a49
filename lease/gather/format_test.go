package gather

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"macbatch/transcribe"
)

// gatheredAs gathers a job in the given formats.
func gatheredAs(t *testing.T, c *control, list, out string, films []movie) map[string]string {
	t.Helper()
	job := library(t, c, jobA, "films", "w", films)
	formats, err := ParseFormats(list)
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, job, out, formats)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return tree(t, out)
}

func sorted(files map[string]string) string {
	var all []string
	for n := range files {
		all = append(all, n)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestFormats: what is asked for is written, what is there is kept, and comes back.
func TestFormats(t *testing.T) {
	films := []movie{{path: "a.mp4", says: "one two *three*"}}
	c, out := newControl(), t.TempDir()
	for _, step := range []struct{ list, remove, want string }{
		{"srt", "", "a.srt a.summary.md manifest.jsonl"},
		{"tsv,md", "", "a.srt a.summary.md a.text.md a.tsv manifest.jsonl"},
		{"tsv", "a.srt", "a.srt a.summary.md a.text.md a.tsv manifest.jsonl"},
		{AllFormats(), "a.tsv", "a.json a.srt a.summary.md a.text.md a.tsv a.txt a.vtt manifest.jsonl"},
	} {
		if step.remove != "" {
			if err := os.Remove(filepath.Join(out, step.remove)); err != nil {
				t.Fatal(err)
			}
		}
		files := gatheredAs(t, c, step.list, out, films)
		if got := sorted(files); got != step.want {
			t.Fatalf("--formats %s: %s, want %s", step.list, got, step.want)
		}
		if l := lines(t, out)["a.mp4"]; len(l.Outputs) != len(files)-1 {
			t.Fatalf("--formats %s: the manifest tells of %+v", step.list, l.Outputs)
		}
	}
	files := tree(t, out)
	if !strings.HasPrefix(files["a.text.md"], "# a\n\n**00:00:01** ") || !strings.Contains(files["a.text.md"], `\*three\*`) {
		t.Errorf("Markdown = %q", files["a.text.md"])
	}
	if !strings.HasPrefix(files["a.tsv"], "start\tend\ttext\n1000\t") {
		t.Errorf("TSV = %q", files["a.tsv"])
	}
}

func TestParseFormats(t *testing.T) {
	if got, err := ParseFormats(" vtt, srt,vtt"); err != nil || !slices.Equal(got, []Format{"vtt", "srt"}) {
		t.Fatalf("ParseFormats = %q, %v", got, err)
	}
	for _, in := range []string{"", "srt,", "doc", "SRT"} {
		if got, err := ParseFormats(in); err == nil {
			t.Errorf("ParseFormats(%q) = %q", in, got)
		}
	}
}

// TestDoubts: a transcript in doubt is told of in the manifest, with the evidence.
func TestDoubts(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{
		{path: "good.mp4", says: "one two three"},
		{path: "odd.mp4", says: "again and again", doubt: transcribe.Doubt{Kind: transcribe.Repeats, FromMS: 1000, ToMS: 1500, Evidence: `9 times "again"`}},
	})
	if r := gathered(t, c, job, out); r.Suspicious != 1 {
		t.Errorf("%d suspicious, want 1", r.Suspicious)
	}
	got := lines(t, out)
	if l := got["good.mp4"]; l.Flags != nil || l.Doubts != nil || l.Score != nil {
		t.Errorf("line of the good film: %+v", l)
	}
	l := got["odd.mp4"]
	if l.Outcome != Done || !slices.Contains(l.Flags, transcribe.Suspicious) || len(l.Doubts) == 0 || l.Doubts[0].Evidence != `9 times "again"` || l.Score == nil || *l.Score >= 1 {
		t.Errorf("line of the odd film: %+v", l)
	}
	if !strings.Contains(tree(t, out)["odd.json"], `"suspicious"`) {
		t.Error("the film's JSON does not tell")
	}
}
