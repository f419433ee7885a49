package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/summarize/model"
)

// generate answers every item's prompt.
func (t *Tools) generate(ctx context.Context, s *shard, p *pipeline.GenerateParams) error {
	a, err := t.asker(ctx, s, &p.ModelParams)
	if err != nil {
		return err
	}
	if p.Batch {
		return s.each(ctx, a.chat)
	}
	return s.each(ctx, func(ctx context.Context, it *item.Item) (any, error) {
		text, err := prompt(p.Prompt, it)
		if err != nil {
			return nil, err
		}
		images, err := pipeline.Images(it)
		if err != nil {
			return nil, invalid(err)
		}
		got, u, err := a.generate(ctx, model.GenerateRequest{
			Messages: messages(p.System, text, images), Schema: p.Schema, Temperature: &p.Temperature,
			Seed: seed(p.Seed), MaxTokens: p.MaxTokens, Context: p.Context,
		})
		if err != nil {
			return nil, err
		}
		v := pipeline.TextValue{Text: got.Text, Finish: string(got.Finish), Usage: u}
		if len(p.Schema) > 0 {
			if v.JSON, err = model.CheckAnswer(p.Schema, got.Text); err != nil {
				return nil, &itemError{codeSchema, err}
			}
		}
		return v, nil
	})
}

// generate makes one request of its own.
func (a *asker) generate(ctx context.Context, q model.GenerateRequest) (got model.Generated, u pipeline.Usage, err error) {
	q.Model = a.model.Name
	imposed := a.Paid && q.MaxTokens == 0
	if imposed { // what it costs must have a bound
		q.MaxTokens = answerTokens
	}
	u, err = a.ask(ctx, true, mostOf(&q), func(ctx context.Context) (model.Usage, error) {
		var err error
		if got, err = a.Generate(ctx, q); err == nil && imposed && got.Finish == model.Length {
			err = model.Errorf(model.ErrTruncated, "cut after %d tokens; ask for more with max_tokens", answerTokens)
		}
		return got.Usage, err
	})
	return got, u, err
}

// prompt is what an item asks: the template filled, or its own text.
func prompt(template string, it *item.Item) (text string, err error) {
	if it.Batch() {
		return "", invalid(errors.New("a batch line in an input of plain items"))
	}
	if template != "" {
		text, err = pipeline.Fill(template, it)
	} else {
		text, err = it.Text()
	}
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("its text is empty")
	}
	if err != nil {
		return "", invalid(err)
	}
	return text, nil
}

func messages(system, user string, images [][]byte) []model.Message {
	var m []model.Message
	if system != "" {
		m = append(m, model.Message{Role: model.System, Text: system})
	}
	return append(m, model.Message{Role: model.User, Text: user, Images: images})
}

// seed is nil for 0: whichever the server takes.
func seed(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

const classifyPrompt = "Which of these labels fits the text best: %s?\nAnswer with the label only.\n\nText:\n%s"

// classify gives every item one of the labels.
func (t *Tools) classify(ctx context.Context, s *shard, p *pipeline.ClassifyParams) error {
	a, err := t.asker(ctx, s, &p.ModelParams)
	if err != nil {
		return err
	}
	quoted := make([]string, len(p.Labels))
	for i, l := range p.Labels {
		quoted[i] = fmt.Sprintf("%q", l)
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"label"}, "additionalProperties": false,
		"properties": map[string]any{"label": map[string]any{"type": "string", "enum": p.Labels}},
	})
	if err != nil {
		return err
	}
	zero := 0.0
	return s.each(ctx, func(ctx context.Context, it *item.Item) (any, error) {
		text, err := prompt(p.Prompt, it)
		if err != nil {
			return nil, err
		}
		if p.Prompt == "" {
			text = fmt.Sprintf(classifyPrompt, strings.Join(quoted, ", "), text)
		}
		got, u, err := a.generate(ctx, model.GenerateRequest{
			Messages: messages("", text, nil), Schema: schema, Temperature: &zero, Context: p.Context,
		})
		if err != nil {
			return nil, err
		}
		label, err := labelOf(got.Text, schema, p.Labels)
		if err != nil {
			return nil, &itemError{codeLabel, err}
		}
		return pipeline.LabelValue{Label: label, Usage: u}, nil
	})
}

// labelOf finds the label in an answer: the object that was asked for, or, from
// servers that take no schema, the label alone.
func labelOf(answer string, schema json.RawMessage, labels []string) (string, error) {
	raw, err := model.CheckAnswer(schema, answer)
	if err == nil {
		var l struct {
			Label string `json:"label"`
		}
		err = json.Unmarshal(raw, &l)
		return l.Label, err
	}
	for _, l := range labels {
		if strings.EqualFold(strings.Trim(answer, " \t\r\n.\"'`"), l) {
			return l, nil
		}
	}
	return "", fmt.Errorf("%.200q is none of the labels", answer)
}
