package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

// answer is the part of verbose_json that is used. All of it is optional.
type answer struct {
	Language string    `json:"language"`
	Duration number    `json:"duration"`
	Text     *string   `json:"text"`
	Segments []segment `json:"segments"`
	Words    []word    `json:"words"`
}

type segment struct {
	Start   number `json:"start"`
	End     number `json:"end"`
	Text    string `json:"text"`
	LogProb number `json:"avg_logprob"`
	Words   []word `json:"words"`
}

type word struct {
	Word        string `json:"word"`
	Start       number `json:"start"`
	End         number `json:"end"`
	Probability number `json:"probability"`
}

// number is one that some servers write as a string, or leave out.
type number struct {
	v   float64
	set bool
}

func (n *number) UnmarshalJSON(b []byte) error {
	b = bytes.Trim(b, `"`)
	if v, err := strconv.ParseFloat(string(b), 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		*n = number{v, true}
	}
	return nil // what is no number is not there
}

// farSeconds is more than any sound lasts: such a figure is in nanoseconds.
const farSeconds = 1e7

// ms is a time in milliseconds.
func (n number) ms(nanos bool) int64 {
	if nanos {
		n.v /= 1e9
	}
	return transcribe.MS(min(max(n.v, 0), farSeconds))
}

// read makes a transcript of the bytes of an answer about a piece of ms, whose
// times keep the rules.
func read(b []byte, utterances []sound.Span, ms int64) (t transcribe.Transcript, err error) {
	var a answer
	if err := json.Unmarshal(b, &a); err != nil {
		return t, fmt.Errorf("read answer: %w", err)
	}
	if t, err = a.transcript(utterances, ms); err != nil {
		return t, err
	}
	sound.DropUnheard(&t, utterances)
	return transcribe.Repair(t, ms), nil
}

// shortMS is how much less than was sent a server may say that it heard.
const shortMS = 2000

// transcript makes a transcript of an answer about a piece of ms. Its times are
// the server's: they may need Repair.
func (a *answer) transcript(utterances []sound.Span, ms int64) (t transcribe.Transcript, err error) {
	if a.Text == nil && a.Segments == nil && a.Words == nil {
		return t, errors.New("answered without text, segments or words")
	}
	if heard := a.Duration.ms(a.Duration.v > farSeconds); heard > 0 && heard < ms-max(shortMS, ms/20) {
		return t, fmt.Errorf("answered for %d ms of sound, %d ms were sent", heard, ms)
	}
	t.Language, t.Segments = language(a.Language), []transcribe.Segment{}
	nanos := slices.ContainsFunc(a.Segments, func(s segment) bool { return s.End.v > farSeconds })
	timed, texts := false, []string{}
	for _, s := range a.Segments {
		timed = timed || s.End.v > 0
		text := strings.TrimSpace(s.Text)
		if text == "" || transcribe.Remark(text) {
			continue
		}
		texts = append(texts, text)
		seg := transcribe.Segment{StartMS: s.Start.ms(nanos), EndMS: s.End.ms(nanos), Text: text, Words: spell(s.Words, text, nanos)}
		if s.LogProb.set && s.LogProb.v < 0 && s.LogProb.v != -1 { // -1: not known, to some
			seg.Confidence = math.Exp(s.LogProb.v)
		}
		t.Segments = append(t.Segments, seg)
	}
	text := strings.Join(texts, " ")
	if a.Text != nil && len(a.Segments) == 0 {
		text = strings.TrimSpace(*a.Text)
	}
	switch {
	case len(t.Segments) > 0 && timed:
		deal(t.Segments, a.Words)
	case len(a.Words) > 0:
		t.Segments = group(a.Words, text)
	case text != "" && !transcribe.Remark(text):
		t.Segments = lay(text, utterances)
		t.Flag(transcribe.Untimed)
	}
	for i := range t.Segments {
		confide(&t.Segments[i])
	}
	return t, nil
}

// confide gives a segment the mean of its words' confidences if it has none.
func confide(s *transcribe.Segment) {
	if s.Confidence != 0 {
		return
	}
	for _, w := range s.Words {
		s.Confidence += w.Confidence / float64(len(s.Words))
	}
}

// spell makes words of a list that holds the words of text, or tokens of which
// those that begin a word begin with a space; else there are none. The spelling
// is the text's: lists leave out punctuation.
func spell(list []word, text string, nanos bool) []transcribe.Word {
	fields := strings.Fields(text)
	var out []transcribe.Word
	var parts []float64
	for i, w := range list {
		if len(list) == len(fields) || i == 0 || strings.HasPrefix(w.Word, " ") {
			if len(list) != len(fields) && strings.TrimSpace(w.Word) == "" {
				continue
			}
			out, parts = append(out, transcribe.Word{StartMS: w.Start.ms(nanos)}), append(parts, 0)
		}
		if len(out) == 0 {
			continue
		}
		k := len(out) - 1
		out[k].EndMS = w.End.ms(nanos)
		out[k].Confidence += w.Probability.v
		parts[k]++
	}
	if len(out) != len(fields) {
		return nil
	}
	for i := range out {
		out[i].Text = fields[i]
		out[i].Confidence /= parts[i]
	}
	return out
}

// deal gives the words of a list of its own to the segments they belong to, if
// there are as many as the segments' texts have.
func deal(segs []transcribe.Segment, words []word) {
	n := 0
	for _, s := range segs {
		n += len(strings.Fields(s.Text))
	}
	if n != len(words) {
		return
	}
	for i := range segs {
		k := len(strings.Fields(segs[i].Text))
		if len(segs[i].Words) == 0 {
			segs[i].Words = spell(words[:k], segs[i].Text, false)
		}
		words = words[k:]
	}
}

const (
	groupGap  = 700 // ms of pause that end a segment made of words
	groupMost = 40  // words in it
)

// group makes segments of words alone, spelled as in text where that has as many.
func group(words []word, text string) []transcribe.Segment {
	if fields := strings.Fields(text); len(fields) == len(words) {
		words = slices.Clone(words)
		for i := range words {
			words[i].Word = fields[i]
		}
	}
	var out []transcribe.Segment
	for _, w := range words {
		one := transcribe.Word{StartMS: w.Start.ms(false), EndMS: w.End.ms(false), Text: strings.TrimSpace(w.Word), Confidence: w.Probability.v}
		if one.Text == "" {
			continue
		}
		k := len(out) - 1
		if k < 0 || one.StartMS-out[k].EndMS > groupGap || len(out[k].Words) >= groupMost {
			out = append(out, transcribe.Segment{StartMS: one.StartMS, Text: one.Text})
			k++
		} else {
			out[k].Text += " " + one.Text
		}
		out[k].EndMS, out[k].Words = one.EndMS, append(out[k].Words, one)
	}
	return out
}

// lay spreads a text without times over the utterances, as many words to each as
// its length is of all.
func lay(text string, utterances []sound.Span) []transcribe.Segment {
	fields := strings.Fields(text)
	var all, at int64
	for _, u := range utterances {
		all += u.ToMS - u.FromMS
	}
	var out []transcribe.Segment
	used := 0
	for _, u := range utterances {
		at += u.ToMS - u.FromMS
		upTo := int(int64(len(fields)) * at / all)
		if upTo > used {
			out = append(out, transcribe.Segment{StartMS: u.FromMS, EndMS: u.ToMS, Text: strings.Join(fields[used:upTo], " ")})
			used = upTo
		}
	}
	return out
}
