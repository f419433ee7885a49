package summarize

import (
	"strings"
	"unicode"
)

const (
	longPause     = 2000 // ms: a sentence doesn't go on after it
	shortPause    = 400  // ms: a breath, in speech without punctuation
	fragment      = 8    // words: fewer are joined with what follows after a breath
	longSentence  = 80   // words: more are cut, wherever that is
	longUtterance = 40   // the same without punctuation
	perStop       = 60   // words to a full stop, above which a text counts as unpunctuated
	runesPerWord  = 12   // bounds text without spaces
	maxMS         = 1 << 50
)

// regroup cleans segments and, if they have times, turns them into sentences.
func regroup(in []Sentence) []Sentence {
	out := make([]Sentence, 0, len(in))
	timed := false
	for _, s := range in {
		s.Text = clean(s.Text)
		if s.Text == "" {
			continue
		}
		s.StartMS = min(max(s.StartMS, 0), maxMS)
		s.EndMS = min(max(s.EndMS, s.StartMS), maxMS)
		timed = timed || s.EndMS > 0
		out = append(out, s)
	}
	switch {
	case !timed:
		return out
	case punctuated(out):
		return atStops(out)
	default:
		return atPauses(out)
	}
}

func punctuated(segments []Sentence) bool {
	words, stops := 0, 0
	for _, s := range segments {
		words += wordCount(s.Text)
		for _, sp := range spans(s.Text) {
			if sp.ended {
				stops++
			}
		}
	}
	return stops > 0 && words <= stops*perStop
}

// atStops makes sentences that end at full stops, across segments.
func atStops(segments []Sentence) []Sentence {
	var out []Sentence
	for len(segments) > 0 {
		n := 1
		for n < len(segments) && segments[n].StartMS-segments[n-1].EndMS <= longPause {
			n++
		}
		out = append(out, sentencesOf(segments[:n])...)
		segments = segments[n:]
	}
	return out
}

// sentencesOf splits the joined text of segments. A sentence that begins inside a
// segment gets its time in proportion to the bytes before it.
func sentencesOf(segments []Sentence) []Sentence {
	var text strings.Builder
	starts := make([]int, len(segments))
	for i, s := range segments {
		if i > 0 {
			text.WriteByte(' ')
		}
		starts[i] = text.Len()
		text.WriteString(s.Text)
	}
	var out []Sentence
	at := 0 // the segment that holds the current place; places only rise
	when := func(place int) int64 {
		for at+1 < len(segments) && starts[at+1] <= place {
			at++
		}
		s := segments[at]
		part := min(place-starts[at], len(s.Text))
		return s.StartMS + int64(float64(s.EndMS-s.StartMS)*float64(part)/float64(len(s.Text)))
	}
	all := text.String()
	for _, sp := range spans(all) {
		sp.from += len(all[sp.from:sp.to]) - len(strings.TrimLeft(all[sp.from:sp.to], " "))
		s := Sentence{StartMS: when(sp.from), Text: strings.TrimSpace(all[sp.from:sp.to])}
		s.EndMS = max(when(sp.to), s.StartMS)
		out = append(out, cut(s, longSentence)...)
	}
	return out
}

// atPauses takes segments as sentences, joins fragments and cuts what is too long.
func atPauses(segments []Sentence) []Sentence {
	var out []Sentence
	for _, s := range segments {
		if n := len(out) - 1; n >= 0 && s.StartMS-out[n].EndMS <= shortPause && wordCount(out[n].Text) < fragment {
			out[n].Text += " " + s.Text
			out[n].EndMS = max(out[n].EndMS, s.EndMS)
			continue
		}
		out = append(out, s)
	}
	parts := make([]Sentence, 0, len(out))
	for _, s := range out {
		parts = append(parts, cut(s, longUtterance)...)
	}
	return parts
}

// cut divides a sentence of more than limit words into even parts.
func cut(s Sentence, limit int) []Sentence {
	words := max(wordCount(s.Text), len(s.Text)/runesPerWord/4)
	if words <= limit {
		return []Sentence{s}
	}
	n := (words + limit - 1) / limit
	var out []Sentence
	span, from := s.EndMS-s.StartMS, 0
	ms := func(place int) int64 { return s.StartMS + int64(float64(span)*float64(place)/float64(len(s.Text))) }
	for i, r := range s.Text {
		done := i - from
		even := done*n >= len(s.Text) && (unicode.IsSpace(r) || isUnspaced(r))
		if even || done >= 4*limit*runesPerWord {
			out = append(out, Sentence{ms(from), ms(i), strings.TrimSpace(s.Text[from:i])})
			from = i
		}
	}
	return append(out, Sentence{ms(from), s.EndMS, strings.TrimSpace(s.Text[from:])})
}
