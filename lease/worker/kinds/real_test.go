package kinds

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
	"macbatch/summarize/model/ollama"
	"macbatch/summarize/model/ollamatest"
	"macbatch/summarize/model/openai"
	"macbatch/transcribe/ocr"
)

func shade(t *testing.T, grey uint8) string {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 64, 64))
	for i := range img.Pix {
		img.Pix[i] = grey
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

func texter(t *testing.T, r pipeline.ListResult, i int) pipeline.TextValue {
	t.Helper()
	var v pipeline.TextValue
	if err := json.Unmarshal(r.Outcomes[i].Value, &v); err != nil {
		t.Errorf("item %d = %+v: %v", i, r.Outcomes[i].Error, err)
	}
	return v
}

// TestReal does each kind on a real Ollama, by both of its protocols.
func TestReal(t *testing.T) {
	s := ollamatest.Start(t, nil)
	native := &Server{Tier: "local", Engine: "ollama", Runtime: ollama.New(model.Server{URL: s.URL, HTTP: &http.Client{}})}
	other := &Server{Tier: "other", Engine: "openai", Runtime: openai.New(model.Server{URL: s.URL, HTTP: &http.Client{}})}
	tools := &Tools{Servers: []*Server{native, other}}
	if err := tools.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	offered := tools.Models(t.Context())
	if !slices.Contains(offered, "tiny-bert") || !slices.Contains(offered, "tiny-chain@other") {
		t.Errorf("offered are %v", offered)
	}
	long := strings.Repeat("the lease ", 2000)

	for _, tier := range []string{"local", "other"} {
		// One protocol has a word for "do not cut"; by the other the count of tokens tells.
		in := append(texts("a lease", "who works", "a lease", "until when"), texts(long)...)
		r, err := work(t, tools, pipeline.Embed, `{"model":"tiny-bert","tier":"`+tier+`","together":3}`, in...)
		want := []string{"", "", "", "", codeOverflow}
		if err != nil || !slices.Equal(codes(r), want) || string(r.Outcomes[0].Value) != string(r.Outcomes[2].Value) || r.By.Usage.InputTokens == 0 {
			t.Fatalf("embed, %s = %v, %v, %+v", tier, codes(r), err, r.By)
		}
		if (len(r.By.Digest) == 64) != (tier == "local") {
			t.Errorf("made by %+v", r.By)
		}
		r, err = work(t, tools, pipeline.Generate, `{"model":"tiny-chain","tier":"`+tier+`"}`, texts("x", "y")...)
		if err != nil || texter(t, r, 1).Text != " "+ollamatest.Passage || texter(t, r, 1).Finish != "stop" || r.By.Usage.OutputTokens == 0 {
			t.Errorf("generate, %s = %+v, %v", tier, r, err)
		}
		r, err = work(t, tools, pipeline.Classify, `{"model":"tiny-chain","tier":"`+tier+`","labels":["good","bad"]}`, texts("x", "y")...)
		if err != nil || !slices.Equal(codes(r), []string{"", ""}) {
			t.Errorf("classify, %s = %+v, %v", tier, r, err)
		}
		chat := `{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"model":"tiny-chain","messages":[{"role":"user","content":"x"}]}}`
		r, err = work(t, tools, pipeline.Generate, `{"model":"tiny-chain","batch":true,"tier":"`+tier+`"}`, chat)
		if err != nil || codes(r)[0] != "" || !strings.Contains(string(r.Outcomes[0].Value), ollamatest.Passage) || r.By.Usage.OutputTokens == 0 {
			t.Errorf("chat, %s = %s %+v, %v", tier, r.Outcomes[0].Value, r.By, err)
		}
		vector := `{"custom_id":"c","method":"POST","url":"/v1/embeddings","body":{"model":"tiny-bert","input":%s,"encoding_format":"%s"}}`
		r, err = work(t, tools, pipeline.Embed, `{"model":"tiny-bert","batch":true,"tier":"`+tier+`"}`,
			fmt.Sprintf(vector, `"a lease"`, "float"), fmt.Sprintf(vector, `["a","b"]`, "base64"), fmt.Sprintf(vector, `[1,2]`, "float"))
		if err != nil || !slices.Equal(codes(r), []string{"", "", codeUnsupported}) || strings.Count(string(r.Outcomes[1].Value), `"embedding":"`) != 2 {
			t.Errorf("embeddings, %s = %v, %v", tier, codes(r), err)
		}
	}

	r, err := work(t, tools, pipeline.SummarizeText, `{"model":"tiny-chain","context":512}`, texts(long, "Short.")...)
	var sum pipeline.SummaryValue
	if err != nil || json.Unmarshal(r.Outcomes[0].Value, &sum) != nil || sum.Summary != ollamatest.Passage || sum.Extractive || sum.Usage.OutputTokens < 20 {
		t.Errorf("summarize = %+v, %+v, %v", sum, r.Outcomes[0].Error, err)
	}
	look := `{"model":"tiny-vision","prompt":"what is it?"}`
	in := []string{`{"custom_id":"a","prompt":"what?","image":"` + shade(t, 255) + `"}`, `{"custom_id":"b","prompt":"what?","images":["` + shade(t, 0) + `"]}`}
	if r, err = work(t, tools, pipeline.Generate, `{"model":"tiny-vision"}`, in...); err != nil || texter(t, r, 0).Text != "light" || texter(t, r, 1).Text != "dark" {
		t.Errorf("look = %+v, %v", r, err)
	}
	if r, err = work(t, tools, pipeline.Generate, `{"model":"tiny-chain"}`, append(in[:1:1], texts("x")...)...); err != nil || !slices.Equal(codes(r), []string{codeRefused, ""}) {
		t.Errorf("images for a blind model = %v, %v", codes(r), err)
	}
	tools.OCR = &ocr.Tools{}
	if r, err = work(t, tools, pipeline.OCR, look, in[:1]...); err != nil || texter(t, r, 0).Text != "light" {
		t.Errorf("ocr by a model = %+v, %v", r, err)
	}

	// Two workers' models under one name: each job gets its own digest's, or none.
	mine, err := native.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(mine, func(m model.Model) bool { return m.Name == "tiny-bert" })
	s.Create(t, "tiny-bert", ollamatest.Bert(7))
	_, err = work(t, tools, pipeline.Embed, `{"model":"tiny-bert","tier":"local","digest":"`+mine[i].Digest+`"}`, texts("a")...)
	if released, ok := errors.AsType[*worker.Released](err); !ok || released.Withdraw.Model != "tiny-bert#"+mine[i].Digest[:12]+"@local" {
		t.Errorf("a job pinned to a digest that is gone = %v", err)
	}
}

func TestRealOCR(t *testing.T) {
	tools, err := ocr.Find(t.Context())
	if err != nil || tools.Tesseract == "" {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	text := `{"custom_id":"c","image":"data:image/png;base64,` + base64.StdEncoding.EncodeToString([]byte("/etc/passwd\n")) + `"}`
	r, err := work(t, &Tools{OCR: tools}, pipeline.OCR, `{}`, `{"custom_id":"a","image":"`+shade(t, 255)+`"}`, `{"custom_id":"b","input":"x"}`, text)
	if err != nil || !slices.Equal(codes(r), []string{"", codeInvalid, codeInvalid}) || !strings.Contains(r.By.Engine, "tesseract") {
		t.Errorf("ocr = %+v, %v", r, err)
	}
	_, err = work(t, &Tools{OCR: tools}, pipeline.OCR, `{"language":"tlh"}`, `{"custom_id":"a","image":"`+shade(t, 255)+`"}`)
	if released, ok := errors.AsType[*worker.Released](err); !ok || released.Withdraw.Model != "tesseract:tlh" {
		t.Errorf("ocr in a language that is not here = %v", err)
	}
}
