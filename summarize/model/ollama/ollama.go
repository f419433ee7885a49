package ollama

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"macbatch/summarize/model"
)

// Runtime implements model.Runtime.
type Runtime struct {
	server model.Server

	mu      sync.Mutex
	sighted map[string]bool // whether a model takes images, where that was asked
}

// New makes the runtime of a server.
func New(s model.Server) model.Runtime {
	return &Runtime{server: s, sighted: map[string]bool{}}
}

// Models implements model.Runtime.
func (r *Runtime) Models(ctx context.Context) ([]model.Model, error) {
	var tags struct {
		Models []struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		} `json:"models"`
	}
	if err := r.server.JSON(ctx, "/api/tags", nil, &tags, kind); err != nil {
		return nil, err
	}
	list := make([]model.Model, len(tags.Models))
	for i, m := range tags.Models {
		list[i] = model.Model{Name: strings.TrimSuffix(m.Name, ":latest"), Digest: strings.TrimPrefix(m.Digest, "sha256:")}
	}
	return list, nil
}

// Embed implements model.Runtime.
func (r *Runtime) Embed(ctx context.Context, q model.EmbedRequest) (model.Embeddings, error) {
	if slices.Contains(q.Input, "") {
		return model.Embeddings{}, model.Errorf(model.ErrRefused, "an empty text has no vector")
	}
	var a struct {
		Embeddings [][]float32     `json:"embeddings"`
		Tokens     int             `json:"prompt_eval_count"`
		Error      json.RawMessage `json:"error"`
	}
	err := r.server.JSON(ctx, "/api/embed", map[string]any{
		"model": q.Model, "input": q.Input, "truncate": false, "dimensions": q.Dimensions,
	}, &a, kind)
	if missing(err) && q.Dimensions == 0 {
		return r.embedEach(ctx, q)
	}
	if err != nil {
		return model.Embeddings{}, err
	}
	if text := model.Complaint(a.Error); text != "" {
		return model.Embeddings{}, told(http.StatusOK, text)
	}
	out := model.Embeddings{Vectors: a.Embeddings, Usage: model.Usage{InputTokens: a.Tokens}}
	if err := model.CheckVectors(out.Vectors, len(q.Input), q.Dimensions); err != nil {
		return out, err
	}
	return out, model.CheckWhole(a.Tokens, q.Input...)
}

// embedEach asks a server that knows only one text at a time. Its vectors are
// made of length one, as those of /api/embed are.
func (r *Runtime) embedEach(ctx context.Context, q model.EmbedRequest) (model.Embeddings, error) {
	var out model.Embeddings
	for _, text := range q.Input {
		var a struct {
			Embedding []float32 `json:"embedding"`
		}
		// The old call cuts what is too long: what may be is refused. A token is a
		// byte at least.
		if len(text) > oldContext {
			return out, model.Errorf(model.ErrOverflow, "%d bytes, and this server is too old to say whether they fit", len(text))
		}
		if err := r.server.JSON(ctx, "/api/embeddings", map[string]any{"model": q.Model, "prompt": text}, &a, kind); err != nil {
			return out, err
		}
		out.Vectors = append(out.Vectors, unit(a.Embedding))
	}
	return out, model.CheckVectors(out.Vectors, len(q.Input), 0)
}

// oldContext is the default context of servers without /api/embed.
const oldContext = 2048

// Generate implements model.Runtime.
func (r *Runtime) Generate(ctx context.Context, q model.GenerateRequest) (model.Generated, error) {
	if err := r.mayLook(ctx, q); err != nil {
		return model.Generated{}, err
	}
	options := map[string]any{}
	if q.Seed != nil {
		options["seed"] = *q.Seed
	}
	if q.Temperature != nil {
		options["temperature"] = *q.Temperature
	}
	if q.TopP != nil {
		options["top_p"] = *q.TopP
	}
	if q.MaxTokens > 0 {
		options["num_predict"] = q.MaxTokens
	}
	if q.Context > 0 {
		options["num_ctx"] = q.Context
	}
	if len(q.Stop) > 0 {
		options["stop"] = q.Stop
	}
	body := map[string]any{"model": q.Model, "stream": true, "truncate": false, "shift": false, "options": options}
	if len(q.Schema) > 0 {
		body["format"] = q.Schema
	}
	path := "/api/generate"
	if system, user, ok := plain(q.Messages); ok {
		body["prompt"], body["system"], body["images"] = user.Text, system, user.Images
	} else {
		path = "/api/chat"
		type turn struct {
			Role    model.Role `json:"role"`
			Content string     `json:"content"`
			Images  [][]byte   `json:"images,omitempty"`
		}
		turns := make([]turn, len(q.Messages))
		for i, m := range q.Messages {
			turns[i] = turn{m.Role, m.Text, m.Images}
		}
		body["messages"] = turns
	}
	b, err := json.Marshal(body)
	if err != nil {
		return model.Generated{}, model.Errorf(model.ErrRefused, "%v", err)
	}
	var out model.Generated
	err = r.server.Do(ctx, path, b, func(in io.Reader) error {
		out, err = stream(in, q)
		return err
	}, kind)
	if err == nil { // servers that are too old to be told not to cut
		err = model.CheckPrompt(out.Usage.InputTokens, &q)
	}
	return out, err
}

// plain finds the system's and the one user's message, if that is all there is.
func plain(messages []model.Message) (system string, user model.Message, ok bool) {
	switch {
	case len(messages) == 1 && messages[0].Role == model.User:
		return "", messages[0], messages[0].Text != ""
	case len(messages) == 2 && messages[0].Role == model.System && messages[1].Role == model.User:
		return messages[0].Text, messages[1], messages[1].Text != ""
	}
	return "", user, false
}

// mayLook refuses images for a model that would ignore them.
func (r *Runtime) mayLook(ctx context.Context, q model.GenerateRequest) error {
	if !slices.ContainsFunc(q.Messages, func(m model.Message) bool { return len(m.Images) > 0 }) {
		return nil
	}
	r.mu.Lock()
	yes, known := r.sighted[q.Model]
	r.mu.Unlock()
	if !known {
		var show struct {
			Capabilities []string        `json:"capabilities"`
			Projector    json.RawMessage `json:"projector_info"` // of servers that tell no capabilities
		}
		if err := r.server.JSON(ctx, "/api/show", map[string]any{"model": q.Model}, &show, kind); err != nil {
			return err
		}
		yes = slices.Contains(show.Capabilities, "vision") || show.Capabilities == nil && len(show.Projector) > 4
		r.mu.Lock()
		r.sighted[q.Model] = yes
		r.mu.Unlock()
	}
	if !yes {
		return model.Errorf(model.ErrRefused, "model %q does not take images", q.Model)
	}
	return nil
}
