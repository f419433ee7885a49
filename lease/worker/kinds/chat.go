package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/summarize/model"
)

// chat answers a batch line. A server that speaks the protocol of these lines gets
// the body as it is; for another it is translated, and refused where it says more
// than can be.
func (a *asker) chat(ctx context.Context, it *item.Item) (any, error) {
	if !it.Batch() {
		return nil, invalid(errors.New("a plain item in an input of batch lines"))
	}
	var asks struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	if err := json.Unmarshal(it.Body, &asks); err != nil {
		return nil, invalid(fmt.Errorf("body: %w", err))
	}
	if asks.Model != a.shard.by.Model || asks.Stream {
		return nil, invalid(fmt.Errorf("body asks for model %.100q, stream %v; the job is of %q", asks.Model, asks.Stream, a.shard.by.Model))
	}
	if server, ok := a.Runtime.(model.Passer); ok {
		return a.pass(ctx, server, it)
	}
	if it.URL != pipeline.ChatURL {
		return nil, &itemError{codeUnsupported, fmt.Errorf("this runtime does not answer %.100q", it.URL)}
	}
	q, err := translate(it.Body)
	if err != nil {
		return nil, &itemError{codeUnsupported, err}
	}
	got, u, err := a.generate(ctx, q)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"id": "chatcmpl-" + it.ID, "object": "chat.completion", "created": time.Now().Unix(), "model": asks.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": got.Finish, "logprobs": nil,
			"message": map[string]any{"role": model.Assistant, "content": got.Text},
		}},
		"usage": map[string]int{
			"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
		},
	}, nil
}

// pass has a server answer a body that is meant for it.
func (a *asker) pass(ctx context.Context, server model.Passer, it *item.Item) (any, error) {
	var answer []byte
	err := a.ask(ctx, true, func(ctx context.Context) (err error) {
		if answer, err = server.Pass(ctx, it.URL, it.Body); err != nil {
			return err
		}
		var body map[string]json.RawMessage
		if err := wire.Unmarshal(answer, &body); err != nil {
			return model.Errorf(model.ErrBadAnswer, "%v", err)
		}
		if text := model.Complaint(body["error"]); text != "" {
			return model.Errorf(model.ErrUnavailable, "%s", text)
		}
		if len(body) == 0 {
			return model.Errorf(model.ErrBadAnswer, "an empty object")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var counted struct {
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(answer, &counted) == nil {
		a.used(model.Usage{InputTokens: counted.Usage.Prompt, OutputTokens: counted.Usage.Completion})
	}
	return json.RawMessage(answer), nil
}

// chatBody is what is understood of the body of a chat completion. What is not in
// it makes the body unsupported: nothing is dropped silently.
type chatBody struct {
	Model       string          `json:"model"`
	Messages    []chatMessage   `json:"messages"`
	MaxTokens   *int            `json:"max_tokens"`
	MaxAnswer   *int            `json:"max_completion_tokens"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	Seed        *int64          `json:"seed"`
	Stop        json.RawMessage `json:"stop"`
	Format      *chatFormat     `json:"response_format"`
	N           *int            `json:"n"`
	Stream      *bool           `json:"stream"`
	User        *string         `json:"user"`
	Metadata    json.RawMessage `json:"metadata"`
	Store       *bool           `json:"store"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Name    string          `json:"name,omitempty"`
}

type chatFormat struct {
	Type   string `json:"type"`
	Schema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Strict      *bool           `json:"strict,omitempty"`
		Schema      json.RawMessage `json:"schema"`
	} `json:"json_schema,omitempty"`
}

// translate makes a request of a body.
func translate(body []byte) (q model.GenerateRequest, err error) {
	var b chatBody
	if err := wire.Unmarshal(body, &b); err != nil {
		return q, fmt.Errorf("body: %w", err)
	}
	if b.N != nil && *b.N != 1 {
		return q, fmt.Errorf("body: n is %d, and one answer is all there is", *b.N)
	}
	q.Temperature, q.TopP, q.Seed = b.Temperature, b.TopP, b.Seed
	for _, n := range []*int{b.MaxTokens, b.MaxAnswer} {
		if n != nil {
			q.MaxTokens = max(1, *n)
		}
	}
	var one string
	switch {
	case len(b.Stop) == 0 || string(b.Stop) == "null":
	case json.Unmarshal(b.Stop, &one) == nil:
		q.Stop = []string{one}
	case json.Unmarshal(b.Stop, &q.Stop) != nil:
		return q, errors.New("body: stop must be a text or a list of texts")
	}
	if f := b.Format; f != nil {
		switch {
		case f.Type == "text":
		case f.Type == "json_object":
			q.Schema = json.RawMessage(`{"type":"object"}`)
		case f.Type == "json_schema" && f.Schema != nil:
			q.Schema = f.Schema.Schema
		default:
			return q, fmt.Errorf("body: response_format %.100q", f.Type)
		}
	}
	for i, m := range b.Messages {
		turn, err := m.translate()
		if err != nil {
			return q, fmt.Errorf("body: message %d: %w", i, err)
		}
		q.Messages = append(q.Messages, turn)
	}
	if len(q.Messages) == 0 {
		return q, errors.New("body: no messages")
	}
	return q, nil
}

func (m *chatMessage) translate() (turn model.Message, err error) {
	switch m.Role {
	case "system", "developer":
		turn.Role = model.System
	case "user":
		turn.Role = model.User
	case "assistant":
		turn.Role = model.Assistant
	default:
		return turn, fmt.Errorf("role %.100q", m.Role)
	}
	if json.Unmarshal(m.Content, &turn.Text) == nil {
		return turn, nil
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text,omitempty"`
		Image *struct {
			URL    json.RawMessage `json:"url"`
			Detail string          `json:"detail,omitempty"`
		} `json:"image_url,omitempty"`
	}
	if err := wire.Unmarshal(m.Content, &parts); err != nil {
		return turn, fmt.Errorf("content: %w", err)
	}
	for _, p := range parts {
		switch {
		case p.Type == "text":
			turn.Text += p.Text
		case p.Type == "image_url" && p.Image != nil:
			b, err := item.DataURL(p.Image.URL)
			if err != nil {
				return turn, fmt.Errorf("image_url %w", err) // never fetched
			}
			turn.Images = append(turn.Images, b)
		default:
			return turn, fmt.Errorf("content of type %.100q", p.Type)
		}
	}
	return turn, nil
}
