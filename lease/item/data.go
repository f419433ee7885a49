package item

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// Data returns the bytes of a plain item's image or document, of which there must
// be one.
func (it *Item) Data() ([]byte, error) {
	raw, image := it.Fields["image"]
	document, both := it.Fields["document"]
	name := "image"
	switch {
	case image && both:
		return nil, errors.New("has an image and a document: which is it?")
	case both:
		raw, name = document, "document"
	case !image:
		return nil, errors.New(`has no "image" and no "document"`)
	}
	b, err := DataURL(raw)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return b, nil
}

// DataURL returns the bytes of a data URL in base64: data:image/png;base64,…
func DataURL(raw json.RawMessage) ([]byte, error) {
	s, err := text(raw)
	if err != nil {
		return nil, err
	}
	head, data, ok := strings.Cut(s, ",")
	if !ok || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return nil, errors.New("must be a data URL: data:TYPE;base64,…")
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, errors.New("is not base64")
	}
	if len(b) == 0 {
		return nil, errors.New("is empty")
	}
	return b, nil
}

// File returns the path that a plain item has where a data URL is due; "" for none.
func (it *Item) File(name string) string {
	s, err := text(it.Fields[name])
	if err != nil || strings.HasPrefix(s, "data:") {
		return ""
	}
	return s
}

// With returns the line of a plain item with the bytes of a file in one of its fields.
func (it *Item) With(name, mediaType string, b []byte) ([]byte, error) {
	fields := maps.Clone(it.Fields)
	for key, v := range map[string]string{"custom_id": it.ID, name: dataURL(mediaType, b)} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		fields[key] = raw
	}
	return json.Marshal(fields)
}

func dataURL(mediaType string, b []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(b)
}

// OfText makes the line of a text.
func OfText(id, s string) ([]byte, error) {
	return json.Marshal(struct {
		ID    string `json:"custom_id"`
		Input string `json:"input"`
	}{id, s})
}

// OfData makes the line of an image, or of a document: a PDF file.
func OfData(id, mediaType string, b []byte) ([]byte, error) {
	url := dataURL(mediaType, b)
	if mediaType == "application/pdf" {
		return json.Marshal(struct {
			ID       string `json:"custom_id"`
			Document string `json:"document"`
		}{id, url})
	}
	return json.Marshal(struct {
		ID    string `json:"custom_id"`
		Image string `json:"image"`
	}{id, url})
}
