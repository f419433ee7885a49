package transcribe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Flags that a transcript may carry.
const (
	NoSpeech     = "no_speech"     // nobody speaks in this sound
	Repaired     = "repaired"      // Repair moved a time or cleaned a text
	BeyondEnd    = "beyond_end"    // text placed after the end of the sound was dropped
	Unheard      = "unheard"       // text that the engine placed in silence was dropped
	MixedEngines = "mixed_engines" // the parts come from different engines or models
	Untimed      = "untimed"       // the engine gave no times: they are guessed from the sound's pauses
)

// Word is one spoken word.
type Word struct {
	StartMS    int64   `json:"start_ms"`
	EndMS      int64   `json:"end_ms"`
	Text       string  `json:"text"`
	Confidence float64 `json:"confidence,omitempty"`
}

// Segment is what was said in one go; Words is empty when the engine gives no word times.
type Segment struct {
	StartMS    int64   `json:"start_ms"`
	EndMS      int64   `json:"end_ms"`
	Text       string  `json:"text"`
	Words      []Word  `json:"words,omitempty"`
	Confidence float64 `json:"confidence,omitempty"`
}

// Transcript is the result of one recognition and of Join.
type Transcript struct {
	Language      string            `json:"language,omitempty"`
	DurationMS    int64             `json:"duration_ms"`
	Engine        string            `json:"engine,omitempty"`
	EngineVersion string            `json:"engine_version,omitempty"`
	Model         string            `json:"model,omitempty"`
	ModelDigest   string            `json:"model_digest,omitempty"`
	Params        map[string]string `json:"params,omitempty"`
	Segments      []Segment         `json:"segments"`
	Flags         []string          `json:"flags,omitempty"`
	Doubts        []Doubt           `json:"doubts,omitempty"` // in order
}

// Spoken is s.Words, or, where the engine gave no word times, the words of the
// text laid out over the segment by their length.
func (s Segment) Spoken() []Word {
	if len(s.Words) > 0 {
		return s.Words
	}
	fields := strings.Fields(s.Text)
	total := 0
	for _, f := range fields {
		total += len(f) + 1
	}
	words := make([]Word, len(fields))
	at := 0
	for i, f := range fields {
		start := s.StartMS + (s.EndMS-s.StartMS)*int64(at)/int64(total)
		at += len(f) + 1
		end := s.StartMS + (s.EndMS-s.StartMS)*int64(at)/int64(total)
		words[i] = Word{StartMS: start, EndMS: end, Text: f, Confidence: s.Confidence}
	}
	return words
}

// MS converts an engine's seconds to the nearest millisecond. Rounding here,
// once and before hours and minutes are split off, is what keeps 59.9996 s from
// being written as a minute's thousandth millisecond.
func MS(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

// Has reports whether t carries flag.
func (t Transcript) Has(flag string) bool { return slices.Contains(t.Flags, flag) }

// Flag adds flag, once.
func (t *Transcript) Flag(flag string) {
	if !t.Has(flag) {
		t.Flags = append(t.Flags, flag)
	}
}

// Validate reports the first rule of the package comment that t breaks, for a
// sound of durationMS.
func (t Transcript) Validate(durationMS int64) error {
	if len(t.Segments) == 0 && !t.Has(NoSpeech) {
		return errors.New("no segments, and not flagged " + NoSpeech)
	}
	if len(t.Segments) > 0 && t.Has(NoSpeech) {
		return fmt.Errorf("flagged %s, but has %d segments", NoSpeech, len(t.Segments))
	}
	var at int64
	for i, s := range t.Segments {
		if err := check(s.StartMS, s.EndMS, at, durationMS, s.Text, s.Confidence); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		within := s.StartMS
		for j, w := range s.Words {
			if err := check(w.StartMS, w.EndMS, within, s.EndMS, w.Text, w.Confidence); err != nil {
				return fmt.Errorf("segment %d: word %d: %w", i, j, err)
			}
			within = w.EndMS
		}
		at = s.EndMS
	}
	return t.validDoubts(durationMS)
}

func (t Transcript) validDoubts(durationMS int64) error {
	if len(t.Doubts) > maxDoubts || (len(t.Doubts) > 0) != t.Has(Suspicious) {
		return fmt.Errorf("%d doubts, flags %q", len(t.Doubts), t.Flags)
	}
	var at int64
	for i, d := range t.Doubts {
		if d.FromMS < at || d.ToMS < d.FromMS || d.ToMS > durationMS {
			return fmt.Errorf("doubt %d: %d to %d ms, after %d, of %d ms", i, d.FromMS, d.ToMS, at, durationMS)
		}
		if d.Kind == "" || len(d.Kind) > maxKind || len(d.Evidence) > maxEvidence || !utf8.ValidString(d.Kind+d.Evidence) {
			return fmt.Errorf("doubt %d: %q, %q", i, d.Kind, d.Evidence)
		}
		at = d.FromMS
	}
	return nil
}

func check(start, end, from, to int64, text string, confidence float64) error {
	switch {
	case start < from:
		return fmt.Errorf("starts at %d ms, before %d ms", start, from)
	case end < start:
		return fmt.Errorf("ends at %d ms, before its start %d ms", end, start)
	case end > to:
		return fmt.Errorf("ends at %d ms, after %d ms", end, to)
	case !utf8.ValidString(text):
		return fmt.Errorf("text %q is not UTF-8", text)
	case strings.TrimSpace(text) == "":
		return errors.New("text is blank")
	case math.IsNaN(confidence) || confidence < 0 || confidence > 1:
		return fmt.Errorf("confidence %v is not between 0 and 1", confidence)
	}
	return nil
}

// beyondMS is how far after the end a start may lie and still be a rounding
// error; what lies further out was never in the sound.
const beyondMS = 1000

// Repair returns a copy of t that keeps the rules for a sound of durationMS,
// flagged with what it had to do. It takes a start for more trustworthy than
// an end. It never adds NoSpeech: that takes somebody who has the sound.
func Repair(t Transcript, durationMS int64) Transcript {
	out := t
	out.Flags = slices.Clone(t.Flags)
	out.DurationMS = durationMS
	out.Segments = nil
	out.Flags, out.Doubts = slices.DeleteFunc(out.Flags, func(f string) bool { return f == Suspicious }), nil
	out.Doubt(t.Doubts...)
	beyond := false
	for _, s := range t.Segments {
		words := make([]Word, 0, len(s.Words))
		for _, w := range s.Words {
			w.Text, w.Confidence = clean(w.Text), clamp01(w.Confidence)
			if w.Text != "" && w.StartMS <= durationMS+beyondMS {
				words = append(words, w)
			}
		}
		slices.SortStableFunc(words, func(a, b Word) int { return cmp.Compare(a.StartMS, b.StartMS) })
		s.Text, s.Confidence, s.Words = clean(s.Text), clamp01(s.Confidence), words
		if s.Text == "" {
			s.Text = textOf(words)
		}
		if s.Text == "" {
			continue
		}
		if s.StartMS > durationMS+beyondMS {
			beyond = true
			continue
		}
		out.Segments = append(out.Segments, s)
	}
	slices.SortStableFunc(out.Segments, func(a, b Segment) int { return cmp.Compare(a.StartMS, b.StartMS) })
	settle(out.Segments, durationMS)
	if out.Segments == nil {
		out.Segments = []Segment{}
	} else {
		out.Flags = slices.DeleteFunc(out.Flags, func(f string) bool { return f == NoSpeech })
	}
	if beyond {
		out.Flag(BeyondEnd)
	}
	if !slices.EqualFunc(t.Segments, out.Segments, sameSegment) {
		out.Flag(Repaired)
	}
	if len(out.Flags) == 0 {
		out.Flags = nil
	}
	return out
}

// settle moves times, never order, until nothing overlaps or leaves [0, durationMS].
func settle(segs []Segment, durationMS int64) {
	var at int64
	for i := range segs {
		s := &segs[i]
		if n := len(s.Words); n > 0 && s.EndMS < s.StartMS {
			s.EndMS = s.Words[n-1].EndMS
		}
		s.StartMS = min(max(s.StartMS, at), durationMS)
		limit := durationMS
		if i+1 < len(segs) {
			limit = min(limit, max(segs[i+1].StartMS, s.StartMS))
		}
		s.EndMS = min(max(s.EndMS, s.StartMS), limit)
		at = s.EndMS
		within := s.StartMS
		for j := range s.Words {
			w := &s.Words[j]
			w.StartMS = min(max(w.StartMS, within), s.EndMS)
			end := s.EndMS
			if j+1 < len(s.Words) {
				end = min(end, max(s.Words[j+1].StartMS, w.StartMS))
			}
			w.EndMS = min(max(w.EndMS, w.StartMS), end)
			within = w.EndMS
		}
	}
}

// clean makes s valid UTF-8 on one line. What can't be shown becomes U+FFFD or
// a space, so that nothing vanishes unseen.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		s = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, s)
	}
	return strings.TrimSpace(s)
}

// Remark reports whether text is one remark in brackets, or music notes: a
// description of the sound, not speech.
func Remark(text string) bool {
	for _, pair := range []string{"[]", "()", "**"} {
		if len(text) > 1 && text[0] == pair[0] && text[len(text)-1] == pair[1] && !strings.ContainsAny(text[1:len(text)-1], pair) {
			return true
		}
	}
	return strings.Trim(text, "♪♫ ") == ""
}

func clamp01(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return min(max(f, 0), 1)
}

func textOf(words []Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return strings.Join(texts, " ")
}

func sameSegment(a, b Segment) bool {
	return a.StartMS == b.StartMS && a.EndMS == b.EndMS && a.Text == b.Text &&
		a.Confidence == b.Confidence && slices.Equal(a.Words, b.Words)
}
