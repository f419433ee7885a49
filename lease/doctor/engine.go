package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"macbatch/summarize/model"
	"macbatch/transcode/child"
	"macbatch/transcribe"
)

// soundMS is how much sound an engine is given.
const soundMS = 2000

// Speech has an engine transcribe two seconds of sound that ffmpeg makes. One that is
// paid is not asked.
func Speech(name string, paid bool, engine transcribe.Transcriber, ffmpeg string) Check {
	return Check{"speech", name, func(ctx context.Context) []Finding {
		if paid {
			return []Finding{ok("speech", name, "not asked, for it costs money")}
		}
		took, err := speak(ctx, engine, ffmpeg)
		if err != nil {
			fix := "run the engine by hand: what it says is in its message"
			var away *transcribe.UnavailableError
			if errors.As(err, &away) {
				fix = "start its server, or take it from --speech"
			}
			if e := Explain("", "", err); e != "" {
				fix = e
			}
			return []Finding{bad(Fail, "speech", name, fix, "%v", err)}
		}
		i := engine.Info()
		what := i.Engine
		if i.Model != "" {
			what += " with " + i.Model
		}
		f := ok("speech", name, "%s took %.1f s for 2 s of sound", what, took.Seconds())
		f.Rate = soundMS / 1000 / took.Seconds()
		return []Finding{f}
	}}
}

// speak returns how long an engine took.
func speak(ctx context.Context, engine transcribe.Transcriber, ffmpeg string) (took time.Duration, err error) {
	dir, err := os.MkdirTemp("", "macbatch-doctor-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sound := filepath.Join(dir, "sound.flac")
	if _, err := child.Run(ctx, child.Command{Path: ffmpeg, Dir: dir, Args: []string{
		"-nostdin", "-hide_banner", "-loglevel", "error", "-f", "lavfi", "-i", "sine=frequency=220:beep_factor=4:sample_rate=16000:duration=2", "-ac", "1", "-y", "file:" + sound,
	}}); err != nil {
		return 0, fmt.Errorf("make sound: %w", err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return 0, err
	}
	began := time.Now()
	t, err := engine.Transcribe(ctx, transcribe.Request{Sound: sound, DurationMS: soundMS, Language: "auto", Dir: work})
	if err != nil {
		return 0, err
	}
	return time.Since(began), t.Validate(soundMS)
}

// fewModels is how many models of one server are tried.
const fewModels = 3

// Models has models of a server answer with a word, or with a vector where they know
// none. One that is paid is not asked. The server need not be there when it was not
// named.
func Models(tier string, paid bool, server model.Runtime) Check {
	return Check{"models", tier, func(ctx context.Context) (list []Finding) {
		if paid {
			return []Finding{ok("models", tier, "not asked, for it costs money")}
		}
		models, err := server.Models(ctx)
		switch {
		case err != nil:
			fix := Explain("", "", err)
			if fix == "" {
				fix = "start the server, or take it from --runtime"
			}
			return []Finding{bad(Fail, "models", tier, fix, "%v", err)}
		case len(models) == 0:
			return []Finding{bad(Warn, "models", tier, "give it a model, such as: ollama pull nomic-embed-text", "the server has no model")}
		}
		for _, m := range models[:min(len(models), fewModels)] {
			list = append(list, answer(ctx, tier, m, server))
		}
		if n := len(models) - len(list); n > 0 {
			list = append(list, ok("models", tier, "%d more are there, and were not asked", n))
		}
		return list
	}}
}

// answer asks one model.
func answer(ctx context.Context, tier string, m model.Model, server model.Runtime) Finding {
	of := m.Name + "@" + tier
	began := time.Now()
	_, err := server.Generate(ctx, model.GenerateRequest{Model: m.Name, Messages: []model.Message{{Role: model.User, Text: "Say yes."}}, MaxTokens: 1})
	if err == nil {
		return ok("models", of, "a word came after %.1f s", time.Since(began).Seconds())
	}
	began = time.Now()
	v, verr := server.Embed(ctx, model.EmbedRequest{Model: m.Name, Input: []string{"yes"}})
	switch {
	case verr == nil && len(v.Vectors) == 1:
		return ok("models", of, "a vector of %d numbers came after %.1f s", len(v.Vectors[0]), time.Since(began).Seconds())
	case errors.Is(err, model.ErrTruncated), errors.Is(err, model.ErrBadAnswer):
		return bad(Warn, "models", of, "one that thinks before it speaks needs more tokens than it is given here; see with a small list", "it answers without a word: %v", err)
	}
	return bad(Fail, "models", of, "the server's log says more; it may lack memory for this model", "%v", err)
}
