package pocketsphinx

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

const clips = "/usr/share/pocketsphinx/test/data/librivox"

// need skips where an external thing is missing, but not in CI.
func need(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func find(t *testing.T) *engine {
	t.Helper()
	got, err := Find(Options{})
	if !errors.Is(err, ErrNotFound) && err != nil {
		t.Fatal(err)
	}
	need(t, err)
	return got.(*engine)
}

// read returns the samples of a clip.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(clips, name+".wav"))
	need(t, err)
	return b[44:]
}

func writeWAV(t *testing.T, pcm []byte) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("RIFF....WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00")
	for _, v := range []any{uint32(sound.Rate), uint32(2 * sound.Rate), uint16(2), uint16(16)} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("data")
	if err := binary.Write(&b, binary.LittleEndian, uint32(len(pcm))); err != nil {
		t.Fatal(err)
	}
	b.Write(pcm)
	name := filepath.Join(t.TempDir(), "in put.wav")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func quiet(ms int) []byte { return make([]byte, ms*32) }

// reading is the five clips with pauses, its words, and where each clip starts.
func reading(t *testing.T) (wav string, ms int64, words []string, starts []int64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clips, "transcription"))
	need(t, err)
	var pcm []byte
	for i, m := range regexp.MustCompile(`<s> (.*) </s> \((.*)\)`).FindAllStringSubmatch(string(text), -1) {
		pcm = append(pcm, quiet([]int{0, 350, 900, 7000, 2500}[i%5])...)
		starts = append(starts, int64(len(pcm)/32))
		pcm = append(pcm, read(t, m[2])...)
		words = append(words, strings.Fields(strings.ReplaceAll(m[1], "mister", "mr"))...)
	}
	return writeWAV(t, pcm), int64(len(pcm) / 32), words, starts
}

func edits(a, b []string) int {
	d := make([]int, len(b)+1)
	for j := range d {
		d[j] = j
	}
	for i, x := range a {
		diag := d[0]
		d[0] = i + 1
		for j, y := range b {
			sub := diag
			if x != y {
				sub++
			}
			diag = d[j+1]
			d[j+1] = min(sub, d[j]+1, d[j+1]+1)
		}
	}
	return d[len(b)]
}

func TestReading(t *testing.T) {
	e := find(t)
	wav, ms, words, starts := reading(t)
	var progress []int64
	got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: wav, DurationMS: ms, Language: "en", Dir: t.TempDir(),
		Progress: func(ms int64) { progress = append(progress, ms) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(ms); err != nil {
		t.Fatal(err)
	}
	if got.DurationMS != ms || got.Language != "en" || got.Engine != "pocketsphinx" || !strings.HasPrefix(got.ModelDigest, "sha256:") {
		t.Fatalf("transcript head = %+v", got)
	}
	var heard []string
	at := map[string][]int64{}
	for _, s := range got.Segments {
		for _, w := range s.Words {
			heard = append(heard, w.Text)
			at[w.Text] = append(at[w.Text], w.StartMS)
			if w.Confidence <= 0 || w.Confidence > 1 {
				t.Fatalf("word %+v: confidence is not within (0, 1]", w)
			}
		}
	}
	wrong := float64(edits(words, heard)) / float64(len(words))
	t.Logf("%.1f %% of %d words wrong: %s", 100*wrong, len(words), strings.Join(heard, " "))
	if wrong > .40 {
		t.Fatalf("%.1f %% of the words are wrong", 100*wrong)
	}
	// Where an aligner that was told the words puts them.
	for _, w := range []struct {
		clip  int
		text  string
		start int64
	}{{0, "consider", 2890}, {0, "much", 4000}, {1, "young", 2110}, {2, "selfish", 2780}, {3, "woman", 2010}, {4, "even", 640}, {4, "himself", 2270}} {
		want := starts[w.clip] + w.start
		if !slices.ContainsFunc(at[w.text], func(ms int64) bool { return ms > want-200 && ms < want+200 }) {
			t.Errorf("%q at %d ms, want %d ms", w.text, at[w.text], want)
		}
	}
	if len(progress) < 4 || !slices.IsSorted(progress) || progress[len(progress)-1] < ms-500 {
		t.Fatalf("progress = %d of %d ms", progress, ms)
	}
}

func TestNobodySpeaks(t *testing.T) {
	e := find(t)
	e.program = "/nonexistent" // never started
	got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: writeWAV(t, quiet(40000)), DurationMS: 40000, Dir: t.TempDir()})
	if err != nil || !got.Has(transcribe.NoSpeech) || len(got.Segments) != 0 || got.Validate(40000) != nil {
		t.Fatalf("Transcribe(silence) = %+v, %v", got, err)
	}
}

// TestLyingProgram runs programs that exit 0 without having done the work.
func TestLyingProgram(t *testing.T) {
	e := find(t)
	wav, ms, _, _ := reading(t)
	n := len(mustOpen(t, wav).Utterances())
	for name, script := range map[string]string{
		"nothing written":      "exit 0",
		"empty files":          ": > utterances.hyp; : > utterances.ctm",
		"ends half way":        "echo 'he was (0 -1)' > utterances.hyp; echo '0 1 0.10 0.20 he 0.9' > utterances.ctm",
		"no word in all":       fmt.Sprintf("for i in $(seq %d); do echo ' (0 -1)'; done > utterances.hyp; : > utterances.ctm", n),
		"words out of nowhere": fmt.Sprintf("for i in $(seq %d); do echo ' (0 -1)'; done > utterances.hyp; echo '99 1 0.10 0.20 he 0.9' > utterances.ctm", n),
	} {
		e.program = filepath.Join(t.TempDir(), "liar")
		if err := os.WriteFile(e.program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := e.Transcribe(t.Context(), transcribe.Request{Sound: wav, DurationMS: ms, Dir: t.TempDir()})
		if _, permanent := errors.AsType[*transcribe.PermanentError](err); err == nil || permanent {
			t.Fatalf("%s: Transcribe = %+v, %v, want a failure that may go away", name, got, err)
		}
	}
}

func mustOpen(t *testing.T, wav string) sound.Profile {
	t.Helper()
	p, err := sound.Open(wav)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPermanent(t *testing.T) {
	e := find(t)
	text := filepath.Join(t.TempDir(), "a.flac")
	if err := os.WriteFile(text, []byte("no sound"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]transcribe.Request{
		"language": {Sound: writeWAV(t, quiet(100)), Language: "de"},
		"text":     {Sound: text},
		"short":    {Sound: writeWAV(t, quiet(1000)), DurationMS: 9000},
	} {
		r.Dir = t.TempDir()
		_, err := e.Transcribe(t.Context(), r)
		if _, ok := errors.AsType[*transcribe.PermanentError](err); !ok {
			t.Fatalf("%s: Transcribe = %v, want a permanent error", name, err)
		}
	}
}

func TestCanceled(t *testing.T) {
	e := find(t)
	wav, ms, _, _ := reading(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lease lost")
	_, err := e.Transcribe(ctx, transcribe.Request{Sound: wav, DurationMS: ms, Dir: t.TempDir(), Progress: func(int64) { cancel(lost) }})
	if !errors.Is(err, lost) {
		t.Fatalf("Transcribe = %v, want %v", err, lost)
	}
}

func TestFindSaysWhatIsMissing(t *testing.T) {
	for _, o := range []Options{{Program: "no-such-recogniser"}, {FFmpeg: "/no/ffmpeg"}, {Model: t.TempDir()}} {
		if o.Program == "" {
			_, err := exec.LookPath("pocketsphinx_batch")
			need(t, err)
		}
		if _, err := Find(o); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "apt install") {
			t.Fatalf("Find(%+v) = %v, want it to say how to install", o, err)
		}
	}
	if _, err := Find(Options{Program: "true"}); err == nil || errors.Is(err, ErrNotFound) {
		t.Fatalf("Find(true) = %v, want it recognised as another program", err)
	}
}

func TestParse(t *testing.T) {
	us := []sound.Span{{FromMS: 1000, ToMS: 3000}, {FromMS: 5000, ToMS: 6000}}
	got, err := parse([]byte("0 1 0.10 0.20 <s> 1.0\n0 1 0.30 0.20 and(2) 0.25\n0 1 0.50 0.10 [NOISE] 0.9\n0 1 0.60 0.40 then 0.75\n1 1 0.90 0.20 yes 1.0002\n"), us)
	if err != nil {
		t.Fatal(err)
	}
	want := []transcribe.Segment{
		{StartMS: 1300, EndMS: 2000, Text: "and then", Confidence: .5, Words: []transcribe.Word{{StartMS: 1300, EndMS: 1500, Text: "and", Confidence: .25}, {StartMS: 1600, EndMS: 2000, Text: "then", Confidence: .75}}},
		{StartMS: 5900, EndMS: 6000, Text: "yes", Confidence: 1, Words: []transcribe.Word{{StartMS: 5900, EndMS: 6000, Text: "yes", Confidence: 1}}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("parse = %v, want %v", got, want)
	}
	for _, bad := range []string{"0 1 0.1 0.1 a\n", "x 1 0.1 0.1 a 0.5\n", "2 1 0.1 0.1 a 0.5\n", "0 1 y 0.1 a 0.5\n"} {
		if _, err := parse([]byte(bad), us); err == nil {
			t.Fatalf("parse(%q) passed", bad)
		}
	}
}
