package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// TestRefuses: what breaks the rules of its kind is not recorded, and says why.
func TestRefuses(t *testing.T) {
	digest := lease.DigestOf([]byte("x"))
	film := inventory.Source{Path: "a.mp4", Media: inventory.Media{Tracks: []inventory.AudioTrack{}}}
	scan := func(res inventory.Result) any {
		if res.Sources == nil {
			res.Sources = []inventory.Source{}
		}
		return res
	}
	chunk := func(c transcode.Chunk) any {
		c.Digest = digest.String()
		return transcode.Result{DurationMS: 1000, FFmpeg: "1", Chunks: []transcode.Chunk{c}}
	}
	said := func(segments ...transcribe.Segment) any {
		return transcribe.Transcript{Engine: "e", DurationMS: 1000, Segments: segments}
	}
	for name, c := range map[string]struct {
		kind    lease.Kind
		payload any
		result  any
		want    string
	}{
		"films that are gone":       {Scan, ScanPayload{Root: "r", Had: 5}, scan(inventory.Result{}), "had 5 films"},
		"out of order":              {Scan, ScanPayload{Root: "r"}, scan(inventory.Result{Sources: []inventory.Source{film, film}}), "out of order"},
		"skipped for no reason":     {Scan, ScanPayload{Root: "r"}, scan(inventory.Result{Skipped: []inventory.Skipped{{Path: "b"}}}), "for no reason"},
		"unchanged since nothing":   {Scan, ScanPayload{Root: "r"}, scan(inventory.Result{Unchanged: 3}), "unchanged since no scan"},
		"a watch without a listing": {Scan, ScanPayload{Root: "r", WatchMS: 1000}, scan(inventory.Result{}), "belong together"},
		"a listing that miscounts": {Scan, ScanPayload{Root: "r", WatchMS: 1000}, scan(inventory.Result{Listing: &inventory.Listing{Digest: digest.String(), Films: 2}}),
			"listing of 2 films, for 0"},
		"a listing that is not there": {Scan, ScanPayload{Root: "r", WatchMS: 1000}, scan(inventory.Result{Listing: &inventory.Listing{Digest: lease.DigestOf(nil).String()}}),
			"was not delivered"},
		"sound without chunks":    {Transcode, TranscodePayload{Root: "r", Path: "a"}, transcode.Result{DurationMS: 1000}, "1000 ms of sound in 0 chunks"},
		"chunks of no sound":      {Transcode, TranscodePayload{Root: "r", Path: "a"}, transcode.Result{NoAudio: true, Chunks: []transcode.Chunk{{}}}, "without sound"},
		"a chunk that ends early": {Transcode, TranscodePayload{Root: "r", Path: "a"}, chunk(transcode.Chunk{ToMS: 900, DurationMS: 900}), "end at 900 ms"},
		"a chunk short of sound":  {Transcode, TranscodePayload{Root: "r", Path: "a"}, chunk(transcode.Chunk{ToMS: 1000, DurationMS: 900}), "does not hold"},
		"half of the sound":       {Transcribe, TranscribePayload{Path: "a", DurationMS: 2000}, said(transcribe.Segment{EndMS: 5, Text: "a"}), "2000 ms were to be transcribed"},
		"no words, no flag":       {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000}, said(), "not flagged"},
		"times that go back": {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000},
			said(transcribe.Segment{StartMS: 500, EndMS: 600, Text: "a"}, transcribe.Segment{StartMS: 400, EndMS: 700, Text: "b"}), "before 600 ms"},
		"an end before its start": {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000}, said(transcribe.Segment{StartMS: 500, EndMS: 400, Text: "a"}), "before its start"},
		"beyond the end":          {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000}, said(transcribe.Segment{StartMS: 500, EndMS: 1400, Text: "a"}), "after 1000 ms"},
		"blank text":              {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000}, said(transcribe.Segment{EndMS: 400, Text: " "}), "blank"},
		"no engine":               {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000}, transcribe.Transcript{DurationMS: 1000, Segments: []transcribe.Segment{}}, "no engine"},
		"a field too many":        {Transcribe, TranscribePayload{Path: "a", DurationMS: 1000}, map[string]any{"engine": "e", "exec": "rm"}, "exec"},
		"a summary of nothing":    {Summarize, SummarizePayload{}, map[string]any{"engine": "lexrank", "sentences": []any{}}, "says nothing"},
		"no object":               {Summarize, SummarizePayload{}, []int{1}, "summary"},
	} {
		params := encode(LibraryParams{Root: "r"})
		s := &lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: c.kind}, Payload: encode(c.payload)}}
		means, err := Planner{}.Accept(&lease.Job{Kind: Library, Params: params}, s, encode(c.result), []lease.Digest{digest})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want an error with %q", name, means, err, c.want)
		}
	}
}

// TestWatchGoesOn: behind what a scan found comes the next one, which knows it.
func TestWatchGoesOn(t *testing.T) {
	known := lease.DigestOf([]byte("listing"))
	res := inventory.Result{
		Sources: []inventory.Source{{Path: "b.mp4", Media: inventory.Media{Tracks: []inventory.AudioTrack{}}}}, Skipped: []inventory.Skipped{},
		Unchanged: 2, Listing: &inventory.Listing{Digest: known.String(), Films: 3},
	}
	job := &lease.Job{Kind: Library, Params: encode(LibraryParams{Root: "r", WatchMS: 5000})}
	in := ScanPayload{Root: "r", WatchMS: 5000, Known: lease.DigestOf([]byte("before")), Next: 7, Had: 2}
	s := &lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: Scan, Root: "r"}, Payload: encode(in)}}
	means, err := Planner{}.Accept(job, s, encode(res), []lease.Digest{known})
	if err != nil || len(means.Plan) != 2 || means.Plan[0].Item != 7 || means.Plan[0].Need.Kind != Transcode {
		t.Fatalf("Accept = %+v, %v, want a film and another scan", means, err)
	}
	next := means.Plan[1]
	var p ScanPayload
	if err := json.Unmarshal(next.Payload, &p); err != nil || p.Known != known || p.Next != 8 || p.Had != 3 || len(next.Inputs) != 1 || next.Inputs[0] != known || next.Opens != 0 {
		t.Fatalf("the next scan is %+v of %+v, %v", next, p, err)
	}
}

// TestWith: another engine is other work, but the same sound.
func TestWith(t *testing.T) {
	sound := lease.DigestOf([]byte("x"))
	was := lease.Spec{Need: lease.Need{Kind: Transcribe, Model: "a"}, Payload: encode(TranscribePayload{Path: "a", Sound: sound, Transcriber: "a"}), Reuse: sound}
	now, err := Planner{}.With(was, "b")
	if err != nil || now.Need.Model != "b" || now.Reuse != lease.ReuseDigest(string(Transcribe), revision[Transcribe], sound.String(), "b", "") {
		t.Fatalf("With = %+v, %v", now, err)
	}
	was = lease.Spec{Need: lease.Need{Kind: Transcode}, Payload: encode(TranscodePayload{Root: "r", Path: "a"}), Reuse: sound}
	if now, err = (Planner{}).With(was, "b"); err != nil || now.Reuse != sound || !strings.Contains(string(now.Payload), `"transcriber":"b"`) {
		t.Fatalf("With = %+v, %v", now, err)
	}
	if _, err = (Planner{}).With(lease.Spec{Need: lease.Need{Kind: Scan}}, "b"); err == nil {
		t.Fatal("a scan by another engine")
	}
}
