package doctor

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"macbatch/summarize/model"
	"macbatch/summarize/model/ollama"
	"macbatch/summarize/model/ollamatest"
	"macbatch/transcribe"
	"macbatch/transcribe/pocketsphinx"
)

// TestSpeech has the real recogniser hear the real ffmpeg.
func TestSpeech(t *testing.T) {
	ffmpeg, err := exec.LookPath("ffmpeg")
	var engine transcribe.Transcriber
	if err == nil {
		engine, err = pocketsphinx.Find(pocketsphinx.Options{FFmpeg: ffmpeg})
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if f := one(t, Speech("pocketsphinx", false, engine, ffmpeg), OK, "for 2 s of sound"); f.Rate <= 0 {
		t.Errorf("its rate is %v", f.Rate)
	}
	one(t, Speech("pocketsphinx", false, engine, "/bin/false"), Fail, "make sound")
	broken := &mute{Transcriber: engine, err: &transcribe.UnavailableError{Err: errors.New("model file is gone")}}
	if f := one(t, Speech("mute", false, broken, ffmpeg), Fail, "model file is gone"); !strings.Contains(f.Fix, "--speech") {
		t.Errorf("the advice is %q", f.Fix)
	}
	broken.err = nil
	one(t, Speech("mad", false, broken, ffmpeg), Fail, "")
	broken.asked = 0
	if one(t, Speech("dear", true, broken, ffmpeg), OK, "costs money"); broken.asked != 0 {
		t.Error("a paid engine was asked")
	}
}

// mute fails, or hears what cannot be.
type mute struct {
	transcribe.Transcriber
	err   error
	asked int
}

func (m *mute) Transcribe(context.Context, transcribe.Request) (transcribe.Transcript, error) {
	m.asked++
	return transcribe.Transcript{Segments: []transcribe.Segment{{StartMS: 5000, EndMS: 9000, Text: "later than the end"}}}, m.err
}

// TestModels has a real Ollama answer.
func TestModels(t *testing.T) {
	s := ollamatest.Start(t, []string{"tiny-bert", "tiny-chain"})
	server := ollama.New(model.Server{URL: s.URL, HTTP: &http.Client{}})
	words, vectors := false, false
	for _, f := range look(t, Models("local", false, server)) {
		if f.Level == Fail {
			t.Errorf("found %+v", f)
		}
		words = words || strings.Contains(f.Text, "word")
		vectors = vectors || strings.Contains(f.Text, "vector of")
	}
	if !words || !vectors {
		t.Errorf("a word: %v; a vector: %v", words, vectors)
	}
	one(t, Models("local", true, server), OK, "costs money")

	gone := ollama.New(model.Server{URL: "http://127.0.0.1:1", HTTP: &http.Client{}})
	one(t, Models("gone", false, gone), Fail, "")
	one(t, Models("bare", false, bareServer{}), Warn, "no model")
	one(t, Models("sick", false, bareServer{{Name: "m"}}), Fail, "model not on this server")
}

// bareServer has models that do not run.
type bareServer []model.Model

func (b bareServer) Models(context.Context) ([]model.Model, error) { return b, nil }
func (b bareServer) Embed(context.Context, model.EmbedRequest) (model.Embeddings, error) {
	return model.Embeddings{}, model.Errorf(model.ErrNoModel, "no")
}
func (b bareServer) Generate(context.Context, model.GenerateRequest) (model.Generated, error) {
	return model.Generated{}, model.Errorf(model.ErrNoModel, "no")
}
