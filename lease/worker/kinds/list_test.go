package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
)

// work runs a kind's executor over lines.
func work(t *testing.T, tools *Tools, kind lease.Kind, params string, lines ...string) (pipeline.ListResult, error) {
	t.Helper()
	var raw [][]byte
	for _, l := range lines {
		raw = append(raw, []byte(l))
	}
	out, err := tools.Executors()[kind].Execute(t.Context(), worker.Task{
		Grant:    lease.Grant{Kind: kind, Payload: []byte(params), Lines: &lease.Lines{Items: uint32(len(lines))}},
		Dir:      t.TempDir(),
		Lines:    func(context.Context) ([][]byte, error) { return raw, nil },
		Progress: func(uint64) {},
		Sure:     func(context.Context) error { return nil },
		Intend:   func(context.Context, lease.Cost, bool) error { return nil },
		Spent:    func(lease.Cost) {},
	})
	var res pipeline.ListResult
	if err != nil {
		return res, err
	}
	if err := json.Unmarshal(out.Result, &res); err != nil {
		t.Fatal(err)
	}
	if kind == pipeline.SummarizeText {
		kind = pipeline.Summarize
	}
	// What a worker makes the control plane must take.
	pack, err := pipeline.Planner{}.List(kind, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	s := lease.Shard{Spec: lease.Spec{Need: pack.Need, Opens: uint32(len(lines)), Settles: uint32(len(lines)), Range: lease.Range{To: 9}}}
	if _, err := (pipeline.Planner{}).Accept(&lease.Job{Kind: kind, Params: json.RawMessage(params)}, &s, out.Result, nil); err != nil {
		t.Errorf("the result is not accepted: %v", err)
	}
	return res, nil
}

func texts(s ...string) []string {
	lines := make([]string, len(s))
	for i, x := range s {
		b, _ := json.Marshal(map[string]string{"custom_id": fmt.Sprint(i), "input": x})
		lines[i] = string(b)
	}
	return lines
}

// codes are the outcomes in short: "" for a value, else the error's code.
func codes(r pipeline.ListResult) []string {
	var out []string
	for _, o := range r.Outcomes {
		if o.Error != nil {
			out = append(out, o.Error.Code)
		} else {
			out = append(out, "")
		}
	}
	return out
}

// scripts guards what they count when they are asked together.
var scripts sync.Mutex

// script is a runtime that does what a real one can't be made to do.
type script struct {
	digest   string
	models   error
	embed    func(in []string) ([][]float32, error)
	generate func(q model.GenerateRequest) (string, error)
	calls    int
	usage    model.Usage
}

func (s *script) Models(context.Context) ([]model.Model, error) {
	return []model.Model{{Name: "m", Digest: s.digest}}, s.models
}

func (s *script) Embed(_ context.Context, q model.EmbedRequest) (model.Embeddings, error) {
	s.calls++
	v, err := s.embed(q.Input)
	if err == nil {
		err = model.CheckVectors(v, len(q.Input), q.Dimensions)
	}
	return model.Embeddings{Vectors: v}, err
}

func (s *script) Generate(_ context.Context, q model.GenerateRequest) (model.Generated, error) {
	scripts.Lock()
	defer scripts.Unlock()
	s.calls++
	text, err := s.generate(q)
	return model.Generated{Text: text, Finish: model.Stopped, Usage: s.usage}, err
}

func scripted(s *script) *Tools {
	return &Tools{Servers: []*Server{{Tier: "local", Engine: "script", Runtime: s}}}
}

// lengths is what a good embedder answers here.
func lengths(in []string) ([][]float32, error) {
	v := make([][]float32, len(in))
	for i, s := range in {
		v[i] = []float32{float32(len(s)), 1}
	}
	return v, nil
}

const params = `{"model":"m"}`

// TestGuiltyItemAlone: whatever one text does to the server, the others get theirs.
func TestGuiltyItemAlone(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(in []string) ([][]float32, error)
		code  string
	}{
		"too long":       {func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrOverflow, "x") }, codeOverflow},
		"refused":        {func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrRefused, "x") }, codeRefused},
		"crash":          {func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrUnavailable, "x") }, codeUnavailable},
		"hang":           {func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrStalled, "x") }, codeUnavailable},
		"no JSON":        {func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrBadAnswer, "x") }, codeBadAnswer},
		"vector missing": {func(in []string) ([][]float32, error) { v, _ := lengths(in); return v[1:], nil }, codeBadAnswer},
		"vector empty":   {func(in []string) ([][]float32, error) { v, _ := lengths(in); v[0] = nil; return v, nil }, codeBadAnswer},
		"other length": {func(in []string) ([][]float32, error) {
			v, _ := lengths(in)
			v[len(v)-1] = []float32{1, 2, 3}
			return v, nil
		}, codeBadAnswer},
	} {
		for _, guilty := range []int{0, 70, 99} {
			t.Run(fmt.Sprint(name, guilty), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					in := make([]string, 100)
					for i := range in {
						in[i] = strings.Repeat("x", i+1)
					}
					in[guilty] = "bad"
					s := &script{digest: "ab", embed: func(in []string) ([][]float32, error) {
						if slices.Contains(in, "bad") {
							return c.fault(in)
						}
						return lengths(in)
					}}
					res, err := work(t, scripted(s), pipeline.Embed, params, texts(in...)...)
					if err != nil {
						t.Fatal(err)
					}
					for i, o := range res.Outcomes {
						if i == guilty {
							if o.Error == nil || o.Error.Code != c.code {
								t.Errorf("the guilty item = %s, %+v, want %s", o.Value, o.Error, c.code)
							}
							continue
						}
						v, err := pipeline.Vector(o.Value)
						if err != nil || v[0] != float32(len(in[i])) {
							t.Fatalf("item %d = %v, %v: not its own vector", i, v, err)
						}
					}
					if s.calls > 40 {
						t.Errorf("%d requests to find one of 100", s.calls)
					}
					if res.By != (pipeline.Maker{Engine: "script", Model: "m", Digest: "ab", Tier: "local", Seconds: res.By.Seconds}) {
						t.Errorf("made by %+v", res.By)
					}
				})
			})
		}
	}
}

// TestSickServer: a server that answers nobody costs an attempt or gives the shard
// back, and is not offered for a while; no item fails for it.
func TestSickServer(t *testing.T) {
	need := lease.Need{Model: "m"}
	all := func(kind error, after time.Duration) func([]string) ([][]float32, error) {
		return func([]string) ([][]float32, error) { return nil, &model.Error{Kind: kind, After: after} }
	}
	for name, c := range map[string]struct {
		s        script
		released bool
		withdraw lease.Need
		atLeast  time.Duration // Delay
	}{
		"lacks the model": {script{embed: all(model.ErrNoModel, 0)}, true, need, 0},
		"bad key":         {script{embed: all(model.ErrDenied, 0)}, true, need, 0},
		"away":            {script{models: model.Errorf(model.ErrUnavailable, "x"), embed: all(model.ErrUnavailable, 0)}, true, need, 0},
		"full for long":   {script{embed: all(model.ErrBusy, 10*time.Minute)}, true, need, 9 * time.Minute},
		"full for ever":   {script{embed: all(model.ErrBusy, 0)}, true, need, time.Second},
		"breaks always":   {script{embed: all(model.ErrUnavailable, 0)}, false, need, 0},
		"hangs always":    {script{embed: all(model.ErrStalled, 0)}, false, need, 0},
		"empty always":    {script{embed: all(model.ErrBadAnswer, 0)}, false, need, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				res, err := work(t, scripted(&c.s), pipeline.Embed, params, texts("a", "b", "c", "d")...)
				released, gave := errors.AsType[*worker.Released](err)
				failure, failed := errors.AsType[*worker.Failure](err)
				switch {
				case gave != c.released || failed == c.released:
					t.Errorf("= %v, %v", codes(res), err)
				case gave && (released.Withdraw != c.withdraw || released.Delay < c.atLeast):
					t.Errorf("given back with %+v", released)
				case failed && (failure.Class != lease.Retryable || failure.Withdraw != c.withdraw):
					t.Errorf("failed with %+v", failure)
				}
				if took := time.Since(began); took > 5*time.Minute {
					t.Errorf("found out after %v", took)
				}
			})
		})
	}
}

// TestFullServerIsWaitedFor: no attempt is spent on it, and all shards wait together.
func TestFullServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, full := time.Now(), 1
		var asked []time.Duration
		s := &script{embed: func(in []string) ([][]float32, error) {
			asked = append(asked, time.Since(began))
			if full > 0 {
				full--
				return nil, &model.Error{Kind: model.ErrBusy, After: 3 * time.Second}
			}
			return lengths(in)
		}}
		tools := scripted(s)
		for range 2 {
			if res, err := work(t, tools, pipeline.Embed, params, texts("a")...); err != nil || codes(res)[0] != "" {
				t.Fatalf("= %v, %v", codes(res), err)
			}
		}
		if len(asked) != 3 || asked[1] != 3*time.Second {
			t.Errorf("asked at %v, want a rest of 3 s", asked)
		}
	})
}

func TestOneItemAloneIsNotCalledGuilty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{embed: func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrBadAnswer, "x") }}
		_, err := work(t, scripted(s), pipeline.Embed, params, texts("a")...)
		if f, ok := errors.AsType[*worker.Failure](err); !ok || f.Class != lease.Retryable || f.Withdraw != (lease.Need{}) {
			t.Errorf("= %v, want a retryable failure", err)
		}
	})
}

func TestPinnedDigest(t *testing.T) {
	s := &script{digest: "abcd", embed: lengths}
	for digest, want := range map[string]bool{"abcd": true, "ffff": false} {
		p := `{"model":"m","digest":"` + digest + `"}`
		_, err := work(t, scripted(s), pipeline.Embed, p, texts("a")...)
		if released, gave := errors.AsType[*worker.Released](err); (err == nil) != want || gave == want || gave && released.Withdraw.Model != "m#ffff" {
			t.Errorf("a job of digest %s = %v", digest, err)
		}
	}
	s.embed = func(in []string) ([][]float32, error) {
		s.digest = "eeee" // pulled anew in the middle of it
		return lengths(in)
	}
	if _, err := work(t, scripted(s), pipeline.Embed, params, texts("a")...); err == nil || !strings.Contains(err.Error(), "became another") {
		t.Errorf("a model that changed = %v", err)
	}
}

// TestPaidServer: it serves who names its tier alone, and is asked only while the
// lease surely holds, never twice.
func TestPaidServer(t *testing.T) {
	s := &script{embed: func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrBadAnswer, "x") }}
	tools := &Tools{Servers: []*Server{{Tier: "cloud", Paid: true, Runtime: s}}}
	if err := tools.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := tools.Models(t.Context()); !slices.Equal(got, []string{"m@cloud"}) {
		t.Errorf("offered are %v", got)
	}
	if _, err := work(t, tools, pipeline.Embed, params, texts("a")...); err == nil || s.calls != 0 {
		t.Errorf("who names no tier is served: %v, %d calls", err, s.calls)
	}
	if _, err := work(t, tools, pipeline.Embed, `{"model":"m","tier":"cloud"}`, texts("a")...); err == nil || s.calls != 1 {
		t.Errorf("= %v, after %d paid calls, want one", err, s.calls)
	}
	s.embed = func([]string) ([][]float32, error) { return nil, &model.Error{Kind: model.ErrUnavailable} }
	_, err := work(t, tools, pipeline.Embed, `{"model":"m","tier":"cloud"}`, texts("a", "b", "c")...)
	if f, ok := errors.AsType[*worker.Failure](err); !ok || f.Class != lease.Unknown || !f.Final || !strings.Contains(f.Reason, "unknown outcome") || s.calls != 2 {
		t.Errorf("a connection that broke = %v, after %d paid calls, want one more", err, s.calls)
	}
	s.embed, s.calls = func([]string) ([][]float32, error) { return nil, model.Errorf(model.ErrBadAnswer, "x") }, 1
	if _, err := work(t, tools, pipeline.Embed, `{"model":"m","tier":"cloud"}`, texts("a", "b", "c")...); err == nil || s.calls != 2 {
		t.Errorf("a useless answer = %v, after %d paid calls, want one more", err, s.calls)
	}
	s.calls = 1
	lost := errors.New("lost")
	_, err = tools.Executors()[pipeline.Embed].Execute(t.Context(), worker.Task{
		Grant:  lease.Grant{Kind: pipeline.Embed, Payload: []byte(`{"model":"m","tier":"cloud"}`), Lines: &lease.Lines{Items: 1}},
		Lines:  func(context.Context) ([][]byte, error) { return [][]byte{[]byte(texts("a")[0])}, nil },
		Intend: func(context.Context, lease.Cost, bool) error { return nil },
		Spent:  func(lease.Cost) {},
		Sure:   func(context.Context) error { return lost },
	})
	if !errors.Is(err, lost) || s.calls != 1 {
		t.Errorf("without a sure lease: %v, %d calls", err, s.calls)
	}
}

func TestBadLinesCostNoOther(t *testing.T) {
	s := &script{embed: lengths, generate: func(model.GenerateRequest) (string, error) { return "yes", nil }}
	lines := []string{`{"custom_id":"a","input":"x"}`, `{"custom_id":"b"`, `{"custom_id":"c","input":""}`, `{"custom_id":"d"}`, `{"custom_id":"e","input":"y"}`,
		`{"custom_id":"f","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"x"}}`}
	for kind, want := range map[lease.Kind][]string{
		pipeline.Embed:         {"", codeInvalid, codeInvalid, codeInvalid, "", codeInvalid},
		pipeline.Generate:      {"", codeInvalid, codeInvalid, codeInvalid, "", codeInvalid},
		pipeline.SummarizeText: {"", codeInvalid, codeInvalid, codeInvalid, "", codeInvalid},
	} {
		p := params
		if kind == pipeline.SummarizeText {
			p = `{}`
		}
		res, err := work(t, scripted(s), kind, p, lines...)
		if err != nil || !slices.Equal(codes(res), want) {
			t.Errorf("%s of bad lines = %v, %v, want %v", kind, codes(res), err, want)
		}
	}
}

func TestGenerateJudgesAnswers(t *testing.T) {
	answers := map[string]string{
		"good": `{"label":"a"}`, "prose": "The label is a.", "other": `{"label":"z"}`, "more": `{"label":"a","x":1}`, "bare": " A. ", "fence": "```json\n{}\n```",
	}
	s := &script{generate: func(q model.GenerateRequest) (string, error) {
		text := q.Messages[len(q.Messages)-1].Text
		for k, v := range answers {
			if strings.HasSuffix(text, k) {
				return v, nil
			}
		}
		return "", model.Errorf(model.ErrTruncated, "cut")
	}}
	in := texts("good", "prose", "other", "more", "bare", "fence", "cut off")
	res, err := work(t, scripted(s), pipeline.Classify, `{"model":"m","labels":["a","b"]}`, in...)
	want := []string{"", codeLabel, codeLabel, codeLabel, "", codeLabel, codeTruncated}
	if err != nil || !slices.Equal(codes(res), want) {
		t.Errorf("classify = %v, %v, want %v", codes(res), err, want)
	}
	schema := `{"model":"m","schema":{"type":"object","required":["label"],"properties":{"label":{"enum":["a"]}},"additionalProperties":false}}`
	res, err = work(t, scripted(s), pipeline.Generate, schema, in...)
	want = []string{"", codeSchema, codeSchema, codeSchema, codeSchema, codeSchema, codeTruncated}
	if err != nil || !slices.Equal(codes(res), want) {
		t.Errorf("generate by a schema = %v, %v, want %v", codes(res), err, want)
	}
}

func TestTemplate(t *testing.T) {
	var asked []model.GenerateRequest
	s := &script{generate: func(q model.GenerateRequest) (string, error) { asked = append(asked, q); return "ok", nil }}
	res, err := work(t, scripted(s), pipeline.Generate, `{"model":"m","system":"be brief","prompt":"Dear {{name}}, {{n}}","seed":7,"max_tokens":5}`,
		`{"custom_id":"a","name":"Ann {{n}}","n":3}`, `{"custom_id":"b","name":"Bob"}`)
	if err != nil || !slices.Equal(codes(res), []string{"", codeInvalid}) || len(asked) != 1 {
		t.Fatalf("= %v, %v, %d questions", codes(res), err, len(asked))
	}
	q := asked[0]
	if len(q.Messages) != 2 || q.Messages[0].Text != "be brief" || q.Messages[1].Text != "Dear Ann {{n}}, 3" || *q.Seed != 7 || *q.Temperature != 0 || q.MaxTokens != 5 {
		t.Errorf("asked %+v", q)
	}
}

func TestChatBodies(t *testing.T) {
	var asked []model.GenerateRequest
	s := &script{generate: func(q model.GenerateRequest) (string, error) { asked = append(asked, q); return "ok", nil }}
	line := func(url, body string) string {
		return `{"custom_id":"a","method":"POST","url":"` + url + `","body":` + body + `}`
	}
	ok := []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}]}`,
		`{"model":"m","messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"max_tokens":5,"temperature":0.5,"seed":3,"stop":"z","response_format":{"type":"text"},"n":1,"stream":false,"user":"u"}`,
	}
	bad := map[string]string{
		`{"model":"other","messages":[{"role":"user","content":"x"}]}`:                                                                                 codeInvalid,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`:                                                                       codeInvalid,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"n":2}`:                                                                               codeUnsupported,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[]}`:                                                                          codeUnsupported,
		`{"model":"m","messages":[{"role":"tool","content":"x"}]}`:                                                                                     codeUnsupported,
		`{"model":"m","messages":[]}`:                                                                                                                  codeUnsupported,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`:                    codeUnsupported,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}`:                         codeUnsupported,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}],"modalities":["text"]}`: codeUnsupported,
	}
	for _, b := range ok {
		res, err := work(t, scripted(s), pipeline.Generate, `{"model":"m","batch":true}`, line(pipeline.ChatURL, b))
		if err != nil || codes(res)[0] != "" || !strings.Contains(string(res.Outcomes[0].Value), `"content":"ok"`) {
			t.Errorf("%s = %v, %v", b, codes(res), err)
		}
	}
	if q := asked[1]; len(q.Messages) != 2 || q.Messages[0].Role != model.System || len(q.Messages[1].Images) != 1 || q.MaxTokens != 5 || *q.Temperature != 0.5 || *q.Seed != 3 || q.Stop[0] != "z" {
		t.Errorf("asked %+v", q)
	}
	for b, want := range bad {
		res, err := work(t, scripted(s), pipeline.Generate, `{"model":"m","batch":true}`, line(pipeline.ChatURL, b))
		if err != nil || codes(res)[0] != want {
			t.Errorf("%s = %v, %v, want %s", b, codes(res), err, want)
		}
	}
	if len(asked) != 2 {
		t.Errorf("%d questions, want 2", len(asked))
	}
}

func TestHostileParameters(t *testing.T) {
	for _, p := range []string{`{"model":"m","url":"http://169.254.169.254/"}`, `{"model":"m","model":"n"}`, `{"model":"../x\n"}`, `[]`, ``} {
		s := &script{embed: lengths}
		if _, err := work(t, scripted(s), pipeline.Embed, p, texts("a")...); err == nil || s.calls > 0 {
			t.Errorf("parameters %s = %v, %d calls", p, err, s.calls)
		}
	}
}
