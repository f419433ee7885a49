package whispercli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

// noise is ms of silence or of a sound that changes as a voice does.
func noise(ms int, voiced bool) []int16 {
	out := make([]int16, ms*16)
	if !voiced {
		return out
	}
	for i := range out {
		at := float64(i) / sound.Rate
		f, level := 150.0, 7000.0
		if math.Mod(at, .2) > .12 {
			f, level = 3100, 900
		}
		out[i] = int16(level * math.Sin(2*math.Pi*f*at))
	}
	return out
}

func writeWAV(t *testing.T, parts ...[]int16) string {
	t.Helper()
	pcm := slices.Concat(parts...)
	var b bytes.Buffer
	b.WriteString("RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	for _, v := range []any{uint32(sound.Rate), uint32(2 * sound.Rate), uint16(2), uint16(16)} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("data")
	for _, v := range []any{uint32(2 * len(pcm)), pcm} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "in.wav")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// fake is an engine whose program is a script; it writes its arguments to args
// in its working folder.
func fake(t *testing.T, modelName, script string) *engine {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	prog := filepath.Join(dir, "whisper-cli")
	script = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'whisper.cpp version: 1.8.2'; exit; fi\nfor a; do echo \"$a\"; done > args\n" + script + "\n"
	if err := os.WriteFile(prog, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, modelName), []byte("model"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Find(Options{Program: prog, Model: filepath.Join(dir, modelName), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	return got.(*engine)
}

// replay is a script that writes the recorded output as the real program does.
func replay(t *testing.T) string {
	t.Helper()
	abs, err := filepath.Abs("testdata/full.json")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("cp %q whisper.json\necho\necho '[00:00:00.000 --> 00:00:02.000]   A lease'\necho '[00:00:02.100 --> 00:00:04.000]   until'", abs)
}

func TestTranscribe(t *testing.T) {
	e := fake(t, "ggml-base.bin", replay(t))
	dir := t.TempDir()
	var progress []int64
	got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, noise(5000, true)), DurationMS: 5000, Language: "auto", Dir: dir,
		Progress: func(ms int64) { progress = append(progress, ms) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(5000); err != nil {
		t.Fatal(err)
	}
	if len(got.Segments) != 2 || got.Segments[0].Text != "A lease says who works" || got.Segments[1].StartMS != 2100 || got.Segments[1].EndMS != 4000 {
		t.Fatalf("segments = %+v", got.Segments)
	}
	if w := got.Segments[0].Words; len(w) != 5 || w[1] != (transcribe.Word{StartMS: 330, EndMS: 540, Text: "lease", Confidence: 1}) {
		t.Fatalf("words = %+v", w)
	}
	if got.Language != "en" || got.DurationMS != 5000 || len(got.Flags) != 0 {
		t.Fatalf("transcript = %+v", got)
	}
	want := transcribe.Info{Engine: "whisper.cpp", EngineVersion: "1.8.2", Model: "ggml-base.bin",
		ModelDigest: "sha256:9372c470eeadd5ecd9c3c74c2b3cb633f8e2f2fad799250a0f70d652b6b825e4"}
	if e.Info() != want || got.Engine != want.Engine || got.ModelDigest != want.ModelDigest {
		t.Fatalf("Info = %+v, want %+v", e.Info(), want)
	}
	if !slices.Equal(progress, []int64{2000, 4000}) {
		t.Fatalf("progress = %d", progress)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-m", e.model, "-f", filepath.Join(dir, "whisper.wav"), "-l", "auto", "-t", "2", "-np", "-ojf", "-of", filepath.Join(dir, "whisper")}; !slices.Equal(strings.Fields(string(args)), want) {
		t.Fatalf("arguments = %q, want %q", args, want)
	}
}

// TestLimits: a program that says nothing, and one that never stops saying something.
func TestLimits(t *testing.T) {
	for script, want := range map[string]error{
		"exec sleep 60": child.ErrStalled,
		"while :; do echo '[00:00:00.000 --> 00:00:02.000]   again'; sleep 0.02; done": transcribe.ErrTooSlow,
	} {
		e := fake(t, "ggml-base.bin", script)
		asked := int64(0)
		e.limits.Silence = func(ms int64) time.Duration { asked = ms; return 500 * time.Millisecond }
		e.limits.Patience = func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond / 2 }
		_, err := e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, noise(5000, true)), DurationMS: 5000, Dir: t.TempDir()})
		if !errors.Is(err, want) || asked != 5000 {
			t.Errorf("%s: %v, limits of %d ms, want %v", script, err, asked, want)
		}
	}
}

// TestExitZeroIsNoSuccess: the program ends with 0 whatever happened to it.
func TestExitZeroIsNoSuccess(t *testing.T) {
	for name, script := range map[string]string{
		"no file":        "echo 'error: failed to read audio data' >&2",
		"half a file":    "head -c 700 " + strings.Fields(replay(t))[1] + " > whisper.json",
		"an empty file":  ": > whisper.json",
		"no result":      "echo '{}' > whisper.json",
		"nothing heard":  `echo '{"transcription":[]}' > whisper.json`,
		"only a remark":  `echo '{"transcription":[{"offsets":{"from":1500,"to":4000},"text":" [BLANK_AUDIO]"}]}' > whisper.json`,
		"its exit three": "exit 3",
	} {
		e := fake(t, "ggml-base.bin", script)
		dir := t.TempDir()
		// Left by an earlier attempt, not by this one.
		old, err := os.ReadFile("testdata/full.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "whisper.json"), old, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, noise(1500, false), noise(5000, true)), Dir: dir})
		if _, permanent := errors.AsType[*transcribe.PermanentError](err); err == nil || permanent {
			t.Fatalf("%s: Transcribe = %+v, %v, want a failure that may go away", name, got, err)
		}
	}
}

func TestNothingIsInvented(t *testing.T) {
	e := fake(t, "ggml-base.bin", `echo '{"result":{"language":"en"},"transcription":[
		{"offsets":{"from":0,"to":4000},"text":" Hello there."},
		{"offsets":{"from":9000,"to":12000},"text":" Thanks for watching!"}]}' > whisper.json`)
	got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, noise(4000, true), noise(20000, false)), Dir: t.TempDir()})
	if err != nil || len(got.Segments) != 1 || !got.Has(transcribe.Unheard) {
		t.Fatalf("Transcribe = %+v, %v, want the words in silence dropped", got, err)
	}
	got, err = e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, noise(40000, false)), Dir: t.TempDir()})
	if err != nil || len(got.Segments) != 0 || !got.Has(transcribe.NoSpeech) || got.DurationMS != 40000 || got.Engine == "" {
		t.Fatalf("Transcribe(silence) = %+v, %v", got, err)
	}
}

func TestBrokenTimesAreRepaired(t *testing.T) {
	e := fake(t, "ggml-base.bin", `echo '{"transcription":[
		{"offsets":{"from":3000,"to":2000},"text":" two"}, {"offsets":{"from":0,"to":3500},"text":" one"},
		{"offsets":{"from":4000,"to":30000},"text":" three"}]}' > whisper.json`)
	got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, noise(5000, true)), Dir: t.TempDir()})
	if err != nil || got.Validate(5000) != nil || len(got.Segments) != 3 || !got.Has(transcribe.Repaired) {
		t.Fatalf("Transcribe = %+v, %v", got, err)
	}
}

func TestPermanent(t *testing.T) {
	text := filepath.Join(t.TempDir(), "a.flac")
	if err := os.WriteFile(text, []byte("no sound"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]transcribe.Request{
		"language": {Sound: writeWAV(t, noise(100, false)), Language: "de"},
		"flag":     {Sound: writeWAV(t, noise(100, false)), Language: "-h"},
		"text":     {Sound: text},
	} {
		r.Dir = t.TempDir()
		_, err := fake(t, "ggml-base.en.bin", "exit 1").Transcribe(t.Context(), r)
		if _, ok := errors.AsType[*transcribe.PermanentError](err); !ok {
			t.Fatalf("%s: Transcribe = %v, want a permanent error", name, err)
		}
	}
}

func TestModelIsFound(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"ggml-tiny.en.bin", "ggml-small.bin", "ggml-small-q5_0.bin", "ggml-silero-v5.1.2.bin", "for-tests-ggml-tiny.bin", "ggml-medium.txt"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for given, want := range map[string]string{"": "ggml-small-q5_0.bin", "tiny.en": "ggml-tiny.en.bin", "ggml-small.bin": "ggml-small.bin", "large": ""} {
		got, err := model(Options{Model: given, ModelDirs: []string{dir}}, "/no/bin/whisper-cli")
		if want == "" {
			if !errors.Is(err, ErrNotFound) {
				t.Fatalf("model(%q) = %q, %v, want not found", given, got, err)
			}
		} else if err != nil || filepath.Base(got) != want {
			t.Fatalf("model(%q) = %q, %v, want %q", given, got, err, want)
		}
	}
	if _, err := Find(Options{Program: "no-such-whisper"}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "brew install") {
		t.Fatalf("Find = %v, want it to say how to install", err)
	}
}

func TestCutCharacters(t *testing.T) {
	got, err := parse([]byte("{\"transcription\":[{\"offsets\":{\"from\":0,\"to\":9},\"text\":\" na\xc3\xafve \xe6\x97\xa5\",\"tokens\":[" +
		"{\"text\":\" na\xc3\",\"p\":0.5},{\"text\":\"\xafve\",\"p\":1},{\"text\":\" \xe6\",\"p\":1},{\"text\":\"\x97\xa5\",\"p\":1},{\"text\":\"<|endoftext|>\",\"p\":1}]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	w := got.Segments[0].Words
	if len(w) != 2 || w[0].Text != "naïve" || w[0].Confidence != .75 || w[1].Text != "日" {
		t.Fatalf("words = %+v", w)
	}
}

func FuzzParse(f *testing.F) {
	b, err := os.ReadFile("testdata/full.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parse(b)
		if err != nil {
			return
		}
		got = transcribe.Repair(got, 5000)
		if len(got.Segments) == 0 {
			return
		}
		if err := got.Validate(5000); err != nil {
			t.Fatalf("parse(%q): %v", b, err)
		}
	})
}
