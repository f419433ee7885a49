package summarize

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Engine is the name that this package's extractive summaries carry.
const Engine = "lexrank"

// Sentence is a stretch of text. Text without times has zero StartMS and EndMS.
type Sentence struct {
	StartMS int64  `json:"start_ms"`
	EndMS   int64  `json:"end_ms"`
	Text    string `json:"text"`
}

// Options say how to summarize. The zero value is usable.
type Options struct {
	Language     string // an ISO 639 code, tag or English name; "" or "auto" looks at the text
	MaxSentences int    // 0 or less scales with the length, from 3 to 12
	Title        string
}

// Summary is the outcome. Sentences and Keywords are never nil.
type Summary struct {
	Engine    string     `json:"engine"`
	Title     string     `json:"title"`
	Language  string     `json:"language"`  // ISO 639-1 where there is one; "" if unknown
	NoSpeech  bool       `json:"no_speech"` // nothing was said: no sentences, no keywords
	Of        int        `json:"of"`        // how many sentences there were to choose from
	Sentences []Sentence `json:"sentences"` // chosen ones, in their original order
	Keywords  []string   `json:"keywords"`  // at most ten, most telling first

	// A model's summary has no sentences, but these.
	Text     string    `json:"text,omitempty"`
	Chapters []Chapter `json:"chapters,omitempty"` // in order
	Model    string    `json:"model,omitempty"`
	// Fallback says why the model that was asked for wrote none: the sentences stand
	// in for its summary.
	Fallback string `json:"fallback,omitempty"`
}

// Chapter is a stretch of a film.
type Chapter struct {
	StartMS int64  `json:"start_ms"`
	EndMS   int64  `json:"end_ms"`
	Title   string `json:"title"`
	Text    string `json:"text"` // its summary
}

// The bounds of what a model writes, in bytes.
const (
	MaxTitle    = 200
	MaxKeyword  = 100
	MaxKeywords = 10
	maxText     = 64 << 10
	maxFallback = 4 << 10
	maxChapters = 100
)

// Validate says what is wrong with a summary of a film of that length.
func (s *Summary) Validate(durationMS int64) error {
	switch {
	case s.Engine == "":
		return errors.New("a summary by nobody")
	case s.Model == "" && (s.Text != "" || len(s.Chapters) > 0):
		return errors.New("a text that no model wrote")
	case s.Model == "" && len(s.Sentences) == 0 && !s.NoSpeech:
		return fmt.Errorf("a summary by %q of %d sentences says nothing", s.Engine, s.Of)
	case len(s.Fallback) > maxFallback || s.Model != "" && s.Fallback != "":
		return errors.New("a fallback that is none, or says too much")
	case s.Model == "":
		return nil
	case strings.TrimSpace(s.Text) == "" || len(s.Text) > maxText || !utf8.ValidString(s.Text):
		return fmt.Errorf("a summary by model %q of %d bytes", s.Model, len(s.Text))
	case s.Title == "" || len(s.Title) > MaxTitle || len(s.Sentences) > 0 || s.NoSpeech:
		return fmt.Errorf("a summary by model %q without a title, or with sentences", s.Model)
	case len(s.Keywords) > MaxKeywords || slices.ContainsFunc(s.Keywords, func(k string) bool { return k == "" || len(k) > MaxKeyword }):
		return fmt.Errorf("keywords %.200q", s.Keywords)
	case len(s.Chapters) == 0 || len(s.Chapters) > maxChapters:
		return fmt.Errorf("%d chapters", len(s.Chapters))
	}
	at := int64(0)
	for i, c := range s.Chapters {
		switch {
		case c.StartMS < at || c.EndMS < c.StartMS || c.EndMS > durationMS:
			return fmt.Errorf("chapter %d from %d to %d ms, after %d, of a film of %d", i, c.StartMS, c.EndMS, at, durationMS)
		case c.Title == "" || len(c.Title) > MaxTitle || strings.TrimSpace(c.Text) == "" || len(c.Text) > maxText:
			return fmt.Errorf("chapter %d has no title or no summary", i)
		}
		at = c.EndMS
	}
	return nil
}

// Clean is text in one line, without what can't be seen.
func Clean(text string) string { return clean(text) }

const (
	minChosen, maxChosen = 3, 12
	msPerChosen          = 120_000 // one sentence for two minutes of film
	wordsPerChosen       = 300     // as much, spoken
	minWords             = 5       // shorter sentences ("Yes, of course.") vote but are not chosen
	tooSimilar           = 0.5     // cosine from which on a sentence repeats a chosen one
	maxKeywords          = 10
)

// Summarize chooses the sentences that the others resemble most and that don't
// repeat each other. With times, in is a transcript: its segments are regrouped
// into sentences at full stops, or, where the recogniser wrote none, at pauses.
// Without times each element is taken as one sentence.
func Summarize(in []Sentence, o Options) Summary {
	sum := Summary{Engine: Engine, Title: clean(o.Title), Sentences: []Sentence{}, Keywords: []string{}}
	sentences := regroup(in)
	sum.Of = len(sentences)
	sum.Language = language(o.Language, sentences)
	if len(sentences) == 0 {
		sum.NoSpeech = true
		return sum
	}
	limit := o.MaxSentences
	if limit <= 0 {
		limit = scaled(sentences)
	}
	m, terms := vectors(sentences, lexiconFor(sum.Language))
	scores := m.rank()
	for _, i := range choose(m, scores, limit) {
		sum.Sentences = append(sum.Sentences, sentences[i])
	}
	sum.Keywords = keywords(m, scores, terms)
	return sum
}

// scaled is the number of sentences that suits the length of the text.
func scaled(sentences []Sentence) int {
	n := 0
	if ms := sentences[len(sentences)-1].EndMS - sentences[0].StartMS; ms > 0 {
		n = int(min(ms/msPerChosen, maxChosen))
	} else {
		words := 0
		for _, s := range sentences {
			words += wordCount(s.Text)
		}
		n = words / wordsPerChosen
	}
	return min(max(n, minChosen), maxChosen)
}

// choose returns the positions of at most limit sentences, in ascending order.
func choose(m *matrix, scores []float64, limit int) []int {
	var order []int
	for i := range scores {
		if m.words[i] >= minWords {
			order = append(order, i)
		}
	}
	if order == nil {
		for i := range scores {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(grain(scores[b], m), grain(scores[a], m)), cmp.Compare(a, b))
	})
	var chosen []int
	for _, i := range order {
		if len(chosen) == limit {
			break
		}
		if !slices.ContainsFunc(chosen, func(c int) bool { return m.cosine(c, i) >= tooSimilar }) {
			chosen = append(chosen, i)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// grain makes scores that differ only by rounding equal, so that the order is the
// same on processors that fuse multiplications and on those that don't.
func grain(score float64, m *matrix) int64 {
	return int64(math.Round(score * float64(len(m.words)) * 1e6))
}
