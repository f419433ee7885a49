package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
)

// CheckAnswer returns the JSON value that a text is, with the text's own numbers,
// if it meets a schema. Servers that promise to keep to one do not always.
//
// Of JSON Schema it knows type, enum, const, properties, required,
// additionalProperties, items, anyOf, oneOf, allOf, and the limits of numbers,
// texts and lists. Other keywords, references among them, ask for nothing.
func CheckAnswer(schema json.RawMessage, text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	value, err := decodeOne([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	rules, err := decodeOne(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	if err := meets(rules, value, "answer", 0); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

func decodeOne(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind it")
	}
	return v, nil
}

const maxSchemaDepth = 100

// meets holds a value against a schema; at names the value in errors.
func meets(schema, value any, at string, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("%s is nested too deep", at)
	}
	rules, ok := schema.(map[string]any)
	if !ok {
		if schema == false {
			return fmt.Errorf("%s must not be there", at)
		}
		return nil
	}
	if t, ok := rules["type"]; ok && !isOf(t, value) {
		return fmt.Errorf("%s is not of type %v", at, t)
	}
	if list, ok := rules["enum"].([]any); ok && !slices.ContainsFunc(list, func(x any) bool { return equal(x, value) }) {
		return fmt.Errorf("%s is none of the values allowed", at)
	}
	if c, ok := rules["const"]; ok && !equal(c, value) {
		return fmt.Errorf("%s is not the value asked for", at)
	}
	if err := combined(rules, value, at, depth); err != nil {
		return err
	}
	switch v := value.(type) {
	case map[string]any:
		return object(rules, v, at, depth)
	case []any:
		if err := within(rules, "minItems", "maxItems", float64(len(v)), at+"'s length"); err != nil {
			return err
		}
		if items, ok := rules["items"]; ok {
			for i, x := range v {
				if err := meets(items, x, fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
					return err
				}
			}
		}
	case string:
		return within(rules, "minLength", "maxLength", float64(len([]rune(v))), at+"'s length")
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return fmt.Errorf("%s is out of range", at)
		}
		return within(rules, "minimum", "maximum", f, at)
	}
	return nil
}

func object(rules, v map[string]any, at string, depth int) error {
	if names, ok := rules["required"].([]any); ok {
		for _, n := range names {
			if s, ok := n.(string); ok {
				if _, there := v[s]; !there {
					return fmt.Errorf("%s has no %q", at, s)
				}
			}
		}
	}
	known, _ := rules["properties"].(map[string]any)
	for name, x := range v {
		s, ok := known[name]
		if !ok {
			if s, ok = rules["additionalProperties"]; !ok {
				continue
			}
		}
		if err := meets(s, x, at+"."+line(name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// combined looks at the keywords that are made of schemas.
func combined(rules map[string]any, value any, at string, depth int) error {
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		list, ok := rules[word].([]any)
		if !ok {
			continue
		}
		met := 0
		for _, s := range list {
			if meets(s, value, at, depth+1) == nil {
				met++
			}
		}
		if word == "anyOf" && met == 0 || word == "oneOf" && met != 1 || word == "allOf" && met != len(list) {
			return fmt.Errorf("%s meets %d of %d schemas of %s", at, met, len(list), word)
		}
	}
	return nil
}

func within(rules map[string]any, least, most string, n float64, what string) error {
	bound := func(name string) (float64, bool) {
		x, ok := rules[name].(json.Number)
		if !ok {
			return 0, false
		}
		f, err := x.Float64()
		return f, err == nil
	}
	if b, ok := bound(least); ok && n < b {
		return fmt.Errorf("%s is %v, below %v", what, n, b)
	}
	if b, ok := bound(most); ok && n > b {
		return fmt.Errorf("%s is %v, above %v", what, n, b)
	}
	return nil
}

// isOf reports whether a value is of a schema's type, or of one of its types.
func isOf(t, value any) bool {
	if list, ok := t.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return isOf(one, value) })
	}
	switch v := value.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	case json.Number:
		f, err := v.Float64()
		return t == "number" || t == "integer" && err == nil && f == math.Trunc(f)
	}
	return false
}

// equal compares numbers by value: 1 and 1.0 are one.
func equal(a, b any) bool {
	x, ok1 := a.(json.Number)
	y, ok2 := b.(json.Number)
	if ok1 && ok2 {
		f, err1 := x.Float64()
		g, err2 := y.Float64()
		return err1 == nil && err2 == nil && f == g
	}
	return reflect.DeepEqual(a, b)
}
