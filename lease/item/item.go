package item

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"macbatch/lease/wire"
)

// The limits of an item.
const (
	MaxLine = 32 << 20 // bytes of a line, its end included
	MaxID   = 8 << 10  // bytes of a custom_id
)

// Item is one line.
type Item struct {
	ID     string
	Fields map[string]json.RawMessage // of a plain item, without its custom_id; nil for a batch line
	URL    string                     // of a batch line: the call's path
	Body   json.RawMessage            // of a batch line: an object
}

// Batch reports whether the line is of the form of OpenAI's Batch API.
func (it *Item) Batch() bool { return it.Fields == nil }

// Parse reads one line, without its end. The item refers to the line's bytes.
func Parse(line []byte) (*Item, error) {
	if len(line) >= MaxLine {
		return nil, fmt.Errorf("line of %d bytes, over the limit of %d", len(line)+1, MaxLine)
	}
	var fields map[string]json.RawMessage
	if err := wire.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("null is not an item")
	}
	it := &Item{}
	if err := it.identify(fields); err != nil {
		return nil, err
	}
	delete(fields, "custom_id")
	_, method := fields["method"]
	_, url := fields["url"]
	_, body := fields["body"]
	if !method && !url && !body {
		it.Fields = fields
		return it, nil
	}
	return it, it.batch(fields)
}

func (it *Item) identify(fields map[string]json.RawMessage) error {
	raw, ok := fields["custom_id"]
	if !ok {
		return errors.New("custom_id is missing")
	}
	id, err := text(raw)
	switch {
	case err != nil:
		return fmt.Errorf("custom_id %w", err)
	case id == "":
		return errors.New("custom_id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("custom_id of %d bytes, over the limit of %d", len(id), MaxID)
	}
	it.ID = id
	return nil
}

// batch takes the fields of a batch line, of which there may be no other.
func (it *Item) batch(fields map[string]json.RawMessage) error {
	for name, raw := range fields {
		switch name {
		case "method":
			if string(raw) != `"POST"` {
				return errors.New(`method must be "POST"`)
			}
		case "url":
			url, err := text(raw)
			if err != nil {
				return fmt.Errorf("url %w", err)
			}
			it.URL = url
		case "body":
			if len(raw) == 0 || raw[0] != '{' {
				return errors.New("body must be an object")
			}
			it.Body = raw
		default:
			return fmt.Errorf("field %.100q does not belong to a batch line", name)
		}
	}
	for _, name := range []string{"method", "url", "body"} {
		if _, ok := fields[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

// Text returns a plain item's text: its field input, text or prompt, of which
// there must be one.
func (it *Item) Text() (string, error) {
	var found string
	for _, name := range []string{"input", "text", "prompt"} {
		if _, ok := it.Fields[name]; !ok {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("has %s and %s: which is the text?", found, name)
		}
		found = name
	}
	if found == "" {
		return "", errors.New(`has no text: "input" is missing`)
	}
	return it.Field(found)
}

// Field returns a plain item's field that is a text, and not an empty one.
func (it *Item) Field(name string) (string, error) {
	raw, ok := it.Fields[name]
	if !ok {
		return "", fmt.Errorf("%s is missing", name)
	}
	s, err := text(raw)
	if err != nil {
		return "", fmt.Errorf("%s %w", name, err)
	}
	if s == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return s, nil
}

var errNoText = errors.New("must be a string")

func text(raw json.RawMessage) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", errNoText
	}
	plain := true
	for _, c := range raw[1 : len(raw)-1] {
		plain = plain && c != '\\'
	}
	if plain && utf8.Valid(raw) { // as it was read: nothing to undo
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errNoText
	}
	return s, nil
}
