package pipeline

import (
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/summarize"
)

func TestSummaryRules(t *testing.T) {
	asked := SummaryParams{Model: "m", Digest: "abc", Tier: "local"}
	good := func() FilmSummary {
		return FilmSummary{
			Summary: summarize.Summary{
				Engine: "ollama", Model: "m", Title: "T", Text: "Somebody speaks.", Sentences: []summarize.Sentence{}, Keywords: []string{"speech"},
				Chapters: []summarize.Chapter{{StartMS: 0, EndMS: 400, Title: "A", Text: "a"}, {StartMS: 500, EndMS: 1000, Title: "B", Text: "b"}},
			},
			By: Maker{Engine: "ollama", Model: "m", Digest: "abcdef", Tier: "local"},
		}
	}
	chosen := func() FilmSummary {
		return FilmSummary{Summary: summarize.Summary{Engine: summarize.Engine, Of: 1, Sentences: []summarize.Sentence{{Text: "a"}}, Keywords: []string{}}}
	}
	accept := func(by SummaryParams, res FilmSummary) error {
		means, err := Planner{}.Accept(&lease.Job{Kind: Library, Params: encode(LibraryParams{Root: "r", Summary: by})},
			&lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: Summarize}, Payload: encode(SummarizePayload{By: by, Parts: []Part{{ToMS: 500}, {FromMS: 500, ToMS: 1000}}})}}, encode(res), nil)
		if err == nil && (means.Maker.Model != res.Model || means.Maker.Engine != res.Engine) {
			t.Errorf("made by %+v", means.Maker)
		}
		return err
	}
	fallback := chosen()
	fallback.Fallback = "the model refused"
	for name, err := range map[string]error{
		"by a model": accept(asked, good()), "chosen": accept(SummaryParams{}, chosen()), "fallback": accept(asked, fallback),
		"nobody speaks": accept(asked, FilmSummary{Summary: summarize.Summary{Engine: summarize.Engine, NoSpeech: true}}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := accept(asked, chosen()); err == nil {
		t.Error("sentences instead of a model's summary, and no reason: accepted")
	}
	if err := accept(SummaryParams{}, fallback); err == nil {
		t.Error("a fallback of no model: accepted")
	}
	if err := accept(SummaryParams{}, good()); err == nil {
		t.Error("a model that was not asked for: accepted")
	}
	for name, c := range map[string]struct {
		spoil func(s *FilmSummary)
		want  string
	}{
		"another model":       {func(s *FilmSummary) { s.Model = "n" }, "was asked for"},
		"another digest":      {func(s *FilmSummary) { s.By.Digest = "fff" }, "digest"},
		"another tier":        {func(s *FilmSummary) { s.By.Tier = "cloud" }, "tier"},
		"blank":               {func(s *FilmSummary) { s.Text = " \n" }, "of 2 bytes"},
		"long":                {func(s *FilmSummary) { s.Text = strings.Repeat("x", 1<<17) }, "bytes"},
		"no title":            {func(s *FilmSummary) { s.Title = "" }, "title"},
		"no chapters":         {func(s *FilmSummary) { s.Chapters = nil }, "0 chapters"},
		"chapters overlap":    {func(s *FilmSummary) { s.Chapters[1].StartMS = 399 }, "chapter 1 from 399"},
		"a chapter goes back": {func(s *FilmSummary) { s.Chapters[1].EndMS = 450 }, "chapter 1 from 500 to 450"},
		"behind the end":      {func(s *FilmSummary) { s.Chapters[1].EndMS = 1001 }, "of a film of 1000"},
		"before the start":    {func(s *FilmSummary) { s.Chapters[0].StartMS = -1 }, "chapter 0"},
		"untitled chapter":    {func(s *FilmSummary) { s.Chapters[0].Title = "" }, "no title"},
		"many keywords":       {func(s *FilmSummary) { s.Keywords = strings.Split(strings.Repeat("a ", 11), " ") }, "keywords"},
		"with sentences":      {func(s *FilmSummary) { s.Sentences = chosen().Sentences }, "sentences"},
	} {
		s := good()
		c.spoil(&s)
		if err := accept(asked, s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, bad := range []SummaryParams{{Digest: "abc"}, {Tier: "local"}, {Context: 1024}, {Model: "m", Context: 1}, {Model: "a b"}} {
		if _, err := (Planner{}).Start(Library, encode(LibraryParams{Root: "r", Summary: bad})); err == nil {
			t.Errorf("Start with %+v: accepted", bad)
		}
	}
}
