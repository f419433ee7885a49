package reduce_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"macbatch/summarize"
	"macbatch/summarize/model"
	"macbatch/summarize/reduce"
)

// spoken is a transcript of so many minutes: a segment of 4 s each 6 s, and a pause of
// 20 s every seven minutes.
func spoken(minutes int64) (all []summarize.Sentence) {
	for at, n := int64(2000), 0; at < minutes*60_000; n++ {
		all = append(all, summarize.Sentence{StartMS: at, EndMS: at + 4000, Text: fmt.Sprintf("Line §%d is said.", n)})
		if at += 6000; at/420_000 > (at-6000)/420_000 {
			at += 20_000
		}
	}
	return all
}

func TestChaptersOfFilm(t *testing.T) {
	for _, minutes := range []int64{1, 4, 20, 65, 180, 900} {
		segments := spoken(minutes)
		read := ""
		ask := func(_ context.Context, q string) (string, error) {
			switch {
			case len(q) > 9000:
				return "", model.Errorf(model.ErrOverflow, "%d bytes", len(q))
			case strings.Contains(q, "Title:"):
				return " \n\"**Of lines**\"\nand more", nil
			case strings.Contains(q, "Keywords:"):
				return "1. line, Line two;line,\n- said\n" + strings.Repeat("x", 200), nil
			}
			read += q
			return "Lines are said.", nil
		}
		f, err := reduce.OfFilm(t.Context(), segments, reduce.Options{Context: 4096, Ask: ask})
		if err != nil {
			t.Fatalf("%d minutes: %v", minutes, err)
		}
		sum := summarize.Summary{Engine: "e", Model: "m", Title: f.Title, Text: f.Text, Chapters: f.Chapters, Keywords: f.Keywords}
		if err := sum.Validate(segments[len(segments)-1].EndMS); err != nil {
			t.Errorf("%d minutes: %v", minutes, err)
		}
		want := min(max(1, int(minutes+2)/5), 24)
		if n := len(f.Chapters); n < want-want/8 || n > want+1 || f.Chapters[0].StartMS != 2000 || f.Chapters[n-1].EndMS != segments[len(segments)-1].EndMS {
			t.Errorf("%d minutes: %d chapters from %d to %d, want %d or so", minutes, n, f.Chapters[0].StartMS, f.Chapters[n-1].EndMS, want)
		}
		for i := range segments {
			if !strings.Contains(read, fmt.Sprintf("§%d ", i)) {
				t.Fatalf("%d minutes: segment %d was not read", minutes, i)
			}
		}
		if f.Title != "Of lines" || strings.Join(f.Keywords, "|") != "1. line|Line two|line|said" {
			t.Errorf("title %q, keywords %q", f.Title, f.Keywords)
		}
	}
}

// A model's words are data: bounded, one line, and never nothing.
func TestShapesOfAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"long": strings.Repeat("word ", 500), "no spaces": strings.Repeat("é", 400), "control": "a\x1b[31m\u202ered\x00", "marks only": "\"'**\"\n``",
		"injection": "# Title\n[x](http://evil)\n<script>", "invalid": "a\xff\xfe b",
	} {
		segments := spoken(12)
		f, err := reduce.OfFilm(t.Context(), segments, reduce.Options{Ask: func(context.Context, string) (string, error) { return answer, nil }})
		if name == "marks only" && err == nil && f.Title == "" {
			continue // a summary of marks has no title: it is refused by the control plane
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sum := summarize.Summary{Engine: "e", Model: "m", Title: f.Title, Text: f.Text, Chapters: f.Chapters, Keywords: f.Keywords}
		if err := sum.Validate(segments[len(segments)-1].EndMS); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.ContainsAny(f.Title, "\n\x1b\u202e") {
			t.Errorf("%s: title %q", name, f.Title)
		}
		var b strings.Builder
		if err := summarize.WriteMarkdown(&b, sum); err != nil || strings.Contains(b.String(), "<script>") || strings.Contains(b.String(), "[x](") {
			t.Errorf("%s: %v\n%s", name, err, b.String())
		}
	}
	empty := func(context.Context, string) (string, error) {
		return "", model.Errorf(model.ErrBadAnswer, "nothing")
	}
	if _, err := reduce.OfFilm(t.Context(), spoken(1), reduce.Options{Ask: empty}); err == nil {
		t.Error("a model that says nothing: no error")
	}
}
