package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/summarize/model"
)

// completionBody is what is understood of the body of a completion.
type completionBody struct {
	Model       string          `json:"model"`
	Prompt      json.RawMessage `json:"prompt"`
	MaxTokens   *int            `json:"max_tokens"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	Seed        *int64          `json:"seed"`
	Stop        json.RawMessage `json:"stop"`
	N           *int            `json:"n"`
	Stream      *bool           `json:"stream"`
	User        *string         `json:"user"`
}

// responseBody is what is understood of the body of a response.
type responseBody struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions *string         `json:"instructions"`
	MaxTokens    *int            `json:"max_output_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	Stream       *bool           `json:"stream"`
	Store        *bool           `json:"store"`
	User         *string         `json:"user"`
	Metadata     json.RawMessage `json:"metadata"`
}

// translateLine makes a request of a line's body, whichever call it is for.
func translateLine(it *item.Item) (model.GenerateRequest, error) {
	switch it.URL {
	case pipeline.ChatURL:
		return translate(it.Body)
	case pipeline.CompletionsURL:
		var b completionBody
		if err := wire.Unmarshal(it.Body, &b); err != nil {
			return model.GenerateRequest{}, fmt.Errorf("body: %w", err)
		}
		return b.translate()
	case pipeline.ResponsesURL:
		var b responseBody
		if err := wire.Unmarshal(it.Body, &b); err != nil {
			return model.GenerateRequest{}, fmt.Errorf("body: %w", err)
		}
		return b.translate()
	}
	return model.GenerateRequest{}, fmt.Errorf("this runtime does not answer %.100q", it.URL)
}

func (b *completionBody) translate() (q model.GenerateRequest, err error) {
	if b.N != nil && *b.N != 1 {
		return q, fmt.Errorf("body: n is %d, and one answer is all there is", *b.N)
	}
	prompts, err := oneOrMany(b.Prompt)
	if err != nil || len(prompts) != 1 || prompts[0] == "" {
		return q, errors.New("body: prompt must be one text")
	}
	q.Messages = messages("", prompts[0], nil)
	q.Temperature, q.TopP, q.Seed = b.Temperature, b.TopP, b.Seed
	if q.MaxTokens = 16; b.MaxTokens != nil { // as that call has it
		q.MaxTokens = max(1, *b.MaxTokens)
	}
	if len(b.Stop) > 0 && string(b.Stop) != "null" {
		if q.Stop, err = oneOrMany(b.Stop); err != nil {
			return q, errors.New("body: stop must be a text or a list of texts")
		}
	}
	return q, nil
}

func (b *responseBody) translate() (q model.GenerateRequest, err error) {
	if b.Instructions != nil && *b.Instructions != "" {
		q.Messages = append(q.Messages, model.Message{Role: model.System, Text: *b.Instructions})
	}
	var text string
	var turns []chatMessage
	switch {
	case json.Unmarshal(b.Input, &text) == nil:
		q.Messages = append(q.Messages, model.Message{Role: model.User, Text: text})
	default:
		if err := wire.Unmarshal(b.Input, &turns); err != nil {
			return q, fmt.Errorf("body: input: %w", err)
		}
		for i := range turns {
			turn, err := turns[i].translate()
			if err != nil {
				return q, fmt.Errorf("body: input %d: %w", i, err)
			}
			q.Messages = append(q.Messages, turn)
		}
	}
	if len(q.Messages) == 0 {
		return q, errors.New("body: input is empty")
	}
	q.Temperature, q.TopP = b.Temperature, b.TopP
	if b.MaxTokens != nil {
		q.MaxTokens = max(1, *b.MaxTokens)
	}
	return q, nil
}

// oneOrMany reads a text or a list of texts.
func oneOrMany(raw json.RawMessage) (many []string, err error) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	return many, json.Unmarshal(raw, &many)
}

// answerLine is the body of a response, as OpenAI's servers write it.
func answerLine(it *item.Item, name string, got *model.Generated, u pipeline.Usage) any {
	now := time.Now().Unix()
	usage := map[string]int{
		"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens,
	}
	switch it.URL {
	case pipeline.CompletionsURL:
		return map[string]any{
			"id": "cmpl-" + it.ID, "object": "text_completion", "created": now, "model": name, "usage": usage,
			"choices": []any{map[string]any{"index": 0, "finish_reason": got.Finish, "logprobs": nil, "text": got.Text}},
		}
	case pipeline.ResponsesURL:
		status, why := "completed", any(nil)
		if got.Finish == model.Length {
			status, why = "incomplete", map[string]string{"reason": "max_output_tokens"}
		}
		return map[string]any{
			"id": "resp_" + it.ID, "object": "response", "created_at": now, "model": name, "status": status, "error": nil, "incomplete_details": why,
			"output": []any{map[string]any{
				"id": "msg_" + it.ID, "type": "message", "role": model.Assistant, "status": status,
				"content": []any{map[string]any{"type": "output_text", "text": got.Text, "annotations": []any{}}},
			}},
			"usage": map[string]int{"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens, "total_tokens": u.InputTokens + u.OutputTokens},
		}
	}
	return map[string]any{
		"id": "chatcmpl-" + it.ID, "object": "chat.completion", "created": now, "model": name, "usage": usage,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": got.Finish, "logprobs": nil, "message": map[string]any{"role": model.Assistant, "content": got.Text},
		}},
	}
}
