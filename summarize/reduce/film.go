package reduce

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"macbatch/summarize"
)

// Film is what a model writes of a film. Where its chapters begin and end is not the
// model's to say: they are cut at pauses, so their times always hold.
type Film struct {
	Title    string
	Text     string
	Chapters []summarize.Chapter // at least one, in order
	Keywords []string            // at most ten; none where the model named none
}

const (
	entitle  = "The following is a summary. Give it a title of at most ten words%s. Write the title only.\n\nSummary:\n%s\n\nTitle:"
	keywords = "The following is a summary. List at most ten keywords of it%s, separated by commas. Write the keywords only.\n\nSummary:\n%s\n\nKeywords:"
)

// The shape of chapters.
const (
	chapterMS   = 5 * 60 * 1000
	maxChapters = 24
)

// OfFilm summarizes a transcript: chapter by chapter, and their summaries together.
// Each segment has a text and times, in order. Errors are as of Text.
func OfFilm(ctx context.Context, segments []summarize.Sentence, o Options) (f Film, err error) {
	r := newReducer(o)
	var sums []string
	for _, part := range chapters(segments) {
		texts := make([]string, len(part))
		for i, s := range part {
			texts[i] = s.Text
		}
		sum, err := Text(ctx, strings.Join(texts, " "), o)
		if err != nil {
			return f, err
		}
		sums = append(sums, sum)
		c := summarize.Chapter{StartMS: part[0].StartMS, EndMS: part[len(part)-1].EndMS, Text: sum}
		f.Chapters = append(f.Chapters, c)
	}
	if f.Text = sums[0]; len(sums) > 1 {
		if f.Text, err = Text(ctx, strings.Join(sums, "\n\n"), o); err != nil {
			return f, err
		}
	}
	if f.Title, err = r.title(ctx, f.Text); err != nil {
		return f, err
	}
	for i := range f.Chapters {
		c := &f.Chapters[i]
		if c.Title = f.Title; len(f.Chapters) > 1 {
			if c.Title, err = r.title(ctx, c.Text); err != nil {
				return f, err
			}
		}
	}
	answer, err := r.ask(ctx, fmt.Sprintf(keywords, r.in, r.clip(f.Text)))
	if err != nil {
		return f, err
	}
	f.Keywords = wordsOf(answer)
	return f, nil
}

// title asks for one; where the answer has none the summary's first words are it.
func (r *reducer) title(ctx context.Context, sum string) (string, error) {
	answer, err := r.ask(ctx, fmt.Sprintf(entitle, r.in, r.clip(sum)))
	if err != nil {
		return "", err
	}
	if t := titleOf(answer); t != "" {
		return t, nil
	}
	return titleOf(sum), nil
}

// clip is as much of a summary as fits a question.
func (r *reducer) clip(s string) string {
	piece, _ := cut(s, max(r.limit, leastPiece))
	return piece
}

// titleOf is the first line of an answer that says something, bounded and bare.
func titleOf(answer string) string {
	for line := range strings.Lines(answer) {
		line = summarize.Clean(line)
		for {
			bare := strings.TrimFunc(line, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`*_#“”„«»", r) })
			if bare = strings.TrimPrefix(bare, "Title:"); bare == line {
				break
			}
			line = bare
		}
		if line != "" {
			return short(line, summarize.MaxTitle)
		}
	}
	return ""
}

// wordsOf reads a list of keywords, however it is written.
func wordsOf(answer string) (words []string) {
	for _, w := range strings.FieldsFunc(answer, func(r rune) bool { return strings.ContainsRune(",;\n•", r) }) {
		w = strings.TrimFunc(summarize.Clean(w), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if w == "" || len(w) > summarize.MaxKeyword || len(words) == summarize.MaxKeywords || slices.Contains(words, w) {
			continue
		}
		words = append(words, w)
	}
	return words
}

// short cuts text between two words, or else two characters.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	if space := strings.LastIndexByte(s[:end], ' '); space > end/2 {
		end = space
	}
	return strings.TrimSpace(s[:end]) + "…"
}

// chapters cuts segments, of which there is one, into parts of about equal length:
// each time at the longest pause near the place.
func chapters(segments []summarize.Sentence) (parts [][]summarize.Sentence) {
	first, last := segments[0].StartMS, segments[len(segments)-1].EndMS
	n := min(max(1, (last-first+chapterMS/2)/chapterMS), maxChapters, int64(len(segments)))
	for k := int64(1); k < n; k++ {
		step := (last - first) / n
		ideal, best, longest := first+k*step, 0, int64(-1)
		for i := 1; i < len(segments); i++ {
			at := segments[i].StartMS
			if pause := at - segments[i-1].EndMS; at > ideal-step/3 && at < ideal+step/3 && pause > longest {
				best, longest = i, pause
			}
		}
		if best > 0 { // else nobody speaks there: the chapter is longer
			parts = append(parts, segments[:best])
			segments = segments[best:]
		}
	}
	return append(parts, segments)
}
