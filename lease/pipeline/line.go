package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"macbatch/lease"
	"macbatch/lease/item"
)

// The calls that batch lines may ask for.
const (
	EmbeddingsURL  = "/v1/embeddings"
	ChatURL        = "/v1/chat/completions"
	CompletionsURL = "/v1/completions"
	ResponsesURL   = "/v1/responses"
)

var batchURLs = map[lease.Kind][]string{
	Embed:    {EmbeddingsURL},
	Generate: {ChatURL, CompletionsURL, ResponsesURL},
}

// BatchKind is the kind whose batch lines ask for a call; false: none's do.
func BatchKind(url string) (lease.Kind, bool) {
	for kind, urls := range batchURLs {
		if slices.Contains(urls, url) {
			return kind, true
		}
	}
	return "", false
}

// LineCheck says of each item of an input what its kind lacks in it.
type LineCheck struct {
	Kind   lease.Kind
	Model  string // that batch lines must ask for; "": that of the first is taken
	Prompt string // the job's template
	URL    string // of batch lines, found by Check: one input asks for one call
}

// Check refuses an item that the kind cannot work on.
func (c *LineCheck) Check(it *item.Item) error {
	if it.Batch() {
		return c.batch(it)
	}
	switch c.Kind {
	case OCR:
		_, err := it.Data()
		return err
	case Generate, Classify:
		if c.Prompt != "" {
			_, err := Fill(c.Prompt, it)
			return err
		}
		if c.Kind == Generate {
			if _, err := Images(it); err != nil {
				return err
			}
		}
	}
	text, err := it.Text()
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("its text is empty")
	}
	return err
}

func (c *LineCheck) batch(it *item.Item) error {
	urls, ok := batchURLs[c.Kind]
	switch {
	case !ok:
		return fmt.Errorf("%s takes no batch lines", c.Kind)
	case !slices.Contains(urls, it.URL):
		return fmt.Errorf("url %.100q: %s takes %s", it.URL, c.Kind, strings.Join(urls, ", "))
	case c.URL != "" && it.URL != c.URL:
		return fmt.Errorf("url %q: the lines before it ask for %s", it.URL, c.URL)
	}
	c.URL = it.URL
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(it.Body, &fields); err != nil {
		return err
	}
	var model string
	if err := json.Unmarshal(fields["model"], &model); err != nil || model == "" {
		return errors.New("body: model is missing")
	}
	if c.Model == "" {
		c.Model = model
	}
	if model != c.Model {
		return fmt.Errorf("body asks for model %.100q, the job is of %q", model, c.Model)
	}
	if s := fields["stream"]; s != nil && string(s) != "false" && string(s) != "null" {
		return errors.New("body: a batch can't stream")
	}
	if c.Kind == Embed || it.URL == ResponsesURL {
		return full(fields, "input")
	}
	if it.URL == ChatURL {
		return full(fields, "messages")
	}
	return full(fields, "prompt")
}

// full refuses a body without a field, or with an empty one.
func full(fields map[string]json.RawMessage, name string) error {
	if raw, ok := fields[name]; !ok || slices.Contains([]string{"null", `""`, "[]"}, string(raw)) {
		return fmt.Errorf("body: %s is missing", name)
	}
	return nil
}

// Images returns the images of a plain item: its field image or images, data URLs.
func Images(it *item.Item) ([][]byte, error) {
	var images [][]byte
	if raw, ok := it.Fields["image"]; ok {
		b, err := item.DataURL(raw)
		if err != nil {
			return nil, fmt.Errorf("image %w", err)
		}
		images = append(images, b)
	}
	if raw, ok := it.Fields["images"]; ok {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, errors.New("images must be a list")
		}
		for i, raw := range list {
			b, err := item.DataURL(raw)
			if err != nil {
				return nil, fmt.Errorf("image %d %w", i, err)
			}
			images = append(images, b)
		}
	}
	return images, nil
}
