package gather

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/summarize"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// control is a control plane that only tells what became of its jobs.
type control struct {
	lease.Control
	jobs   map[lease.JobID]*lease.Job
	rows   map[lease.JobID][]lease.Shard
	values map[lease.Digest][]byte
	read   []lease.ShardID // whose results were asked for
}

func newControl() *control {
	return &control{jobs: map[lease.JobID]*lease.Job{}, rows: map[lease.JobID][]lease.Shard{}, values: map[lease.Digest][]byte{}}
}

func (c *control) Job(_ context.Context, id lease.JobID) (lease.Job, error) {
	if c.jobs[id] == nil {
		return lease.Job{}, lease.ErrNotFound
	}
	return *c.jobs[id], nil
}

func (c *control) Shards(_ context.Context, id lease.JobID, after uint32, limit int, results bool) ([]lease.Shard, error) {
	if c.jobs[id] == nil {
		return nil, lease.ErrNotFound
	}
	if limit == 0 {
		limit = 7
	}
	var out []lease.Shard
	for _, s := range c.rows[id] {
		if s.ID.Seq <= after || len(out) == limit {
			continue
		}
		if results {
			c.read = append(c.read, s.ID)
			if !s.Result.Blob {
				s.Result.Inline = c.values[s.Result.Digest]
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func (c *control) Blob(_ context.Context, _ lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	b, ok := c.values[d]
	if !ok {
		return nil, 0, lease.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// movie is a film of a test's library and what becomes of it.
type movie struct {
	path inventory.Path
	says string  // each word in a segment; "" : nobody speaks
	ends Outcome // Done when empty

	doubt transcribe.Doubt // about its first part
}

// library puts a job over movies into c. Its worker and fences are by name.
func library(t *testing.T, c *control, id lease.JobID, root, worker string, movies []movie, skipped ...inventory.Skipped) lease.Job {
	t.Helper()
	job := &lease.Job{ID: id, Kind: pipeline.Library, State: lease.JobDone, Params: encoded(t, pipeline.LibraryParams{Root: root})}
	c.jobs[id], c.rows[id] = job, nil
	res := inventory.Result{Skipped: skipped}
	slices.SortFunc(movies, func(a, b movie) int { return strings.Compare(string(a.path), string(b.path)) })
	for i, m := range movies {
		res.Sources = append(res.Sources, inventory.Source{Path: m.path, Identity: inventory.Identity{Size: int64(100 + i), MtimeNS: 5, Inode: 7}})
	}
	b := build{t: t, c: c, id: id, worker: lease.WorkerID(worker)}
	b.add(pipeline.Scan, 0, lease.Done, "", pipeline.ScanPayload{Root: root}, res)
	for i, m := range movies {
		b.movie(root, uint32(i), m)
	}
	return *job
}

type build struct {
	t      *testing.T
	c      *control
	id     lease.JobID
	worker lease.WorkerID
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *build) add(kind lease.Kind, item uint32, state lease.State, reason string, payload, result any) *lease.Shard {
	s := lease.Shard{ID: lease.ShardID{Job: b.id, Seq: uint32(len(b.c.rows[b.id]) + 1)}, State: state, Reason: reason}
	s.Need.Kind, s.Item, s.Payload = kind, item, encoded(b.t, payload)
	s.Fence, s.Holder.Worker = lease.Fence(s.ID.Seq)+100, b.worker
	if state == lease.Failed {
		s.Class = lease.Permanent
	}
	if state == lease.Done {
		v := encoded(b.t, result)
		s.Result = lease.Result{Digest: lease.DigestOf(v), Bytes: int64(len(v)), Blob: len(v) > 400}
		b.c.values[s.Result.Digest] = v
	}
	b.c.rows[b.id] = append(b.c.rows[b.id], s)
	return &b.c.rows[b.id][len(b.c.rows[b.id])-1]
}

const partMS = 10_000

// movie adds the shards of a film of two parts.
func (b *build) movie(root string, item uint32, m movie) {
	in := pipeline.TranscodePayload{Root: root, Path: m.path}
	switch m.ends {
	case Failed:
		b.add(pipeline.Transcode, item, lease.Failed, "cut off", in, nil)
		return
	case Canceled:
		b.add(pipeline.Transcode, item, lease.Canceled, "not wanted", in, nil)
		return
	case NoAudio:
		b.add(pipeline.Transcode, item, lease.Done, "", in, transcode.Result{NoAudio: true, DurationMS: 2 * partMS})
		return
	case Done, NoSpeech, NoImage, Partial, Skipped, "":
	}
	b.add(pipeline.Transcode, item, lease.Done, "", in, transcode.Result{DurationMS: 2 * partMS, FFmpeg: "5", SoundDigest: "s"}).Planned = 3
	words := strings.Fields(m.says)
	half := (len(words) + 1) / 2
	sum := summarize.Summary{Engine: summarize.Engine, Title: "T", NoSpeech: len(words) == 0, Of: 1, Sentences: []summarize.Sentence{}, Keywords: words}
	for i, some := range [][]string{words[:half], words[half:]} {
		tr := transcribe.Transcript{DurationMS: partMS, Engine: "test", Segments: []transcribe.Segment{}}
		for j, w := range some {
			at := int64(1000 + 1500*j)
			tr.Segments = append(tr.Segments, transcribe.Segment{StartMS: at, EndMS: at + 900, Text: w})
			sum.Sentences = append(sum.Sentences, summarize.Sentence{Text: w})
		}
		if len(some) == 0 {
			tr.Flags = []string{transcribe.NoSpeech}
		}
		if i == 0 && m.doubt.Kind != "" {
			tr.Doubt(m.doubt)
		}
		from := int64(i) * partMS
		part := pipeline.Part{StartMS: from, FromMS: from, ToMS: from + partMS}
		b.add(pipeline.Transcribe, item, lease.Done, "", pipeline.TranscribePayload{Path: m.path, DurationMS: partMS, Part: part}, tr)
	}
	if m.ends == Partial {
		b.add(pipeline.Summarize, item, lease.Failed, "no model", pipeline.SummarizePayload{Title: "T"}, nil)
		return
	}
	b.add(pipeline.Summarize, item, lease.Done, "", pipeline.SummarizePayload{Title: "T"}, sum)
}

// usual are the formats that nobody asked for.
var usual, _ = ParseFormats(DefaultFormats)

// gathered runs one pass over a job into out.
func gathered(t *testing.T, c *control, job lease.Job, out string) Report {
	t.Helper()
	g, err := New(c, job, out, usual)
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Pass(t.Context())
	if err != nil {
		t.Fatalf("Pass = %v", err)
	}
	if err := g.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	return r
}

// tree is the files below a folder with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if d.Type()&fs.ModeSymlink != 0 {
			files[rel] = "a link"
			return nil
		}
		b, err := os.ReadFile(p)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameTree fails the test when two trees differ.
func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[p]; !ok {
			t.Errorf("%q is missing", p)
		} else if g != want[p] {
			t.Errorf("%q = %.300q, want %.300q", p, g, want[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[p]; !ok {
			t.Errorf("%q should not be there", p)
		}
	}
}

// lines reads the manifest by the path of the source.
func lines(t *testing.T, out string) map[inventory.Path]*Line {
	t.Helper()
	root, err := os.OpenRoot(out)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	all, _, err := readManifest(root)
	if err != nil {
		t.Fatal(err)
	}
	by := map[inventory.Path]*Line{}
	for k, l := range all {
		by[k.path] = l
	}
	return by
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stats tells each file's inode and times, to show that none was touched.
func stats(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for p := range tree(t, dir) {
		fi, err := os.Lstat(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		id := inventory.IdentityOf(fi)
		files[p] = fmt.Sprintf("%d %d", id.Inode, id.MtimeNS)
	}
	return files
}
