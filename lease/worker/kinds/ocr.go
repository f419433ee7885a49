package kinds

import (
	"context"
	"errors"
	"strings"

	"macbatch/lease"
	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
	"macbatch/transcribe/ocr"
)

const ocrPrompt = "Write down all text of this page, exactly as it is, line by line. Write nothing else."

// ocr reads every item's page or document, by tesseract or by a model that sees.
func (t *Tools) ocr(ctx context.Context, s *shard, p *pipeline.OCRParams) error {
	lacks := &worker.Released{Reason: "tesseract is not installed on this worker", Withdraw: lease.Need{Kind: pipeline.OCR}}
	if t.OCR == nil {
		return lacks
	}
	var look func(ctx context.Context, img []byte, used *pipeline.Usage) (string, error)
	if p.Model == "" {
		s.by.Engine = t.OCR.Version
	} else {
		a, err := t.asker(ctx, s, &p.ModelParams)
		if err != nil {
			return err
		}
		ask, zero := p.Prompt, 0.0
		if ask == "" {
			ask = ocrPrompt
		}
		look = func(ctx context.Context, img []byte, used *pipeline.Usage) (string, error) {
			got, u, err := a.generate(ctx, model.GenerateRequest{Messages: messages("", ask, [][]byte{img}), Temperature: &zero})
			used.Add(u)
			return strings.TrimSpace(got.Text), err
		}
	}
	return s.each(ctx, func(ctx context.Context, it *item.Item) (any, error) {
		document, err := it.Data()
		if err != nil {
			return nil, invalid(err)
		}
		used := pipeline.Usage{}
		q := ocr.Request{Document: document, Language: p.Language, Dir: s.task.Dir}
		if look != nil {
			q.Reader = func(ctx context.Context, img []byte) (string, error) { return look(ctx, img, &used) }
		}
		pages, err := t.OCR.Read(ctx, q)
		switch {
		case errors.Is(err, ocr.ErrDocument):
			return nil, invalid(err)
		case errors.Is(err, ocr.ErrNotFound):
			return nil, lacks
		case errors.Is(err, ocr.ErrLanguage):
			return nil, &worker.Released{Reason: err.Error(), Withdraw: lease.Need{Model: p.Need()}}
		case err != nil:
			return nil, err
		}
		v := pipeline.TextValue{Usage: used}
		texts := make([]string, len(pages))
		for i, p := range pages {
			texts[i] = p.Text
			if len(pages) > 1 {
				v.Pages = append(v.Pages, pipeline.PageText{Page: p.Number, Text: p.Text})
			}
		}
		v.Text = strings.Join(texts, "\n\n")
		return v, nil
	})
}
