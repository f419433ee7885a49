package pocketsphinx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"macbatch/transcode/child"
	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

type engine struct {
	program, ffmpeg, model string
	info                   transcribe.Info
	parallel               int
	limits                 transcribe.Limits
	dropsSilence           bool // by default, which would shift all times after it
}

func (e *engine) Info() transcribe.Info { return e.info }

// Parallel is the number of cores: the recogniser has one thread.
func (e *engine) Parallel() int { return e.parallel }

// maxHMM bounds the search at each frame: a sixth of the default costs hardly a
// word and a third less time (see the package comment).
const maxHMM = 5000

// Transcribe recognises one sound in English.
func (e *engine) Transcribe(ctx context.Context, r transcribe.Request) (transcribe.Transcript, error) {
	t, err := e.transcribe(ctx, r)
	if err != nil {
		return transcribe.Transcript{}, fmt.Errorf("transcribe with pocketsphinx: %w", err)
	}
	return t, nil
}

func (e *engine) transcribe(ctx context.Context, r transcribe.Request) (t transcribe.Transcript, err error) {
	if r.Language != "" && r.Language != "en" && r.Language != "auto" {
		return t, &transcribe.PermanentError{Err: fmt.Errorf("language %q: the model knows English (en) alone", r.Language)}
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return t, err
	}
	wav := filepath.Join(dir, wavStem+".wav")
	profile, err := sound.Decode(ctx, e.ffmpeg, r.Sound, wav, r.DurationMS)
	if err != nil {
		return t, err
	}
	e.info.Stamp(&t)
	t.Language, t.DurationMS, t.Segments = "en", profile.DurationMS, []transcribe.Segment{}
	t.Params = map[string]string{"maxhmmpf": strconv.Itoa(maxHMM)}

	us := profile.Utterances()
	if len(us) == 0 {
		t.Flags = []string{transcribe.NoSpeech}
		return t, nil
	}
	ctx, cancel := e.limits.Within(ctx, profile.DurationMS)
	defer cancel()
	if err := e.run(ctx, dir, profile.Offset, us, r.Progress); err != nil {
		return t, err
	}
	hyp, err := os.ReadFile(filepath.Join(dir, hypName))
	if err != nil {
		return t, err
	}
	ctm, err := os.ReadFile(filepath.Join(dir, ctmName))
	if err != nil {
		return t, err
	}
	if n := bytes.Count(hyp, []byte("\n")); n != len(us) {
		return t, fmt.Errorf("ended after %d of %d utterances", n, len(us))
	}
	if t.Segments, err = parse(ctm, us); err != nil {
		return t, err
	}
	if len(t.Segments) == 0 {
		if profile.Speech() {
			return t, fmt.Errorf("no words in %d utterances of speech", len(us))
		}
		t.Flags = []string{transcribe.NoSpeech}
	}
	if t.Validate(t.DurationMS) != nil {
		t = transcribe.Repair(t, t.DurationMS)
	}
	profile.Triage(&t, us)
	return t, t.Validate(t.DurationMS)
}

const (
	wavStem = "sound" // the control file splits at spaces: a name without
	ctlName = "utterances.ctl"
	hypName = "utterances.hyp"
	ctmName = "utterances.ctm"
)

// run decodes all utterances in one process, so that the model is loaded once.
func (e *engine) run(ctx context.Context, dir string, offset int64, us []sound.Span, progress func(int64)) error {
	var ctl bytes.Buffer
	for i, u := range us {
		fmt.Fprintf(&ctl, "%s %d %d %d\n", wavStem, u.FromMS/10, u.ToMS/10, i)
	}
	if err := os.WriteFile(filepath.Join(dir, ctlName), ctl.Bytes(), 0o600); err != nil {
		return err
	}
	// What an earlier attempt left in the folder must not pass for this one's.
	for _, name := range []string{hypName, ctmName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	args := []string{
		"-hmm", filepath.Join(e.model, acoustic), "-lm", filepath.Join(e.model, language),
		"-dict", filepath.Join(e.model, dictionary), "-maxhmmpf", strconv.Itoa(maxHMM),
		"-cepdir", ".", "-cepext", ".wav", "-adcin", "yes", "-adchdr", strconv.FormatInt(offset, 10),
		"-ctl", ctlName, "-hyp", hypName, "-ctm", ctmName,
	}
	if e.dropsSilence {
		args = append(args, "-remove_silence", "no")
	}
	log := &logWriter{us: us, progress: progress}
	longest := int64(0) // it tells of each utterance that is done
	for _, u := range us {
		longest = max(longest, u.ToMS-u.FromMS)
	}
	_, err := child.Run(ctx, child.Command{Path: e.program, Args: args, Dir: dir, Err: log, Stall: e.limits.Silence(longest)})
	return err
}

// parse maps lines of "utterance channel start duration word confidence", in
// seconds from the start of the utterance, to a segment for each utterance.
func parse(ctm []byte, us []sound.Span) ([]transcribe.Segment, error) {
	segs := []transcribe.Segment{}
	last := -1
	for line := range bytes.Lines(ctm) {
		f := strings.Fields(string(line))
		if len(f) != 6 {
			return nil, fmt.Errorf("read word %q: %d fields, want 6", line, len(f))
		}
		n, err := strconv.Atoi(f[0])
		if err != nil || n < 0 || n >= len(us) {
			return nil, fmt.Errorf("read word %q: no such utterance", line)
		}
		var v [3]float64
		for i, s := range []string{f[2], f[3], f[5]} {
			if v[i], err = strconv.ParseFloat(s, 64); err != nil {
				return nil, fmt.Errorf("read word %q: %w", line, err)
			}
		}
		text, ok := spoken(f[4])
		if !ok {
			continue
		}
		start := us[n].FromMS + transcribe.MS(v[0])
		w := transcribe.Word{StartMS: start, EndMS: min(start+transcribe.MS(v[1]), us[n].ToMS), Text: text, Confidence: min(max(v[2], 0), 1)}
		if n != last {
			segs = append(segs, transcribe.Segment{StartMS: w.StartMS})
			last = n
		}
		s := &segs[len(segs)-1]
		s.Words = append(s.Words, w)
	}
	for i := range segs {
		finish(&segs[i])
	}
	return segs, nil
}

func finish(s *transcribe.Segment) {
	var texts []string
	for _, w := range s.Words {
		texts = append(texts, w.Text)
		s.Confidence += w.Confidence / float64(len(s.Words))
	}
	s.Text = strings.Join(texts, " ")
	s.EndMS = s.Words[len(s.Words)-1].EndMS
}

// spoken is the word behind an entry of the dictionary: none for fillers such as
// <sil> and [NOISE], "a" for its second pronunciation "a(2)".
func spoken(entry string) (string, bool) {
	if strings.HasPrefix(entry, "<") || strings.HasPrefix(entry, "[") || strings.HasPrefix(entry, "++") {
		return "", false
	}
	if i := strings.IndexByte(entry, '('); i > 0 && strings.HasSuffix(entry, ")") {
		entry = entry[:i]
	}
	return entry, true
}

// logWriter watches the log for the utterance that is finished.
type logWriter struct {
	us       []sound.Span
	progress func(ms int64)
	rest     []byte
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			break
		}
		w.line(string(line))
		w.rest = rest
	}
	if len(w.rest) > 1<<16 {
		w.rest = nil
	}
	return len(p), nil
}

// line looks for "INFO: batch.c(760): 12: 9.28 seconds speech, …".
func (w *logWriter) line(s string) {
	if w.progress == nil || !strings.Contains(s, "seconds speech") {
		return
	}
	f := strings.Split(s, ": ")
	if len(f) < 3 {
		return
	}
	if n, err := strconv.Atoi(strings.TrimSpace(f[2])); err == nil && n >= 0 && n < len(w.us) {
		w.progress(w.us[n].ToMS)
	}
}
