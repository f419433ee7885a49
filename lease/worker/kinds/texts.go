package kinds

import (
	"context"
	"strings"

	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/summarize"
	"macbatch/summarize/model"
	"macbatch/summarize/reduce"
)

// summarizeTexts makes a short text of every item's long one: by a model, or by
// choosing among its own sentences.
func (t *Tools) summarizeTexts(ctx context.Context, s *shard, p *pipeline.SummarizeTextParams) error {
	if p.Model == "" {
		s.by.Engine = summarize.Engine
		return s.each(ctx, func(_ context.Context, it *item.Item) (any, error) {
			text, err := prompt("", it)
			if err != nil {
				return nil, err
			}
			return extract(it, text, p.Language), nil
		})
	}
	a, err := t.asker(ctx, s, &p.ModelParams)
	if err != nil {
		return err
	}
	return s.each(ctx, func(ctx context.Context, it *item.Item) (any, error) {
		text, err := prompt("", it)
		if err != nil {
			return nil, err
		}
		var used pipeline.Usage
		zero := 0.0
		sum, err := reduce.Text(ctx, text, reduce.Options{
			Context: p.Context, Language: p.Language,
			Ask: func(ctx context.Context, question string) (string, error) {
				got, u, err := a.generate(ctx, model.GenerateRequest{Messages: messages("", question, nil), Temperature: &zero, Context: p.Context})
				used.Add(u)
				return got.Text, err
			},
		})
		if err != nil {
			return nil, err
		}
		words := extract(it, text, p.Language)
		return pipeline.SummaryValue{
			Title: title(it), Summary: sum, Keywords: words.Keywords, Language: words.Language, Usage: used,
		}, nil
	})
}

// extract is the summary that needs no model.
func extract(it *item.Item, text, language string) pipeline.SummaryValue {
	var sentences []summarize.Sentence
	for _, s := range summarize.Split(text) {
		sentences = append(sentences, summarize.Sentence{Text: s})
	}
	sum := summarize.Summarize(sentences, summarize.Options{Language: language, Title: title(it)})
	chosen := make([]string, len(sum.Sentences))
	for i, s := range sum.Sentences {
		chosen[i] = s.Text
	}
	v := pipeline.SummaryValue{Title: sum.Title, Summary: strings.Join(chosen, " "), Keywords: sum.Keywords, Language: sum.Language, Extractive: true}
	if v.Summary == "" { // a text of no sentence is its own summary
		v.Summary = strings.TrimSpace(text)
	}
	return v
}

// title is an item's field of that name, if it has one.
func title(it *item.Item) string {
	s, err := it.Field("title")
	if err != nil {
		return ""
	}
	return s
}
