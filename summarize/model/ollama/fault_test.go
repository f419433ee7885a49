package ollama

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/summarize/model"
)

// serve runs a server that says what a healthy one cannot be made to say.
func serve(t *testing.T, h http.HandlerFunc) model.Runtime {
	t.Helper()
	return hang(t, time.Minute, h)
}

// hang is serve with a bound on how long the server may be silent.
func hang(t *testing.T, wait time.Duration, h http.HandlerFunc) model.Runtime {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		h(w, r)
	}))
	t.Cleanup(ts.Close)
	return New(model.Server{URL: ts.URL, HTTP: ts.Client(), Wait: wait})
}

func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

var hello = model.GenerateRequest{Model: "m", Messages: []model.Message{{Role: model.User, Text: "hello"}}}

func TestGenerateFaults(t *testing.T) {
	part := `{"model":"m","response":" A","done":false}` + "\n"
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want error
	}{
		"runner killed in a stream": {answers(200, part+`{"error":"an error was encountered while running the model: unexpected EOF"}`), model.ErrUnavailable},
		"stream without an end":     {answers(200, part), model.ErrUnavailable},
		"nothing":                   {answers(200, ""), model.ErrUnavailable},
		"empty answer":              {answers(200, `{"response":"","done":true,"done_reason":"stop"}`), model.ErrBadAnswer},
		"white answer":              {answers(200, `{"response":" \n","done":true,"done_reason":"stop"}`), model.ErrBadAnswer},
		"loaded only":               {answers(200, `{"response":"","done":true,"done_reason":"load"}`), model.ErrBadAnswer},
		"no JSON":                   {answers(200, "<html>"), model.ErrBadAnswer},
		"cut by the context":        {answers(200, `{"response":"a","done":true,"done_reason":"length"}`), model.ErrTruncated},
		"error for all":             {answers(200, `{"error":"invalid JSON schema in format"}`), model.ErrRefused},
		"permanent, called 500":     {answers(500, `{"error":"option \"num_ctx\" must be of type integer"}`), model.ErrRefused},
		"invalid format":            {answers(500, `{"error":"invalid format: \"\\\"yaml\\\"\"; expected \"json\" or a valid JSON Schema object"}`), model.ErrRefused},
		"inputs":                    {answers(500, `{"error":"failed to process inputs: image: unknown format"}`), model.ErrRefused},
		"crash":                     {answers(500, `{"error":"llama runner process has terminated: signal: killed"}`), model.ErrUnavailable},
		"runner gone, called 400":   {answers(400, `{"error":"do embedding request: Post \"http://127.0.0.1:1/embedding\": EOF"}`), model.ErrUnavailable},
		"full queue":                {answers(503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`), model.ErrBusy},
		"lacks the model":           {answers(404, `{"error":"model 'm' not found"}`), model.ErrNoModel},
		"lacks the call":            {answers(404, "404 page not found"), model.ErrDenied},
		"cannot generate":           {answers(400, `{"error":"\"m\" does not support generate"}`), model.ErrRefused},
		"overflow":                  {answers(400, `{"error":"the input length exceeds the context length"}`), model.ErrOverflow},
		"overflow, older words":     {answers(400, `{"error":"input length exceeds maximum context length"}`), model.ErrOverflow},
		"a line without an end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"response":"`, strings.Repeat("x", maxLine+1))
		}, model.ErrBadAnswer},
		"an answer without an end": {func(w http.ResponseWriter, _ *http.Request) {
			for range 20 {
				_, _ = fmt.Fprintf(w, `{"response":"%s"}`+"\n", strings.Repeat("x", 1<<20))
			}
		}, model.ErrTruncated},
	} {
		if got, err := serve(t, c.h).Generate(t.Context(), hello); !errors.Is(err, c.want) {
			t.Errorf("%s = %+v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestHungRunner(t *testing.T) {
	r := hang(t, 200*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"model":"m","response":" A","done":false}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if got, err := r.Generate(t.Context(), hello); !errors.Is(err, model.ErrStalled) {
		t.Errorf("Generate by a hung runner = %+v, %v, want ErrStalled", got, err)
	}
}

func TestEmbedFaults(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"one vector less":   {`{"embeddings":[[1,2]]}`, model.ErrBadAnswer},
		"one more":          {`{"embeddings":[[1,2],[1,2],[1,2]]}`, model.ErrBadAnswer},
		"an empty one":      {`{"embeddings":[[1,2],[]]}`, model.ErrBadAnswer},
		"none":              {`{"embeddings":[]}`, model.ErrBadAnswer},
		"nothing":           {`{}`, model.ErrBadAnswer},
		"empty":             {``, model.ErrBadAnswer},
		"no number":         {`{"embeddings":[[1,2],[NaN,1]]}`, model.ErrBadAnswer},
		"null":              {`{"embeddings":[[1,2],null]}`, model.ErrBadAnswer},
		"beyond float32":    {`{"embeddings":[[1,2],[1e300,1]]}`, model.ErrBadAnswer},
		"of another length": {`{"embeddings":[[1,2],[1,2,3]]}`, model.ErrBadAnswer},
		"an error":          {`{"error":"do embedding request: unexpected EOF"}`, model.ErrUnavailable},
	} {
		got, err := serve(t, answers(200, c.body)).Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{"a", "b"}})
		if !errors.Is(err, c.want) {
			t.Errorf("%s = %+v, %v, want %v", name, got, err, c.want)
		}
	}
	nan := serve(t, answers(500, `{"error":"json: unsupported value: NaN"}`))
	if _, err := nan.Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{"a"}}); !errors.Is(err, model.ErrBadAnswer) {
		t.Errorf("a server that stumbles over its own NaN = %v", err)
	}
}

// TestOldServer speaks to one that knows only the former call.
func TestOldServer(t *testing.T) {
	r := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/embeddings" {
			answers(404, "404 page not found")(w, r)
			return
		}
		var q struct{ Prompt string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		if q.Prompt == "none" {
			answers(200, `{"embedding":[]}`)(w, r)
			return
		}
		answers(200, `{"embedding":[3,4]}`)(w, r)
	})
	a, err := r.Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{"a", "b"}})
	if err != nil || len(a.Vectors) != 2 || a.Vectors[1][0] != 0.6 || a.Vectors[1][1] != 0.8 {
		t.Errorf("Embed = %v, %v, want two vectors of length one", a.Vectors, err)
	}
	for text, want := range map[string]error{"none": model.ErrBadAnswer, strings.Repeat("x", 5000): model.ErrOverflow} {
		if _, err := r.Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{text}}); !errors.Is(err, want) {
			t.Errorf("Embed(%.10q) = %v, want %v", text, err, want)
		}
	}
}

// TestNothingIsCutSilently looks at what is sent: without these fields a server
// cuts what is too long and says 200.
func TestNothingIsCutSilently(t *testing.T) {
	asked := map[string]map[string]any{}
	r := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		asked[r.URL.Path] = q
		answers(200, `{"response":"a","message":{"content":"a"},"embeddings":[[1]],"done":true,"done_reason":"stop"}`)(w, r)
	})
	talk := hello
	talk.Messages = append([]model.Message{{Role: model.Assistant, Text: "x"}}, talk.Messages...)
	_, err1 := r.Generate(t.Context(), hello)
	_, err2 := r.Generate(t.Context(), talk)
	_, err3 := r.Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{"a"}})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Error(err)
	}
	for path, fields := range map[string][]string{"/api/generate": {"truncate", "shift"}, "/api/chat": {"truncate", "shift"}, "/api/embed": {"truncate"}} {
		for _, f := range fields {
			if v, ok := asked[path][f]; !ok || v != false {
				t.Errorf("%s is asked with %s %v, want false", path, f, v)
			}
		}
	}
}

// TestStreamsShareAConnection: what follows the last line of an answer is read, too,
// for a connection is of use again only then; but nobody waits for its end.
func TestStreamsShareAConnection(t *testing.T) {
	var conns atomic.Int32
	var open atomic.Bool
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // its end lets the server see that the client left
		_, _ = fmt.Fprintln(w, `{"response":"a","done":true,"done_reason":"stop"}`)
		_ = http.NewResponseController(w).Flush()
		if open.Load() {
			<-r.Context().Done()
		}
		_, _ = fmt.Fprint(w, strings.Repeat("\n", 32<<10)) // more than the client reads ahead
	}))
	ts.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	ts.Start()
	t.Cleanup(ts.Close)
	r := New(model.Server{URL: ts.URL, HTTP: ts.Client(), Wait: time.Minute})
	for range 10 {
		if got, err := r.Generate(t.Context(), hello); err != nil || got.Text != "a" {
			t.Fatalf("= %+v, %v", got, err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for 10 answers, one after another", n)
	}
	open.Store(true)
	if got, err := r.Generate(t.Context(), hello); err != nil || got.Text != "a" {
		t.Errorf("of a stream that stays open = %+v, %v", got, err)
	}
}
