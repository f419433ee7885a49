package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
	"macbatch/summarize"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// good is a result that its kind's rules accept, and what it was asked for.
type good struct {
	kind    lease.Kind
	payload any
	result  any
}

var spoken = []string{"one", "two", "three"}

func goods() []good {
	var res transcode.Result
	res.DurationMS, res.FFmpeg, res.SoundDigest = 30_000, "5.1", strings.Repeat("ab", 32)
	for i, s := range spoken {
		from := int64(i) * 10_000
		res.Chunks = append(res.Chunks, transcode.Chunk{Index: i, Digest: lease.DigestOf([]byte(s)).String(), Bytes: 3,
			StartMS: max(0, from-500), DurationMS: 11_000, FromMS: from, ToMS: from + 10_000})
	}
	track := inventory.AudioTrack{}
	return []good{
		{Scan, ScanPayload{Root: "r"}, inventory.Result{
			Sources: []inventory.Source{
				{Path: "a.mp4", Identity: inventory.Identity{Size: 1, MtimeNS: 2, Inode: 3}, Media: inventory.Media{DurationMS: 5000, Tracks: []inventory.AudioTrack{track}}},
				{Path: "d/ü.mov", Identity: inventory.Identity{Size: 4, MtimeNS: 5, Inode: 6}, Media: inventory.Media{Tracks: []inventory.AudioTrack{}}},
			},
			Skipped: []inventory.Skipped{{Path: "x.txt", Reason: inventory.NotMedia}},
		}},
		{Transcode, TranscodePayload{Root: "r", Path: "a.mp4"}, res},
		{Transcribe, TranscribePayload{Path: "a.mp4", DurationMS: 10_000, Part: Part{ToMS: 10_000}}, transcribe.Transcript{
			Language: "en", DurationMS: 10_000, Engine: "e", Model: "m", Flags: []string{transcribe.Suspicious},
			Segments: []transcribe.Segment{
				{StartMS: 0, EndMS: 900, Text: "so it was", Confidence: .5, Words: []transcribe.Word{{EndMS: 300, Text: "so"}, {StartMS: 300, EndMS: 500, Text: "it"}, {StartMS: 500, EndMS: 900, Text: "was"}}},
				{StartMS: 1000, EndMS: 2000, Text: "and ended"},
			},
			Doubts: []transcribe.Doubt{{FromMS: 0, ToMS: 900, Kind: "stock", Evidence: "so it was"}},
		}},
		{Summarize, SummarizePayload{Title: "a", Parts: []Part{{ToMS: 10_000}}}, summarize.Summary{
			Engine: summarize.Engine, Title: "a", Of: 2, Sentences: []summarize.Sentence{{Text: "So it was."}}, Keywords: []string{"was"},
		}},
	}
}

// mutate changes one thing somewhere in a JSON value.
func mutate(r *rand.Rand, v any) any {
	strange := []any{
		nil, true, "", " ", "\x00", "../x", "/etc/passwd", "percent:%2e%2e", strings.Repeat("x", 3000), "\u202e", json.Number("-1"), json.Number("0"), json.Number("1e300"), json.Number("0.5"),
		json.Number("9223372036854775807"), json.Number("-9223372036854775808"), json.Number("99999999999999999999"), []any{}, map[string]any{}, []any{nil}, lease.DigestOf([]byte("strange")).String(),
	}
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 || r.IntN(12) == 0 {
			v[[]string{"exec", "path", "Engine", "segments", "no_audio"}[r.IntN(5)]] = strange[r.IntN(len(strange))]
			return v
		}
		k := keys[r.IntN(len(keys))]
		if r.IntN(8) == 0 {
			delete(v, k)
		} else {
			v[k] = mutate(r, v[k])
		}
		return v
	case []any:
		if len(v) == 0 {
			return []any{strange[r.IntN(len(strange))]}
		}
		i, j := r.IntN(len(v)), r.IntN(len(v))
		switch r.IntN(6) {
		case 0:
			v[i], v[j] = v[j], v[i]
		case 1:
			v = slices.Delete(v, i, i+1)
		case 2:
			v = slices.Insert(v, j, v[i])
		default:
			v[i] = mutate(r, v[i])
		}
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil && r.IntN(2) == 0 {
			return json.Number(fmt.Sprint(n + []int64{-1, 1, -n - 1, 500, 501, 10_000, 1 << 40}[r.IntN(7)]))
		}
	}
	return strange[r.IntN(len(strange))]
}

// mutated is a good result with up to three things changed, as bytes that may be broken.
func mutated(r *rand.Rand, b []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(err) // it was encoded
	}
	for range 1 + r.IntN(3) {
		v = mutate(r, v)
	}
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if r.IntN(20) == 0 {
		out = out[:r.IntN(len(out)+1)]
	}
	if r.IntN(20) == 0 && len(out) > 0 {
		out[r.IntN(len(out))] ^= 1 << r.IntN(8)
	}
	return out
}

// ruled checks an accepted result by the rules of its kind, told here a second time.
func ruled(kind lease.Kind, b []byte, means lease.Acceptance) error {
	switch kind {
	case Scan:
		var res inventory.Result
		if err := json.Unmarshal(b, &res); err != nil {
			return err
		}
		if len(means.Plan) != len(res.Sources) {
			return fmt.Errorf("%d shards for %d films", len(means.Plan), len(res.Sources))
		}
		for i, s := range res.Sources {
			if s.Path == "" || s.Path[0] == '/' || strings.Contains("/"+string(s.Path)+"/", "/../") || i > 0 && s.Path <= res.Sources[i-1].Path || s.DurationMS < 0 {
				return fmt.Errorf("source %q of %d ms", s.Path, s.DurationMS)
			}
		}
	case Transcode:
		var res transcode.Result
		if err := json.Unmarshal(b, &res); err != nil {
			return err
		}
		if res.NoAudio {
			if len(means.Plan) > 0 {
				return fmt.Errorf("%d shards without sound", len(means.Plan))
			}
			return nil
		}
		at := int64(0)
		for _, c := range res.Chunks {
			if c.FromMS != at || c.ToMS <= at || c.StartMS < 0 || c.StartMS > c.FromMS || c.DurationMS < c.ToMS-c.StartMS {
				return fmt.Errorf("chunk %+v after %d ms", c, at)
			}
			if !slices.ContainsFunc(spoken, func(s string) bool { return lease.DigestOf([]byte(s)).String() == c.Digest }) {
				return fmt.Errorf("chunk %+v was not delivered", c)
			}
			at = c.ToMS
		}
		if at != res.DurationMS || at == 0 || len(means.Plan) != len(res.Chunks)+1 || len(means.Plan[len(res.Chunks)].After) != len(res.Chunks) {
			return fmt.Errorf("%d ms in chunks, %d of sound, %d shards", at, res.DurationMS, len(means.Plan))
		}
	case Transcribe:
		var res transcribe.Transcript
		if err := json.Unmarshal(b, &res); err != nil {
			return err
		}
		at := int64(0)
		for _, s := range res.Segments {
			in := s.StartMS
			for _, w := range s.Words {
				if w.StartMS < in || w.EndMS < w.StartMS || w.EndMS > s.EndMS || strings.TrimSpace(w.Text) == "" {
					return fmt.Errorf("word %+v of %+v", w, s)
				}
				in = w.EndMS
			}
			if s.StartMS < at || s.EndMS < s.StartMS || s.EndMS > 10_000 || strings.TrimSpace(s.Text) == "" || s.Confidence < 0 || s.Confidence > 1 {
				return fmt.Errorf("segment %+v after %d ms", s, at)
			}
			at = s.EndMS
		}
		if res.Engine == "" || len(means.Plan) > 0 || (len(res.Segments) == 0) != slices.Contains(res.Flags, transcribe.NoSpeech) || res.DurationMS < 9500 || res.DurationMS > 10_500 {
			return fmt.Errorf("transcript by %q of %d ms, %d segments, %q", res.Engine, res.DurationMS, len(res.Segments), res.Flags)
		}
	case Summarize:
		var res summarize.Summary
		if err := json.Unmarshal(b, &res); err != nil {
			return err
		}
		if res.Engine == "" || len(res.Sentences) == 0 && !res.NoSpeech || len(means.Plan) > 0 {
			return fmt.Errorf("summary %+v", res)
		}
	}
	return nil
}

func delivered() (list []lease.Digest) {
	for _, s := range spoken {
		list = append(list, lease.DigestOf([]byte(s)))
	}
	return list
}

// judge accepts or refuses one result, and checks that it was right to.
func judge(t *testing.T, g good, b []byte) (accepted bool) {
	t.Helper()
	s := &lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: g.kind}, Payload: encode(g.payload)}}
	means, err := Planner{}.Accept(&lease.Job{Kind: Library, Params: encode(LibraryParams{Root: "r"})}, s, b, delivered())
	if err != nil {
		return false
	}
	if err := ruled(g.kind, b, means); err != nil {
		t.Fatalf("accepted %s result %.2000s: %v", g.kind, b, err)
	}
	return true
}

// TestMutatedResults: of results that went wrong somewhere none makes acceptance panic,
// and none is accepted that breaks a rule.
func TestMutatedResults(t *testing.T) {
	for _, g := range goods() {
		r := rand.New(rand.NewPCG(7, 11))
		whole := encode(g.result)
		if !judge(t, g, whole) {
			t.Fatalf("a good %s result is refused", g.kind)
		}
		tries, accepted := 2000, 0
		for range tries {
			if judge(t, g, mutated(r, whole)) {
				accepted++
			}
		}
		if accepted < tries/100 || accepted > tries*3/4 {
			t.Errorf("%s: %d of %d are accepted: too few or too many to show anything", g.kind, accepted, tries)
		}
		t.Logf("%s: %d of %d accepted", g.kind, accepted, tries)
	}
}

func FuzzAccept(f *testing.F) {
	all := goods()
	for i, g := range all {
		f.Add(uint8(i), []byte(encode(g.result)))
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) { judge(t, all[int(kind)%len(all)], b) })
}

// TestRefusalsAreTold: what is refused is a failed attempt whose reason the ledger keeps,
// and nothing of it is recorded, whatever went wrong.
func TestRefusalsAreTold(t *testing.T) {
	s, err := store.Open(store.Options{Engine: memkv.Open(), Blobs: leasetest.NewBlobs(), Planner: Planner{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ctl := s.As(leasetest.Admin)
	hello := lease.Hello{Worker: "w", Incarnation: 1, Offer: lease.Offer{Kinds: []lease.Kind{Scan, Transcode, Transcribe, Summarize}, Roots: []string{"r"}}}
	request := uint64(0)
	exchange := func(x lease.Exchange) lease.Exchanged {
		t.Helper()
		x.Hello = hello
		out, err := ctl.Exchange(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	claim := func(id lease.JobID) lease.Grant {
		t.Helper()
		for range 100 {
			request++
			out := exchange(lease.Exchange{Request: request, Max: 1, PerKind: map[lease.Kind]int{Scan: 1, Transcode: 1, Transcribe: 1, Summarize: 1}, Job: id})
			if len(out.Grants) > 0 {
				return out.Grants[0]
			}
		}
		t.Fatalf("nothing of job %v is granted", id)
		return lease.Grant{}
	}
	report := func(g lease.Grant, b []byte, blobs []lease.Digest) lease.Judgement {
		t.Helper()
		return exchange(lease.Exchange{Reports: []lease.Report{{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeDone,
			Digest: lease.DigestOf(b), Bytes: int64(len(b)), Result: b, Blobs: blobs}}}).Verdicts[0]
	}
	r := rand.New(rand.NewPCG(3, 5))
	refused := map[lease.Kind]int{}
	deliver := func(g lease.Grant, c good) (b []byte, blobs []lease.Digest) {
		t.Helper()
		if g.Kind != c.kind {
			t.Fatalf("shard %v is a %s, want a %s", g.Shard, g.Kind, c.kind)
		}
		if g.Kind == Transcode {
			for _, sound := range spoken {
				d := lease.DigestOf([]byte(sound))
				if err := ctl.PutBlob(t.Context(), lease.Upload{Digest: d, Size: int64(len(sound)), Shard: g.Shard, Fence: g.Fence, Token: g.Token}, strings.NewReader(sound)); err != nil {
					t.Fatal(err)
				}
				blobs = append(blobs, d)
			}
		}
		if res, ok := c.result.(transcribe.Transcript); ok {
			res.DurationMS = 11_000 // of a chunk
			return encode(res), blobs
		}
		return encode(c.result), blobs
	}
	params := encode(LibraryParams{Root: "r", Fresh: true})
	for round := range 40 {
		id, err := ctl.Submit(t.Context(), lease.Submission{Kind: Library, Key: fmt.Sprint(round), Params: params})
		if err != nil {
			t.Fatal(err)
		}
		all := goods()
		stage := round % len(all)
		for _, c := range all[:stage] { // as far as to the kind in question all goes well
			times := 1
			if c.kind == Transcribe {
				times = len(spoken)
			}
			for range times {
				g := claim(id)
				b, blobs := deliver(g, c)
				if v := report(g, b, blobs); v.Verdict != lease.Accepted {
					t.Fatalf("a good %s result: %+v", c.kind, v)
				}
			}
		}
		g := claim(id)
		whole, blobs := deliver(g, all[stage])
		row := &lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: g.Kind}, Payload: g.Payload}}
		var bad []byte
		var why error
		for why == nil {
			if bad = mutated(r, whole); json.Valid(bad) && len(bad) <= lease.InlineResult {
				_, why = Planner{}.Accept(&lease.Job{Kind: Library, Params: params}, row, bad, append(blobs, lease.DigestOf([]byte("none"))))
			}
		}
		v := report(g, bad, blobs)
		if v.Verdict != lease.InvalidReport || v.Reason == "" {
			t.Fatalf("report of %s result %s: %+v, want it invalid: %v", g.Kind, bad, v, why)
		}
		events, err := ctl.Events(t.Context(), g.Shard, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if last := events[len(events)-1]; last.Kind != lease.EventRequeued || last.Reason != v.Reason {
			t.Fatalf("the ledger tells of %s result %s: %+v, verdict %+v", g.Kind, bad, last, v)
		}
		rows, err := ctl.Shards(t.Context(), id, g.Shard.Seq-1, 1, true)
		if err != nil || !rows[0].Result.Digest.IsZero() || rows[0].Planned != 0 || rows[0].Failures != 1 {
			t.Fatalf("after a refused %s result: %+v, %v", g.Kind, rows, err)
		}
		refused[g.Kind]++
	}
	if problems, err := ctl.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Fatalf("verify: %+v, %v", problems, err)
	}
	for _, g := range goods() {
		if refused[g.kind] != 10 {
			t.Errorf("refused: %v, want 10 of each kind", refused)
		}
	}
}
