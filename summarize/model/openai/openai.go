package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"macbatch/summarize/model"
)

// Runtime implements model.Runtime and model.Passer.
type Runtime struct{ server model.Server }

// New makes the runtime of a server.
func New(s model.Server) model.Runtime { return &Runtime{s} }

// Models implements model.Runtime.
func (r *Runtime) Models(ctx context.Context) ([]model.Model, error) {
	var a struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := r.server.JSON(ctx, "/v1/models", nil, &a, kind); err != nil {
		return nil, err
	}
	list := make([]model.Model, len(a.Data))
	for i, m := range a.Data {
		list[i].Name = strings.TrimSuffix(m.ID, ":latest") // as Ollama has it, which takes both
	}
	return list, nil
}

// usage is how servers count.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

func (u usage) model() model.Usage {
	return model.Usage{InputTokens: u.Prompt, OutputTokens: u.Completion}
}

// Embed implements model.Runtime.
func (r *Runtime) Embed(ctx context.Context, q model.EmbedRequest) (model.Embeddings, error) {
	if slices.Contains(q.Input, "") {
		return model.Embeddings{}, model.Errorf(model.ErrRefused, "an empty text has no vector")
	}
	body := map[string]any{"model": q.Model, "input": q.Input, "encoding_format": "float"}
	if q.Dimensions > 0 {
		body["dimensions"] = q.Dimensions
	}
	var a struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage usage           `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := r.server.JSON(ctx, "/v1/embeddings", body, &a, kind); err != nil {
		return model.Embeddings{}, err
	}
	if text := model.Complaint(a.Error); text != "" {
		return model.Embeddings{}, told(text)
	}
	out := model.Embeddings{Vectors: make([][]float32, len(a.Data)), Usage: a.Usage.model()}
	for i, d := range a.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= len(out.Vectors) || out.Vectors[at] != nil {
			return out, model.Errorf(model.ErrBadAnswer, "index %d of %d vectors", at, len(a.Data))
		}
		v, err := Vector(d.Embedding)
		if err != nil {
			return out, model.Errorf(model.ErrBadAnswer, "vector %d: %v", at, err)
		}
		out.Vectors[at] = v
	}
	if err := model.CheckVectors(out.Vectors, len(q.Input), q.Dimensions); err != nil {
		return out, err
	}
	return out, model.CheckWhole(out.Usage.InputTokens, q.Input...)
}

// Vector reads an embedding: an array of numbers, or little-endian float32 in base64.
func Vector(raw json.RawMessage) ([]float32, error) {
	v := []float32{}
	if len(raw) > 0 && raw[0] == '[' {
		return v, json.Unmarshal(raw, &v)
	}
	var b []byte
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("%d bytes are no float32 numbers", len(b))
	}
	for ; len(b) > 0; b = b[4:] {
		v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return v, nil
}

// Generate implements model.Runtime.
func (r *Runtime) Generate(ctx context.Context, q model.GenerateRequest) (model.Generated, error) {
	body := map[string]any{"model": q.Model, "messages": turns(q.Messages)}
	if q.Seed != nil {
		body["seed"] = *q.Seed
	}
	if q.Temperature != nil {
		body["temperature"] = *q.Temperature
	}
	if q.TopP != nil {
		body["top_p"] = *q.TopP
	}
	if q.MaxTokens > 0 {
		body["max_tokens"] = q.MaxTokens
	}
	if len(q.Stop) > 0 {
		body["stop"] = q.Stop
	}
	if len(q.Schema) > 0 {
		body["response_format"] = map[string]any{
			"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true, "schema": q.Schema},
		}
	}
	var a Completion
	if err := r.server.JSON(ctx, "/v1/chat/completions", body, &a, kind); err != nil {
		return model.Generated{}, err
	}
	out, err := a.generated(q)
	if err == nil {
		err = model.CheckPrompt(out.Usage.InputTokens, &q)
	}
	return out, err
}

// Completion is what is read of a chat completion.
type Completion struct {
	Choices []struct {
		Message struct {
			Content *string `json:"content"`
			Refusal *string `json:"refusal"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage usage           `json:"usage"`
	Error json.RawMessage `json:"error"`
}

const maxText = 16 << 20 // bytes of one answer

func (a *Completion) generated(q model.GenerateRequest) (out model.Generated, err error) {
	if text := model.Complaint(a.Error); text != "" {
		return out, told(text)
	}
	out.Usage = a.Usage.model()
	if len(a.Choices) == 0 {
		return out, model.Errorf(model.ErrBadAnswer, "no choice in it")
	}
	c := a.Choices[0]
	if c.Message.Content != nil {
		out.Text = *c.Message.Content
	}
	out.Finish = model.Stopped
	switch {
	case c.Message.Refusal != nil && *c.Message.Refusal != "":
		return out, model.Errorf(model.ErrRefused, "the model refuses: %s", *c.Message.Refusal)
	case c.Finish == "content_filter":
		return out, model.Errorf(model.ErrRefused, "kept back by the server's content filter")
	case c.Finish == "length":
		out.Finish = model.Length
		if q.MaxTokens == 0 || len(q.Schema) > 0 {
			return out, model.Errorf(model.ErrTruncated, "cut after %d tokens", out.Usage.OutputTokens)
		}
	}
	if len(out.Text) > maxText {
		return out, model.Errorf(model.ErrTruncated, "answer over %d bytes", maxText)
	}
	if strings.TrimSpace(out.Text) == "" {
		return out, model.Errorf(model.ErrBadAnswer, "the answer is empty")
	}
	return out, nil
}

// turns writes messages as the protocol does: text alone as a string, with images as parts.
func turns(messages []model.Message) []map[string]any {
	list := make([]map[string]any, len(messages))
	for i, m := range messages {
		if len(m.Images) == 0 {
			list[i] = map[string]any{"role": m.Role, "content": m.Text}
			continue
		}
		parts := []map[string]any{{"type": "text", "text": m.Text}}
		for _, img := range m.Images {
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{
				"url": "data:" + http.DetectContentType(img) + ";base64," + base64.StdEncoding.EncodeToString(img),
			}})
		}
		list[i] = map[string]any{"role": m.Role, "content": parts}
	}
	return list
}

// Pass implements model.Passer.
func (r *Runtime) Pass(ctx context.Context, path string, body []byte) (answer []byte, err error) {
	err = r.server.Do(ctx, path, body, func(in io.Reader) error {
		answer, err = io.ReadAll(in)
		return err
	}, kind)
	return answer, err
}

// kind says what a refusal means; nil: what its status says.
func kind(status int, text string) error {
	low := strings.ToLower(text)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(low, p) })
	}
	switch {
	case has("insufficient_quota", "billing_hard_limit"):
		return model.ErrDenied // no waiting helps
	case status < http.StatusInternalServerError &&
		has("context_length_exceeded", "context length", "context size", "exceed_context_size", "maximum context", "context window", "too many tokens", "is too large to process"):
		return model.ErrOverflow
	case has("model_not_found"), status == http.StatusNotFound && has("model"):
		return model.ErrNoModel
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return model.ErrDenied // not a server of this protocol
	case status == http.StatusInternalServerError && has("failed to process inputs", "invalid format", "invalid json schema", "must be of type", "failed to parse grammar"):
		return model.ErrRefused
	case status == http.StatusBadRequest && has("connection refused", "connection reset", "runner"):
		return model.ErrUnavailable
	case has("maximum pending requests", "loading model"):
		return model.ErrBusy
	}
	return nil
}

// told makes an error of a refusal inside a 200.
func told(text string) *model.Error {
	e := model.Errorf(model.ErrUnavailable, "%s", text)
	e.Status = http.StatusOK
	if k := kind(http.StatusBadRequest, text); k != nil {
		e.Kind = k
	}
	return e
}
