package kinds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/lease/worker"
	"macbatch/summarize"
	"macbatch/summarize/model"
	"macbatch/summarize/reduce"
	"macbatch/transcribe"
)

// summarize makes the summary of one film out of the transcripts of its parts.
func (t *Tools) summarize(ctx context.Context, task worker.Task) (any, []string, []lease.Digest, error) {
	var p pipeline.SummarizePayload
	if err := payload(task, &p); err != nil {
		return nil, nil, nil, err
	}
	if len(task.Grant.Needs) != len(p.Parts) {
		return nil, nil, nil, fmt.Errorf("%d transcripts for %d parts", len(task.Grant.Needs), len(p.Parts))
	}
	parts := make([]transcribe.Part, len(p.Parts))
	for i, part := range p.Parts {
		b, err := task.Need(ctx, i)
		if err != nil {
			return nil, nil, nil, err
		}
		parts[i] = transcribe.Part{StartMS: part.StartMS, FromMS: part.FromMS, ToMS: part.ToMS}
		if err := wire.Unmarshal(b, &parts[i].Transcript); err != nil {
			return nil, nil, nil, fmt.Errorf("transcript of part %d: %w", i, err)
		}
	}
	whole, err := transcribe.Join(parts)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("join the parts: %w", err)
	}
	sentences := make([]summarize.Sentence, len(whole.Segments))
	for i, s := range whole.Segments {
		sentences[i] = summarize.Sentence{StartMS: s.StartMS, EndMS: s.EndMS, Text: s.Text}
	}
	language := p.Language
	if language == "" {
		language = whole.Language
	}
	sum := pipeline.FilmSummary{Summary: summarize.Summarize(sentences, summarize.Options{Language: language, Title: p.Title})}
	if p.By.Model == "" || sum.NoSpeech {
		return sum, nil, nil, nil
	}
	return t.written(ctx, task, &p, sum, sentences)
}

// written is a summary by a model, in the place of the extractive one; that stays, and
// says why, where the model has none to give.
func (t *Tools) written(ctx context.Context, task worker.Task, p *pipeline.SummarizePayload, sum pipeline.FilmSummary, segments []summarize.Sentence) (any, []string, []lease.Digest, error) {
	s := &shard{task: task}
	a, err := t.asker(ctx, s, p.By.Params())
	if err != nil {
		return nil, nil, nil, err
	}
	began, asked, zero := time.Now(), uint64(0), 0.0
	film, err := reduce.OfFilm(ctx, segments, reduce.Options{
		Context: p.By.Context, Language: sum.Language,
		Ask: func(ctx context.Context, question string) (string, error) {
			got, _, err := a.generate(ctx, model.GenerateRequest{Messages: messages("", question, nil), Temperature: &zero, Context: p.By.Context})
			asked++
			task.Progress(asked)
			return got.Text, err
		},
	})
	s.by.Seconds = seconds(time.Since(began))
	sum.By = s.by
	refused, own := errors.AsType[*itemError](err)
	switch {
	case own: // the money: more of it may be given
		return nil, nil, nil, &worker.Failure{Class: lease.Permanent, Reason: refused.Error()}
	case err != nil && codeOf(err) != "" && (model.Permanent(err) || errors.Is(err, model.ErrBadAnswer)):
		sum.Fallback = err.Error()
	case err != nil:
		return nil, nil, nil, err
	}
	if sum.Fallback != "" {
		sum.Fallback = summarize.Clean(sum.Fallback[:min(len(sum.Fallback), lease.MaxReason)])
		return sum, nil, nil, nil
	}
	if s.by.Digest != "" {
		if err := s.still(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	sum.Engine, sum.Model, sum.Sentences = s.by.Engine, p.By.Model, []summarize.Sentence{}
	sum.Title, sum.Text, sum.Chapters = film.Title, film.Text, film.Chapters
	for i, end := 0, p.Parts[len(p.Parts)-1].ToMS; i < len(sum.Chapters); i++ { // a word may end a little behind the film
		c := &sum.Chapters[i]
		c.StartMS, c.EndMS = min(c.StartMS, end), min(c.EndMS, end)
	}
	if len(film.Keywords) > 0 {
		sum.Keywords = film.Keywords
	}
	return sum, nil, nil, nil
}
