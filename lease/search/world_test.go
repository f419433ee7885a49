package search

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/pipeline"
	"macbatch/lease/store"
	"macbatch/summarize"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// chunkMS is the length of each chunk of a world's films.
const chunkMS = 100_000

// world is a store with films, one worker that does what it is told, and an index.
type world struct {
	t       *testing.T
	engine  kv.Engine
	blobs   *leasetest.Blobs
	store   *store.Store
	stop    func()
	ctl     lease.Control
	ix      *Index
	path    string
	request uint64
	says    map[string][]string // a film's chunks; "|" ends a segment
	lives   uint64              // of the worker
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, blobs: leasetest.NewBlobs(), engine: memkv.Open(), path: filepath.Join(t.TempDir(), "a ?#%words.db"), says: map[string][]string{}}
	w.run(w.engine)
	w.open()
	t.Cleanup(func() {
		w.stop()
		if err := w.ix.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// run serves a store in place of the one before.
func (w *world) run(e kv.Engine) {
	w.t.Helper()
	if w.stop != nil {
		w.stop()
	}
	w.engine = e
	s, err := store.Open(store.Options{Engine: e, Blobs: w.blobs, Planner: pipeline.Planner{}, Words: finderOf{w}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	w.store, w.ctl = s, s.As(leasetest.Admin)
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
	w.request = 0
	w.lives++
}

// finderOf is whatever index a world has.
type finderOf struct{ w *world }

func (f finderOf) Find(ctx context.Context, q lease.Query, p []lease.Project) (lease.Found, error) {
	return f.w.ix.Find(ctx, q, p)
}

// open opens the index, as the next process does.
func (w *world) open() {
	w.t.Helper()
	if w.ix != nil {
		if err := w.ix.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	ix, err := Open(w.path, slog.New(slog.NewTextHandler(w.t.Output(), nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.ix = ix
}

func (w *world) catchUp() {
	w.t.Helper()
	if err := w.ix.CatchUp(w.t.Context(), w.ctl, w.store.Mark); err != nil {
		w.t.Fatal(err)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// submit queues a job over the world's films.
func (w *world) submit(p lease.Project) lease.JobID {
	w.t.Helper()
	id, err := w.ctl.Submit(w.t.Context(), lease.Submission{Project: p, Kind: pipeline.Library, Params: encoded(w.t, pipeline.LibraryParams{Root: "films", Fresh: true})})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

var perKind = map[lease.Kind]int{pipeline.Scan: 1, pipeline.Transcode: 1, pipeline.Transcribe: 1, pipeline.Summarize: 1}

func (w *world) hello() lease.Hello {
	return lease.Hello{Worker: "mac", Incarnation: w.lives, Offer: lease.Offer{Kinds: slices.Collect(maps.Keys(perKind)), Roots: []string{"films"}}}
}

// work does up to n shards of a job; 0: all there are.
func (w *world) work(id lease.JobID, n int) {
	w.t.Helper()
	for done := 0; n == 0 || done < n; done++ {
		w.request++
		out, err := w.ctl.Exchange(w.t.Context(), lease.Exchange{Hello: w.hello(), Request: w.request, Max: 1, PerKind: perKind, Job: id})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(out.Grants) == 0 {
			if out.More {
				continue
			}
			return
		}
		w.deliver(&out.Grants[0])
	}
}

func (w *world) deliver(g *lease.Grant) {
	w.t.Helper()
	var result any
	r := lease.Report{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeDone}
	put := func(b []byte) lease.Digest {
		d := lease.DigestOf(b)
		r.Blobs = append(r.Blobs, d)
		if err := w.ctl.PutBlob(w.t.Context(), lease.Upload{Digest: d, Size: int64(len(b)), Shard: g.Shard, Fence: g.Fence, Token: g.Token}, bytes.NewReader(b)); err != nil {
			w.t.Fatal(err)
		}
		return d
	}
	switch g.Kind {
	case pipeline.Scan:
		var res inventory.Result
		for i, p := range slices.Sorted(maps.Keys(w.says)) {
			res.Sources = append(res.Sources, inventory.Source{Path: inventory.Path(p), Identity: inventory.Identity{Size: int64(i + 1), MtimeNS: 5, Inode: 7}})
		}
		result = res
	case pipeline.Transcode:
		var in pipeline.TranscodePayload
		w.decode(g.Payload, &in)
		said := w.says[string(in.Path)]
		res := transcode.Result{DurationMS: int64(len(said)) * chunkMS, FFmpeg: "5", NoAudio: len(said) == 0}
		for i := range said {
			from := int64(i) * chunkMS
			start := max(0, from-1000)
			res.Chunks = append(res.Chunks, transcode.Chunk{Index: i, Digest: put(fmt.Appendf(nil, "%s %d", in.Path, i)).String(),
				StartMS: start, DurationMS: min(from+chunkMS+1000, res.DurationMS) - start, FromMS: from, ToMS: from + chunkMS})
		}
		result = res
	case pipeline.Transcribe:
		var in pipeline.TranscribePayload
		w.decode(g.Payload, &in)
		said := w.says[string(in.Path)][in.Part.FromMS/chunkMS]
		result = transcript(&in, said)
	case pipeline.Summarize:
		result = summarize.Summary{Engine: summarize.Engine, NoSpeech: true, Sentences: []summarize.Sentence{}}
	}
	b := encoded(w.t, result)
	if r.Digest, r.Bytes = lease.DigestOf(b), int64(len(b)); len(b) > lease.InlineResult {
		put(b)
	} else {
		r.Result = b
	}
	out, err := w.ctl.Exchange(w.t.Context(), lease.Exchange{Hello: w.hello(), Reports: []lease.Report{r}})
	if err != nil || out.Verdicts[0].Verdict != lease.Accepted {
		w.t.Fatalf("report of %s: %+v, %v", g.Kind, out.Verdicts, err)
	}
}

func (w *world) decode(b []byte, into any) {
	w.t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		w.t.Fatal(err)
	}
}

// transcript lays the segments of a text out over a chunk, evenly.
func transcript(in *pipeline.TranscribePayload, said string) transcribe.Transcript {
	tr := transcribe.Transcript{DurationMS: in.DurationMS, Engine: "test", Segments: []transcribe.Segment{}}
	if said == "" {
		tr.Flags = []string{transcribe.NoSpeech}
		return tr
	}
	parts := strings.Split(said, "|")
	each := (in.Part.ToMS - in.Part.FromMS) / int64(len(parts))
	for i, text := range parts {
		at := in.Part.FromMS - in.Part.StartMS + int64(i)*each
		tr.Segments = append(tr.Segments, transcribe.Segment{StartMS: at, EndMS: at + each, Text: text})
	}
	return tr
}

// found is what a search shows: "path@second" of each hit, sorted.
func (w *world) found(q lease.Query) string {
	w.t.Helper()
	out, err := w.ctl.Search(w.t.Context(), q)
	if err != nil {
		w.t.Fatalf("search %+v: %v", q, err)
	}
	var list []string
	for _, h := range out.Hits {
		list = append(list, fmt.Sprintf("%s@%d", h.Path, h.StartMS/1000))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (w *world) want(words, want string) {
	w.t.Helper()
	if got := w.found(lease.Query{Words: words}); got != want {
		w.t.Fatalf("search for %s finds %q, want %q", words, got, want)
	}
}
