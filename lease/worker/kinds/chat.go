package kinds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"macbatch/lease/item"
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
	q, err := translateLine(it)
	if err != nil {
		return nil, &itemError{codeUnsupported, err}
	}
	got, u, err := a.generate(ctx, q)
	if err != nil {
		return nil, err
	}
	return answerLine(it, asks.Model, &got, u), nil
}

// pass has a server answer a body that is meant for it.
func (a *asker) pass(ctx context.Context, server model.Passer, it *item.Item) (any, error) {
	m, bound := mostOfBody(it.Body)
	if a.Paid && a.Price.Out > 0 && !bound && a.shard.task.Grant.Capped {
		return nil, invalid(errors.New("body: without max_tokens there is no bound of what it costs, and the job has a limit"))
	}
	var answer []byte
	_, err := a.ask(ctx, true, m, func(ctx context.Context) (u model.Usage, err error) {
		if answer, err = server.Pass(ctx, it.URL, it.Body); err != nil {
			return u, err
		}
		var body map[string]json.RawMessage
		if err := wire.Unmarshal(answer, &body); err != nil {
			return u, model.Errorf(model.ErrBadAnswer, "%v", err)
		}
		if text := model.Complaint(body["error"]); text != "" {
			return u, model.Errorf(model.ErrUnavailable, "%s", text)
		}
		if len(body) == 0 {
			return u, model.Errorf(model.ErrBadAnswer, "an empty object")
		}
		u = countedIn(body["usage"])
		return u, model.CheckWhole(u.InputTokens, textsOf(it.Body)...)
	})
	if err != nil {
		return nil, err
	}
	return json.RawMessage(answer), nil
}

// countedIn reads the usage of an answer, in the words of any of the calls.
func countedIn(raw json.RawMessage) model.Usage {
	var u struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &u) != nil {
		return model.Usage{}
	}
	return model.Usage{InputTokens: u.Prompt + u.Input, OutputTokens: u.Completion + u.Output}
}

// textsOf are the texts that a body asks about: its prompt, input, or the contents
// of its messages.
func textsOf(body []byte) (all []string) {
	var b struct {
		Prompt   json.RawMessage `json:"prompt"`
		Input    json.RawMessage `json:"input"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &b) != nil {
		return nil
	}
	for _, m := range b.Messages {
		all = append(all, textsIn(m.Content)...)
	}
	return append(append(all, textsIn(b.Prompt)...), textsIn(b.Input)...)
}

// textsIn are the texts of a content: one, a list of them, or parts with a text or a content.
func textsIn(raw json.RawMessage) (all []string) {
	var one string
	var many []json.RawMessage
	var part struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	switch {
	case len(raw) == 0:
	case raw[0] == '"' && json.Unmarshal(raw, &one) == nil:
		return []string{one}
	case raw[0] == '[' && json.Unmarshal(raw, &many) == nil:
		for _, r := range many {
			all = append(all, textsIn(r)...)
		}
	case raw[0] == '{' && json.Unmarshal(raw, &part) == nil:
		return append([]string{part.Text}, textsIn(part.Content)...)
	}
	return all
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
