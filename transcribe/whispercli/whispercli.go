package whispercli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"macbatch/transcode/child"
	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

type engine struct {
	program, ffmpeg, model string
	info                   transcribe.Info
	threads                int
	limits                 transcribe.Limits
}

func (e *engine) Info() transcribe.Info { return e.info }

// Parallel is one: a single call uses all threads.
func (e *engine) Parallel() int { return 1 }

const (
	stem      = "whisper"
	outputMax = 256 << 20
)

var languageCode = regexp.MustCompile(`^(auto|[a-z]{2,3})$`)

// Transcribe recognises one sound.
func (e *engine) Transcribe(ctx context.Context, r transcribe.Request) (transcribe.Transcript, error) {
	t, err := e.transcribe(ctx, r)
	if err != nil {
		return transcribe.Transcript{}, fmt.Errorf("transcribe with whisper.cpp: %w", err)
	}
	return t, nil
}

func (e *engine) transcribe(ctx context.Context, r transcribe.Request) (t transcribe.Transcript, err error) {
	language := r.Language
	if language == "" {
		language = "auto"
	}
	if !languageCode.MatchString(language) {
		return t, &transcribe.PermanentError{Err: fmt.Errorf("language %q: want a code such as en, or auto", language)}
	}
	if strings.Contains(e.info.Model, ".en") {
		if language != "en" && language != "auto" {
			return t, &transcribe.PermanentError{Err: fmt.Errorf("language %q: the model %s knows English alone", language, e.info.Model)}
		}
		language = "en"
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return t, err
	}
	wav := filepath.Join(dir, stem+".wav")
	profile, err := sound.Decode(ctx, e.ffmpeg, r.Sound, wav, r.DurationMS)
	if err != nil {
		return t, err
	}
	utterances := profile.Utterances()
	if len(utterances) > 0 {
		out, err := e.run(ctx, dir, wav, language, profile.DurationMS, r.Progress)
		if err != nil {
			return t, err
		}
		if t, err = parse(out); err != nil {
			return t, err
		}
		sound.DropUnheard(&t, utterances)
		if len(t.Segments) == 0 && profile.Speech() {
			return t, fmt.Errorf("no words in %d utterances of speech", len(utterances))
		}
	}
	e.info.Stamp(&t)
	t.DurationMS = profile.DurationMS
	t.Params = map[string]string{"language": language}
	if t.Validate(t.DurationMS) != nil {
		t = transcribe.Repair(t, t.DurationMS)
	}
	if len(t.Segments) == 0 {
		t.Flag(transcribe.NoSpeech)
	}
	profile.Triage(&t, utterances)
	return t, t.Validate(t.DurationMS)
}

// run returns what the program wrote to its output file.
func (e *engine) run(ctx context.Context, dir, wav, language string, ms int64, progress func(int64)) ([]byte, error) {
	out := filepath.Join(dir, stem+".json")
	// What an earlier attempt left must not pass for this one's.
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ctx, cancel := e.limits.Within(ctx, ms)
	defer cancel()
	log, err := child.Run(ctx, child.Command{
		Path: e.program, Dir: dir, Out: &lineWriter{ms: ms, progress: progress}, Stall: e.limits.Silence(ms),
		Args: []string{"-m", e.model, "-f", wav, "-l", language, "-t", strconv.Itoa(e.threads), "-np", "-ojf", "-of", filepath.Join(dir, stem)},
	})
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("whisper-cli ended without a result: %q", lastLine(log))
	}
	if err != nil {
		return nil, err
	}
	if st.Size() > outputMax {
		return nil, fmt.Errorf("whisper-cli wrote %d bytes, more than %d", st.Size(), outputMax)
	}
	return os.ReadFile(out)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// lineWriter watches standard output, where segments come as they are found:
// "[00:00:00.000 --> 00:00:02.000]   text".
type lineWriter struct {
	ms       int64
	progress func(ms int64)
	rest     []byte
}

var segmentLine = regexp.MustCompile(`^\[[0-9:.]+ --> (\d+):(\d\d):(\d\d)\.(\d{3})\]`)

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			break
		}
		w.rest = rest
		m := segmentLine.FindSubmatch(line)
		if m == nil || w.progress == nil {
			continue
		}
		var v [4]int64
		for i := range v {
			v[i], _ = strconv.ParseInt(string(m[i+1]), 10, 64) // digits by the pattern
		}
		w.progress(min(v[0]*3600000+v[1]*60000+v[2]*1000+v[3], w.ms))
	}
	if len(w.rest) > 1<<16 {
		w.rest = nil
	}
	return len(p), nil
}
