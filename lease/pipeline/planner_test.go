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

const params = `{"root":"films","chunk_ms":60000}`

func accept(t *testing.T, kind lease.Kind, payload, result any, blobs []lease.Digest) (lease.Plan, error) {
	t.Helper()
	means, err := Planner{}.Accept(&lease.Job{Kind: Library, Params: []byte(params)},
		&lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: kind}, Item: 7, Payload: encode(payload)}}, encode(result), blobs)
	return means.Plan, err
}

func TestStart(t *testing.T) {
	for in, want := range map[string]string{
		params:                                  "",
		`{"root":"films","sub":"a/b"}`:          "",
		`{"root":""}`:                           "no root",
		`{"root":"films","sub":"../x"}`:         "path",
		`{"root":"films","sub":"/etc"}`:         "path",
		`{"root":"films","chunk_ms":1}`:         "chunk of 1 ms",
		`{"root":"films","chunk_ms":-1}`:        "chunk of -1 ms",
		`{"root":"films","exec":"rm -rf /"}`:    "exec",
		`{"root":"films","root":"other"}`:       "root",
		`{"root":"films","Root":"other"}`:       "Root",
		`{"root":"films"} {}`:                   "",
		`{"root":"films","chunk_ms":999999999}`: "chunk of",
		``:                                      "JSON",
	} {
		_, err := Planner{}.Start(Library, []byte(in))
		if in == `{"root":"films"} {}` {
			if err == nil {
				t.Errorf("Start(%s) accepted two values", in)
			}
			continue
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Start(%s) = %v, want %q", in, err, want)
		}
	}
	if _, err := (Planner{}).Start("shell", []byte(params)); err == nil {
		t.Error("Start of an unknown kind succeeded")
	}
}

func TestAfterScan(t *testing.T) {
	src := func(p string) inventory.Source {
		return inventory.Source{Path: inventory.Path(p), Media: inventory.Media{DurationMS: 1000}}
	}
	plan, err := accept(t, Scan, ScanPayload{Root: "films"}, inventory.Result{Sources: []inventory.Source{src("a.mp4"), src("b\xe9\n.mp4")}}, nil)
	if err != nil || len(plan) != 2 {
		t.Fatalf("plan of a scan = %v, %v, want two films", plan, err)
	}
	var in TranscodePayload
	if err := json.Unmarshal(plan[1].Payload, &in); err != nil || in.Path != "b\xe9\n.mp4" || plan[1].Item != 1 || plan[1].Need.Root != "films" || plan[1].Work != 1000 {
		t.Fatalf("second film = %+v, %v", in, err)
	}
	if plan[0].Reuse == plan[1].Reuse || plan[0].Reuse.IsZero() {
		t.Error("two films are one to reuse")
	}
	for name, res := range map[string]inventory.Result{
		"out of order": {Sources: []inventory.Source{src("b.mp4"), src("a.mp4")}},
		"twice":        {Sources: []inventory.Source{src("a.mp4"), src("a.mp4")}},
		"no time":      {Sources: []inventory.Source{{Path: "a.mp4", Media: inventory.Media{DurationMS: -1}}}},
	} {
		if _, err := accept(t, Scan, ScanPayload{}, res, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, p := range []string{"../a", "/a", "a/../b", "", "a//b", "a/./b"} {
		raw := json.RawMessage(`{"sources":[{"path":` + string(encode(p)) + `,"identity":{"size":1,"mtime_ns":1,"inode":1},"container":"","duration_ms":1,"video":false,"tracks":[]}],"skipped":[]}`)
		if _, err := accept(t, Scan, ScanPayload{}, raw, nil); err == nil {
			t.Errorf("path %q: accepted", p)
		}
	}
}

func twoChunks() (transcode.Result, []lease.Digest) {
	a, b := lease.DigestOf([]byte("a")), lease.DigestOf([]byte("b"))
	return transcode.Result{DurationMS: 100_000, FFmpeg: "5", Chunks: []transcode.Chunk{
		{Index: 0, Digest: a.String(), Bytes: 1, StartMS: 0, DurationMS: 51_000, FromMS: 0, ToMS: 50_000},
		{Index: 1, Digest: b.String(), Bytes: 1, StartMS: 49_000, DurationMS: 51_000, FromMS: 50_000, ToMS: 100_000},
	}}, []lease.Digest{a, b}
}

func TestAfterTranscode(t *testing.T) {
	payload := TranscodePayload{Root: "films", Path: "a/b.c.mp4"}
	res, blobs := twoChunks()
	plan, err := accept(t, Transcode, payload, res, blobs)
	if err != nil || len(plan) != 3 {
		t.Fatalf("plan of a transcode = %v, %v, want two parts and a summary", plan, err)
	}
	var sum SummarizePayload
	if err := json.Unmarshal(plan[2].Payload, &sum); err != nil || sum.Title != "b.c" || len(plan[2].After) != 2 || plan[2].Settles != 1 || plan[0].Inputs[0] != blobs[0] {
		t.Fatalf("summary %+v after %v, first part needs %v, %v", sum, plan[2].After, plan[0].Inputs, err)
	}
	if plan[0].Work+plan[1].Work != 100_000 || plan[0].Item != 7 {
		t.Fatalf("work %d + %d of item %d, want 100000 of 7", plan[0].Work, plan[1].Work, plan[0].Item)
	}
	if plan, err := accept(t, Transcode, payload, transcode.Result{NoAudio: true, FFmpeg: "5"}, nil); err != nil || len(plan) != 0 {
		t.Fatalf("plan of a film without sound = %v, %v, want none", plan, err)
	}
	for name, spoil := range map[string]func(*transcode.Result, *[]lease.Digest){
		"no sound, but chunks":    func(r *transcode.Result, _ *[]lease.Digest) { r.NoAudio = true },
		"no chunks":               func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks = nil },
		"gap":                     func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks[1].FromMS++ },
		"overlap":                 func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks[1].FromMS-- },
		"ends early":              func(r *transcode.Result, _ *[]lease.Digest) { r.DurationMS++ },
		"sound ends early":        func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks[0].DurationMS = 49_999 },
		"sound begins late":       func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks[1].StartMS = 50_001 },
		"out of order":            func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks[0].Index = 1 },
		"a digest that is none":   func(r *transcode.Result, _ *[]lease.Digest) { r.Chunks[0].Digest = "../../etc/passwd" },
		"sound was not delivered": func(_ *transcode.Result, b *[]lease.Digest) { *b = (*b)[:1] },
	} {
		res, blobs := twoChunks()
		spoil(&res, &blobs)
		if _, err := accept(t, Transcode, payload, res, blobs); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTranscript(t *testing.T) {
	payload := TranscribePayload{Path: "a.mp4", DurationMS: 5000}
	good := func() transcribe.Transcript {
		return transcribe.Transcript{Engine: "e", DurationMS: 5000, Segments: []transcribe.Segment{{StartMS: 100, EndMS: 900, Text: "well said"}}}
	}
	if plan, err := accept(t, Transcribe, payload, good(), nil); err != nil || plan != nil {
		t.Fatalf("a good transcript: %v, %v", plan, err)
	}
	for name, spoil := range map[string]func(*transcribe.Transcript){
		"no engine":          func(r *transcribe.Transcript) { r.Engine = "" },
		"ends before begin":  func(r *transcribe.Transcript) { r.Segments[0].EndMS = 50 },
		"beyond the end":     func(r *transcribe.Transcript) { r.Segments[0].EndMS = 50_000 },
		"empty text":         func(r *transcribe.Transcript) { r.Segments[0].Text = " " },
		"half the sound":     func(r *transcribe.Transcript) { r.DurationMS = 2500 },
		"doubts unannounced": func(r *transcribe.Transcript) { r.Doubts = []transcribe.Doubt{{Kind: transcribe.Gap, ToMS: 9}} },
		"doubts beyond the end": func(r *transcribe.Transcript) {
			r.Doubts, r.Flags = []transcribe.Doubt{{Kind: transcribe.Gap, ToMS: 9000}}, []string{transcribe.Suspicious}
		},
		"silent unannounced": func(r *transcribe.Transcript) { r.Segments = []transcribe.Segment{} },
	} {
		res := good()
		spoil(&res)
		if _, err := accept(t, Transcribe, payload, res, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := accept(t, Summarize, SummarizePayload{}, map[string]any{"engine": "lexrank", "title": "", "language": "", "no_speech": false, "of": 0, "sentences": []any{}, "keywords": []any{}}, nil); err == nil {
		t.Error("a summary that says nothing: accepted")
	}
	if _, err := accept(t, "shell", nil, nil, nil); err == nil {
		t.Error("a result of an unknown kind: accepted")
	}
}
