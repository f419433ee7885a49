package gather

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/transcode/inventory"
	"macbatch/transcribe/subtitle"
)

const jobA, jobB = lease.JobID(1<<32 | 1), lease.JobID(1<<32 | 2)

func TestOutcomes(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{
		{path: "good.mp4", says: "one two three"}, {path: "mute.mp4", ends: NoAudio}, {path: "still.mp4"},
		{path: "broken.mp4", ends: Failed}, {path: "half.mp4", says: "four five", ends: Partial},
		{path: "canceled.mp4", ends: Canceled}, {path: "parts.mp4", says: "six seven"},
	}, inventory.Skipped{Path: "._good.mp4", Reason: inventory.AppleDouble}, inventory.Skipped{Path: "z.mp4", Reason: inventory.SameFile, Of: "good.mp4"})
	fail(c, jobA, "parts.mp4", pipeline.Transcribe)
	r := gathered(t, c, job, out)
	if r.Films != 7 || r.Pending != 0 || r.Written != 3 || r.Unchanged != 0 || r.ByOutcome[Skipped] != 2 || r.ByOutcome[Failed] != 2 {
		t.Errorf("Pass = %+v", r)
	}
	got := lines(t, out)
	for p, want := range map[inventory.Path]struct {
		outcome Outcome
		reason  string
		outputs int
	}{
		"good.mp4":     {Done, "", 5},
		"mute.mp4":     {NoAudio, "the film has no sound", 0},
		"still.mp4":    {NoSpeech, "nobody speaks in it", 5},
		"broken.mp4":   {Failed, "transcode (permanent): cut off", 0},
		"half.mp4":     {Partial, "no summary: summarize (permanent): no model", 4},
		"canceled.mp4": {Canceled, "not wanted", 0},
		"parts.mp4":    {Failed, "no transcript is written, for 1 of its 2 parts failed: transcribe (permanent): engine broke", 0},
		"._good.mp4":   {Skipped, "apple double", 0},
		"z.mp4":        {Skipped, "same file as good.mp4", 0},
	} {
		l := got[p]
		if l == nil || l.Outcome != want.outcome || l.Reason != want.reason || len(l.Outputs) != want.outputs {
			t.Errorf("line of %q = %+v, want %+v", p, l, want)
		}
	}
	if len(got) != 9 {
		t.Errorf("the manifest has %d lines, want 9", len(got))
	}
	if n := len(tree(t, out)); n != 5+5+4+1 {
		t.Errorf("there are %d files, want 15", n)
	}
	if l := got["good.mp4"]; l.DurationMS != 2*partMS || l.Source.Size == 0 || l.Source.Inode != 7 {
		t.Errorf("line of good.mp4 = %+v", l)
	}
}

// fail turns the last done shard of a kind of a film into a failed one.
func fail(c *control, id lease.JobID, p inventory.Path, kind lease.Kind) {
	for i := len(c.rows[id]) - 1; i >= 0; i-- {
		s := &c.rows[id][i]
		if s.Need.Kind == kind && strings.Contains(string(s.Payload), string(p)) {
			s.State, s.Class, s.Reason, s.Result = lease.Failed, lease.Permanent, "engine broke", lease.Result{}
			return
		}
	}
}

func TestContents(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{{path: "d/good.mp4", says: "one two three"}})
	gathered(t, c, job, out)
	files := tree(t, out)
	cues, err := subtitle.ParseSRT(strings.NewReader(files["d/good.srt"]))
	if err != nil || len(cues) == 0 || cues[0].StartMS != 1000 {
		t.Errorf("SRT = %+v, %v", cues, err)
	}
	if _, err := subtitle.ParseVTT(strings.NewReader(files["d/good.vtt"])); err != nil {
		t.Errorf("VTT: %v", err)
	}
	if got := strings.Fields(files["d/good.txt"]); strings.Join(got, " ") != "one two three" {
		t.Errorf("text = %q", got)
	}
	if !strings.Contains(files["d/good.summary.md"], "three") {
		t.Errorf("summary = %q", files["d/good.summary.md"])
	}
	var doc document
	if err := json.Unmarshal([]byte(files["d/good.json"]), &doc); err != nil {
		t.Fatal(err)
	}
	p := doc.Provenance
	if len(doc.Segments) != 3 || doc.Segments[2].StartMS != partMS+1000 || p.Transcode.Worker != "w" || len(p.Parts) != 2 ||
		p.Parts[1].Fence != 104 || p.Parts[1].Engine != "test" || p.Summary == nil || p.Source.Path != "d/good.mp4" {
		t.Errorf("JSON = %+v", doc)
	}
}

func TestEveryName(t *testing.T) {
	c, out := newControl(), t.TempDir()
	var movies []movie
	for _, p := range []inventory.Path{
		"-rf.mp4", "a:b.mp4", "%d.mp4", `"q'.mp4`, "$(touch x).mp4", "two\nlines.mp4", "🎬.mp4", ".hidden.mp4", " lead.mp4", "trail .mp4",
		"\xff\xfe.mp4", "percent:x.mp4", "movie.mp4", "movie.mkv", "d/movie.mp4", "UP.MP4", "up.mp4", "e\u0301.mp4", "\u00e9.mp4",
		inventory.Path(strings.Repeat("x", 251) + ".mp4"), inventory.Path(strings.Repeat("d", 255) + "/" + strings.Repeat("ö", 125) + ".mp4"),
		"movie.srt/in.mp4", "in.mp4/in.mp4", "back\\slash.mp4", ".macbatch/w.mp4", "manifest.jsonl/m.mp4",
	} {
		movies = append(movies, movie{path: p, says: "say " + text(p)})
	}
	job := library(t, c, jobA, "films", "w", movies)
	gathered(t, c, job, out)
	files := tree(t, out)
	if len(files) != 5*len(movies)+1 {
		t.Errorf("%d files for %d films", len(files), len(movies))
	}
	got := lines(t, out)
	for _, m := range movies {
		l := got[m.path]
		if l == nil || l.Outcome != Done || len(l.Outputs) != 5 {
			t.Errorf("line of %q = %+v", m.path, l)
			continue
		}
		var doc document
		if err := json.Unmarshal([]byte(files[string(l.Name)+suffixJSON]), &doc); err != nil || doc.Path != m.path {
			t.Errorf("%q is of %q, want %q: %v", string(l.Name)+suffixJSON, doc.Path, m.path, err)
		}
	}
	if p, err := VerifyOutputs(out); len(p) > 0 || err != nil {
		t.Errorf("VerifyOutputs = %v, %v", p, err)
	}
}

func TestAgainWritesNothing(t *testing.T) {
	c, out := newControl(), t.TempDir()
	movies := []movie{{path: "a.mp4", says: "one"}, {path: "still.mp4"}, {path: "half.mp4", says: "two", ends: Partial}, {path: "x.mp4", ends: Failed}}
	skip := inventory.Skipped{Path: "notes.txt", Reason: inventory.NotMedia}
	job := library(t, c, jobA, "films", "w", movies, skip)
	if r := gathered(t, c, job, out); r.Written != 3 {
		t.Errorf("first Pass = %+v", r)
	}
	before := stats(t, out)
	again := library(t, c, jobB, "films", "another", movies, skip)
	for i := range c.rows[jobB] { // it reused all results
		c.rows[jobB][i].From = lease.ShardID{Job: jobA, Seq: uint32(i + 1)}
	}
	for _, j := range []lease.Job{job, again} {
		c.read = nil
		if r := gathered(t, c, j, out); r.Written != 0 || r.Unchanged != 3 || r.Edited != 0 {
			t.Errorf("Pass of %v = %+v", j.ID, r)
		}
		if len(c.read) != 1 {
			t.Errorf("Pass of %v read the results of %v, want the scan's only", j.ID, c.read)
		}
		sameTree(t, stats(t, out), before)
	}
	// Into an empty folder the reused results are told to be whose they were.
	fresh := t.TempDir()
	gathered(t, c, again, fresh)
	sameTree(t, tree(t, fresh), tree(t, out))
	// Also when the job they come from was dropped, except for who and when.
	delete(c.jobs, jobA)
	gathered(t, c, again, t.TempDir())
	gathered(t, c, again, out)
	sameTree(t, stats(t, out), before)
}

func TestProgress(t *testing.T) {
	c, out := newControl(), t.TempDir()
	movies := []movie{{path: "a.mp4", says: "one"}, {path: "b.mp4", says: "two"}, {path: "c.mp4", ends: NoAudio}}
	job := library(t, c, jobA, "films", "w", movies)
	want := t.TempDir()
	gathered(t, c, job, want)

	all, done := c.rows[jobA], c.jobs[jobA].State
	c.jobs[jobA].State, c.rows[jobA] = lease.JobRunning, nil
	g, err := New(c, job, out, usual)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for n := range all { // shards end one after the other
		c.rows[jobA] = append([]lease.Shard{}, all...)
		for i := n + 1; i < len(all); i++ {
			c.rows[jobA][i].State, c.rows[jobA][i].Result, c.rows[jobA][i].Planned = lease.Blocked, lease.Result{}, 0
		}
		if s := all[n]; s.Need.Kind == pipeline.Transcode && s.Planned > 0 { // and its plan is carried out later
			c.rows[jobA] = c.rows[jobA][:n+1]
		}
		if n == len(all)-1 {
			c.jobs[jobA].State = done
		}
		c.read = nil
		r, err := g.Pass(t.Context())
		if err != nil || r.Films+r.Pending != 3 {
			t.Fatalf("Pass %d = %+v, %v", n, r, err)
		}
		if r.Unchanged > 0 {
			t.Errorf("Pass %d = %+v: it looked at a film again", n, r)
		}
		if r.Written == written && n > 0 && len(c.read) > 0 {
			t.Errorf("Pass %d read %v for nothing", n, c.read)
		}
		written = r.Written
		if got := lines(t, out); len(got) != r.Films {
			t.Errorf("Pass %d: the manifest has %d lines, want %d", n, len(got), r.Films)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	sameTree(t, tree(t, out), tree(t, want))
}

func TestTwoJobsOneFolder(t *testing.T) {
	c, out := newControl(), t.TempDir()
	a := library(t, c, jobA, "films", "w", []movie{{path: "x.mp4", says: "films"}, {path: "only.mp4", says: "one"}})
	b := library(t, c, jobB, "talks", "w", []movie{{path: "x.mp4", says: "talks"}, {path: "only.srt/y.mp4", says: "two"}})
	gathered(t, c, a, out)
	first := tree(t, out)
	gathered(t, c, b, out)
	gathered(t, c, a, out)
	got := tree(t, out)
	for p, want := range first {
		if p != manifestName && got[p] != want {
			t.Errorf("%q = %q, want %q", p, got[p], want)
		}
	}
	if got["x.txt"] != "films\n" || got["x.mp4.txt"] != "talks\n" || len(got) != 4*5+1 {
		t.Errorf("there are %d files: x.txt %q, x.mp4.txt %q", len(got), got["x.txt"], got["x.mp4.txt"])
	}
	if p, err := VerifyOutputs(out); len(p) > 0 || err != nil {
		t.Errorf("VerifyOutputs = %v, %v", p, err)
	}
}

func TestInsideTheRoot(t *testing.T) {
	for _, in := range []string{"", "texts/"} {
		c, out := newControl(), t.TempDir()
		movies := []movie{{path: "a.mp4", says: "one"}}
		other := inventory.Skipped{Path: "notes.txt", Reason: inventory.NotMedia}
		lock := inventory.Skipped{Path: inventory.Path(in + lockName), Reason: inventory.NotMedia}
		gathered(t, c, library(t, c, jobA, "films", "w", movies, lock, other), out)
		before := stats(t, out)
		seen := []inventory.Skipped{other, {Path: inventory.Path(in + "a.srt.bak"), Reason: inventory.NotMedia}}
		for p := range before {
			seen = append(seen, inventory.Skipped{Path: inventory.Path(in + p), Reason: inventory.NotMedia})
		}
		r := gathered(t, c, library(t, c, jobB, "films", "w", movies, seen[0], seen[2], seen[3], seen[4], seen[5], seen[6], seen[7]), out)
		if r.ByOutcome[Skipped] != 1 || r.Written != 0 {
			t.Errorf("Pass in %q = %+v, want one skipped", in, r)
		}
		sameTree(t, stats(t, out), before)
		gathered(t, c, library(t, c, jobB, "films", "w", movies, seen...), out)
		if got := lines(t, out); len(got) != 3 {
			t.Errorf("lines in %q = %v, want the film's and two others", in, got)
		}
	}
}

func TestCanceledJob(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{
		{path: "0.mp4", says: "zero"}, {path: "a.mp4", says: "one"}, {path: "b.mp4", says: "two"}, {path: "c.mp4", says: "three"},
	})
	c.rows[jobA][4].State = lease.Leased // the summary of 0
	c.jobs[jobA].State, c.jobs[jobA].Canceled, c.jobs[jobA].Reason = lease.JobCanceled, true, "changed my mind"
	rows := c.rows[jobA]
	c.rows[jobA] = rows[:len(rows)-4] // c was never planned
	b := &c.rows[jobA][len(c.rows[jobA])-1]
	b.State, b.Result = lease.Leased, lease.Result{} // and b's row does not yet say so
	c.rows[jobA][len(c.rows[jobA])-2].State = lease.Leased
	r := gathered(t, c, job, out)
	if r.Pending != 0 || r.ByOutcome[Done] != 1 || r.ByOutcome[Canceled] != 2 || r.ByOutcome[Partial] != 1 {
		t.Errorf("Pass = %+v", r)
	}
	for _, p := range []inventory.Path{"b.mp4", "c.mp4"} {
		if l := lines(t, out)[p]; l == nil || l.Outcome != Canceled || l.Reason != "changed my mind" {
			t.Errorf("line of %q = %+v", p, l)
		}
	}
}

func TestABadResultIsAlone(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}, {path: "b.mp4", says: "two"}})
	for i := range c.rows[jobA] {
		if s := &c.rows[jobA][i]; s.Item == 0 && s.Need.Kind == pipeline.Summarize {
			c.values[s.Result.Digest] = append([]byte{' '}, c.values[s.Result.Digest]...)
		}
	}
	g, err := New(c, job, out, usual)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r, err := g.Pass(t.Context())
	if !errors.Is(err, lease.ErrDigest) || !strings.Contains(err.Error(), "a.mp4") || r.ByOutcome[Done] != 1 || r.Pending != 1 {
		t.Fatalf("Pass = %+v, %v, want %v", r, err, lease.ErrDigest)
	}
	if got := tree(t, out); got["b.txt"] != "two\n" || got["a.txt"] != "" {
		t.Errorf("tree = %v", got)
	}
}

func TestOneAtATime(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}})
	g, err := New(c, job, out, usual)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, job, out, usual); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("New beside another = %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, workDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the work folder is still there: %v", err)
	}
	gathered(t, c, job, out)
}

func TestVerifyOutputs(t *testing.T) {
	c, out := newControl(), t.TempDir()
	if _, err := VerifyOutputs(out); err == nil {
		t.Errorf("VerifyOutputs of an empty folder = nil")
	}
	gathered(t, c, library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one"}, {path: "b.mp4", says: "two"}}), out)
	write(t, filepath.Join(out, "a.txt"), "One.\n")
	if err := os.Remove(filepath.Join(out, "b.srt")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(out, journalName), "{}\n")
	p, err := VerifyOutputs(out)
	if err != nil || len(p) != 3 || p[0].Kind != OutputChanged || p[0].Subject != "a.txt" || p[1].Kind != OutputMissing ||
		p[1].Subject != "b.srt" || p[2].Kind != Unfinished {
		t.Errorf("VerifyOutputs = %v, %v", p, err)
	}
}
