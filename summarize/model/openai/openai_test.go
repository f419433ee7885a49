package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"macbatch/summarize/model"
	"macbatch/summarize/model/ollamatest"
)

func say(name, text string) model.GenerateRequest {
	return model.GenerateRequest{Model: name, Messages: []model.Message{{Role: model.User, Text: text}}}
}

// TestReal speaks to the side of a real Ollama that others' clients use.
func TestReal(t *testing.T) {
	s := ollamatest.Start(t, []string{"tiny-chain", "tiny-bert", "tiny-vision"})
	r := New(model.Server{URL: s.URL, HTTP: &http.Client{}})
	if list, err := r.Models(t.Context()); err != nil || len(list) != 3 {
		t.Errorf("Models = %v, %v, want three", list, err)
	}
	a, err := r.Embed(t.Context(), model.EmbedRequest{Model: "tiny-bert", Input: []string{"a", "b"}})
	if err != nil || len(a.Vectors) != 2 || len(a.Vectors[1]) != ollamatest.Dimensions || a.Usage.InputTokens == 0 {
		t.Errorf("Embed = %d vectors, %v", len(a.Vectors), err)
	}
	g, err := r.Generate(t.Context(), say("tiny-chain", "x"))
	if err != nil || g.Text != " "+ollamatest.Passage || g.Usage.OutputTokens == 0 {
		t.Errorf("Generate = %+v, %v", g, err)
	}
	q := say("tiny-chain", "x")
	q.Schema = json.RawMessage(`{"type":"object","properties":{"label":{"type":"string","enum":["good","bad"]}},"required":["label"]}`)
	if g, err = r.Generate(t.Context(), q); err != nil || !json.Valid([]byte(g.Text)) {
		t.Errorf("Generate by a schema = %+v, %v", g, err)
	}
	q.MaxTokens = 2
	if g, err = r.Generate(t.Context(), q); !errors.Is(err, model.ErrTruncated) {
		t.Errorf("Generate cut within its structure = %+v, %v", g, err)
	}
	for _, err := range []error{
		func() error {
			_, err := r.Embed(t.Context(), model.EmbedRequest{Model: "nope", Input: []string{"a"}})
			return err
		}(),
		func() error { _, err := r.Generate(t.Context(), say("nope", "x")); return err }(),
	} {
		if !errors.Is(err, model.ErrNoModel) {
			t.Errorf("a model that is not there = %v", err)
		}
	}
	b, err := r.(model.Passer).Pass(t.Context(), "/v1/embeddings", []byte(`{"model":"tiny-bert","input":"a","encoding_format":"base64"}`))
	var answer struct {
		Data []struct{ Embedding json.RawMessage }
	}
	if err != nil || json.Unmarshal(b, &answer) != nil || len(answer.Data) != 1 {
		t.Fatalf("Pass = %s, %v", b, err)
	}
	v, err := Vector(answer.Data[0].Embedding)
	if err != nil || len(v) != ollamatest.Dimensions || v[0] != a.Vectors[0][0] {
		t.Errorf("Vector of base64 = %v, %v, want %v", v, err, a.Vectors[0])
	}
}

func serve(t *testing.T, status int, body string) model.Runtime {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(ts.Close)
	return New(model.Server{URL: ts.URL, HTTP: ts.Client(), Wait: time.Second})
}

func TestGenerateFaults(t *testing.T) {
	choice := func(rest string) string { return `{"choices":[{"index":0,` + rest + `}]}` }
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"no choice":           {200, `{"choices":[]}`, model.ErrBadAnswer},
		"nothing":             {200, ``, model.ErrBadAnswer},
		"no JSON":             {200, `upstream timed out`, model.ErrBadAnswer},
		"empty":               {200, choice(`"message":{"content":""},"finish_reason":"stop"`), model.ErrBadAnswer},
		"null":                {200, choice(`"message":{"content":null},"finish_reason":"stop"`), model.ErrBadAnswer},
		"cut":                 {200, choice(`"message":{"content":"a"},"finish_reason":"length"`), model.ErrTruncated},
		"filtered":            {200, choice(`"message":{"content":"a"},"finish_reason":"content_filter"`), model.ErrRefused},
		"refused by it":       {200, choice(`"message":{"content":null,"refusal":"I can't"},"finish_reason":"stop"`), model.ErrRefused},
		"error in a 200":      {200, `{"error":{"message":"provider returned error","code":502}}`, model.ErrUnavailable},
		"overflow in a 200":   {200, `{"error":{"message":"maximum context length is 4096 tokens"}}`, model.ErrOverflow},
		"overflow, by code":   {400, `{"error":{"message":"too long","code":"context_length_exceeded"}}`, model.ErrOverflow},
		"overflow, llama.cpp": {400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size","type":"exceed_context_size_error"}}`, model.ErrOverflow},
		"overflow, vLLM":      {400, `{"object":"error","message":"This model's maximum context length is 2048 tokens.","code":400}`, model.ErrOverflow},
		"lacks the model":     {404, `{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}`, model.ErrNoModel},
		"lacks the call":      {404, `{"detail":"Not Found"}`, model.ErrDenied},
		"bad key":             {401, `{"error":{"message":"Incorrect API key"}}`, model.ErrDenied},
		"out of money":        {429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, model.ErrDenied},
		"too fast":            {429, `{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}`, model.ErrBusy},
		"loading":             {503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, model.ErrBusy},
		"bad field":           {400, `{"error":{"message":"Unrecognized request argument"}}`, model.ErrRefused},
		"crash":               {500, `Internal Server Error`, model.ErrUnavailable},
	} {
		got, err := serve(t, c.status, c.body).Generate(t.Context(), say("m", "x"))
		if !errors.Is(err, c.want) {
			t.Errorf("%s = %+v, %v, want %v", name, got, err, c.want)
		}
		var e *model.Error
		if errors.Is(err, model.ErrBusy) && (!errors.As(err, &e) || e.After != 2*time.Second) {
			t.Errorf("%s: Retry-After is lost: %+v", name, e)
		}
	}
}

func TestEmbedFaults(t *testing.T) {
	entry := func(i int, v string) string { return fmt.Sprintf(`{"index":%d,"embedding":%s}`, i, v) }
	data := func(e ...string) string { return `{"data":[` + strings.Join(e, ",") + `]}` }
	for name, body := range map[string]string{
		"one vector less": data(entry(0, "[1,2]")), "one index twice": data(entry(0, "[1]"), entry(0, "[1]")),
		"index beyond": data(entry(0, "[1]"), entry(7, "[1]")), "negative index": data(entry(0, "[1]"), entry(-1, "[1]")),
		"an empty one": data(entry(0, "[1]"), entry(1, "[]")), "no number": data(entry(0, "[1]"), entry(1, "[NaN]")),
		"NaN in base64": data(entry(0, `"AACAPw=="`), entry(1, `"AADAfw=="`)), "half a number": data(entry(0, `"AACAPw=="`), entry(1, `"AACA"`)),
		"text": data(entry(0, `"AACAPw=="`), entry(1, `"%%"`)), "null": data(entry(0, "[1]"), entry(1, "null")), "none": `{}`,
	} {
		got, err := serve(t, 200, body).Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{"a", "b"}})
		if !errors.Is(err, model.ErrBadAnswer) {
			t.Errorf("%s = %+v, %v, want ErrBadAnswer", name, got, err)
		}
	}
	got, err := serve(t, 200, data(entry(1, "[2]"), entry(0, "[1]"))).Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{"a", "b"}})
	if err != nil || got.Vectors[0][0] != 1 || got.Vectors[1][0] != 2 {
		t.Errorf("vectors out of order = %v, %v", got.Vectors, err)
	}
}
