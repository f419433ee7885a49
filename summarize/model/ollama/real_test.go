package ollama_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"macbatch/summarize/model"
	"macbatch/summarize/model/ollama"
	"macbatch/summarize/model/ollamatest"
)

func page(t *testing.T, shade uint8) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 64, 64))
	for i := range img.Pix {
		img.Pix[i] = shade
	}
	img.SetGray(0, 0, color.Gray{128})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func say(name, text string) model.GenerateRequest {
	return model.GenerateRequest{Model: name, Messages: []model.Message{{Role: model.User, Text: text}}}
}

// TestReal holds the runtime to a real server: what it promises, and each trap
// that such a server lays.
func TestReal(t *testing.T) {
	s := ollamatest.Start(t, nil)
	r := ollama.New(model.Server{URL: s.URL, HTTP: &http.Client{}})
	long := strings.Repeat("the lease ", 2000)

	t.Run("models", func(t *testing.T) {
		list, err := r.Models(t.Context())
		if err != nil || len(list) != 5 {
			t.Fatalf("Models = %v, %v, want five", list, err)
		}
		for _, m := range list {
			if len(m.Digest) != 64 || strings.Contains(m.Name, ":") {
				t.Errorf("model %+v", m)
			}
		}
	})
	t.Run("embed", func(t *testing.T) {
		a, err := r.Embed(t.Context(), model.EmbedRequest{Model: "tiny-bert", Input: []string{"a lease", "who works", "a lease"}})
		if err != nil || len(a.Vectors) != 3 || len(a.Vectors[0]) != ollamatest.Dimensions || a.Usage.InputTokens == 0 {
			t.Fatalf("Embed = %d vectors, %+v, %v", len(a.Vectors), a.Usage, err)
		}
		same, other, length := true, false, 0.0
		for i, x := range a.Vectors[0] {
			same, other = same && x == a.Vectors[2][i], other || x != a.Vectors[1][i]
			length += float64(x) * float64(x)
		}
		if !same || !other || math.Abs(length-1) > 1e-3 {
			t.Errorf("vectors of equal texts equal: %v, of others differ: %v, length %v", same, other, length)
		}
		if a, err = r.Embed(t.Context(), model.EmbedRequest{Model: "tiny-bert", Input: []string{"a"}, Dimensions: 16}); err != nil || len(a.Vectors[0]) != 16 {
			t.Errorf("Embed of 16 dimensions: %v", err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		embed := func(m string, in ...string) error {
			_, err := r.Embed(t.Context(), model.EmbedRequest{Model: m, Input: in})
			return err
		}
		generate := func(q model.GenerateRequest) error {
			_, err := r.Generate(t.Context(), q)
			return err
		}
		cut, bad, unmet := say("tiny-chain", "x"), say("tiny-chain", "x"), say("tiny-chain", "x")
		cut.MaxTokens, cut.Schema = 3, json.RawMessage(`{"type":"object","properties":{"label":{"type":"string"}},"required":["label"]}`)
		bad.Schema = json.RawMessage(`{"type":"nonsense"}`)
		unmet.Messages[0].Images = [][]byte{page(t, 255)}
		for name, c := range map[string]struct{ got, want error }{
			"empty text":               {embed("tiny-bert", "a", ""), model.ErrRefused},
			"one text too long":        {embed("tiny-bert", "a", long), model.ErrOverflow},
			"no such embedder":         {embed("nope", "a"), model.ErrNoModel},
			"prompt too long":          {generate(say("tiny-chain", long)), model.ErrOverflow},
			"no such model":            {generate(say("nope", "x")), model.ErrNoModel},
			"cut within its structure": {generate(cut), model.ErrTruncated},
			"no end":                   {generate(say("tiny-loop", "x")), model.ErrTruncated},
			"bad schema":               {generate(bad), model.ErrRefused},
			"image for a blind model":  {generate(unmet), model.ErrRefused},
			"generate by an embedder":  {generate(say("tiny-bert", "x")), model.ErrRefused},
		} {
			if !errors.Is(c.got, c.want) {
				t.Errorf("%s = %v, want %v", name, c.got, c.want)
			}
		}
	})
	t.Run("generate", func(t *testing.T) {
		tokens := 0
		q := say("tiny-chain", "x")
		q.Progress = func(n int) { tokens = n }
		a, err := r.Generate(t.Context(), q)
		if err != nil || a.Text != " "+ollamatest.Passage || a.Finish != model.Stopped || a.Usage.OutputTokens == 0 || tokens == 0 {
			t.Fatalf("Generate = %+v, %v, %d tokens seen", a, err, tokens)
		}
		q.MaxTokens = 3
		if a, err = r.Generate(t.Context(), q); err != nil || a.Text != " A lease says" || a.Finish != model.Length {
			t.Errorf("Generate of three tokens = %+v, %v", a, err)
		}
		q = say("tiny-chain", "x")
		q.Messages = []model.Message{{Role: model.System, Text: "be brief"}, {Role: model.User, Text: "a"}, {Role: model.Assistant, Text: "b"}, {Role: model.User, Text: "c"}}
		if a, err = r.Generate(t.Context(), q); err != nil || a.Text != " "+ollamatest.Passage {
			t.Errorf("Generate of a talk = %+v, %v", a, err)
		}
		q = say("tiny-chain", "x")
		q.Schema = json.RawMessage(`{"type":"object","properties":{"label":{"type":"string","enum":["good","bad"]}},"required":["label"]}`)
		var got struct{ Label string }
		if a, err = r.Generate(t.Context(), q); err != nil || json.Unmarshal([]byte(a.Text), &got) != nil || got.Label != "good" && got.Label != "bad" {
			t.Errorf("Generate by a schema = %+v, %v", a, err)
		}
	})
	t.Run("look", func(t *testing.T) {
		for shade, want := range map[uint8]string{255: "light", 0: "dark"} {
			q := say("tiny-vision", "what is it?")
			q.Messages[0].Images = [][]byte{page(t, shade)}
			if a, err := r.Generate(t.Context(), q); err != nil || a.Text != want {
				t.Errorf("image of shade %d = %+v, %v, want %s", shade, a, err, want)
			}
		}
	})
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := say("tiny-loop", "x")
		q.MaxTokens, q.Context = 1_000_000, 65536
		q.Progress = func(n int) {
			if n == 5 {
				cancel()
			}
		}
		if _, err := r.Generate(ctx, q); !errors.Is(err, context.Canceled) {
			t.Fatalf("Generate given up = %v", err)
		}
		began := time.Now()
		q = say("tiny-loop", "x")
		q.MaxTokens = 3
		if a, err := r.Generate(t.Context(), q); err != nil || time.Since(began) > 30*time.Second {
			t.Errorf("the next one = %+v, %v after %v", a, err, time.Since(began))
		}
	})
	t.Run("killed runner", func(t *testing.T) {
		killed := 0
		q := say("tiny-loop", "x")
		q.MaxTokens, q.Context = 1_000_000, 65536
		q.Progress = func(n int) {
			if n == 20 {
				killed = s.KillRunners(t)
			}
		}
		_, err := r.Generate(t.Context(), q)
		if killed == 0 || !errors.Is(err, model.ErrUnavailable) {
			t.Fatalf("Generate with %d runners killed = %v, want ErrUnavailable", killed, err)
		}
		if a, err := r.Embed(t.Context(), model.EmbedRequest{Model: "tiny-bert", Input: []string{"a"}}); err != nil || len(a.Vectors) != 1 {
			t.Errorf("Embed after it = %v", err)
		}
	})
}
