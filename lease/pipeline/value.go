package pipeline

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// TextValue is the value of a generate or ocr item.
type TextValue struct {
	Text   string          `json:"text"`
	JSON   json.RawMessage `json:"json,omitempty"`   // the answer itself, where a schema was asked for
	Finish string          `json:"finish,omitempty"` // of generate: stop, or length when cut at max_tokens
	Pages  []PageText      `json:"pages,omitempty"`  // of ocr, where there is more than one
	Usage  Usage           `json:"usage,omitzero"`
}

// PageText is one page's part of a text.
type PageText struct {
	Page int    `json:"page"`
	Text string `json:"text"`
}

// LabelValue is the value of a classify item.
type LabelValue struct {
	Label string `json:"label"`
	Usage Usage  `json:"usage,omitzero"`
}

// SummaryValue is the value of a summarize item.
type SummaryValue struct {
	Title      string   `json:"title,omitempty"`
	Summary    string   `json:"summary"`
	Keywords   []string `json:"keywords"`
	Language   string   `json:"language,omitempty"`
	Extractive bool     `json:"extractive"` // sentences of the text itself, chosen without a model
	Usage      Usage    `json:"usage,omitzero"`
}

// isBatch reports whether a job's values are bodies of responses.
func isBatch(params []byte) bool {
	var p struct {
		Batch bool `json:"batch"`
	}
	return json.Unmarshal(params, &p) == nil && p.Batch // the parameters were checked
}

// texts takes texts, which may be empty (of a blank page), and of a batch the
// bodies of responses.
func texts(params []byte) func(json.RawMessage) error {
	if isBatch(params) {
		return body
	}
	return func(v json.RawMessage) error {
		var t TextValue
		return object(v, &t)
	}
}

// object reads a value that is no null.
func object(v json.RawMessage, into any) error {
	if len(v) == 0 || v[0] != '{' {
		return errors.New("must be an object")
	}
	return decode(v, into)
}

// body takes the body of a response: an object, whose fields are its server's.
func body(v json.RawMessage) error {
	if len(v) == 0 || v[0] != '{' {
		return errors.New("must be the body of a response")
	}
	return nil
}

// labels takes no answer but one of those asked for.
func labels(params []byte) func(json.RawMessage) error {
	var p ClassifyParams
	bad := decode(params, &p)
	known := map[string]bool{}
	for _, l := range p.Labels {
		known[l] = true
	}
	return func(v json.RawMessage) error {
		var l LabelValue
		if err := errors.Join(bad, object(v, &l)); err != nil {
			return err
		}
		if !known[l.Label] {
			return fmt.Errorf("%.100q is none of the labels", l.Label)
		}
		return nil
	}
}

func summaries([]byte) func(json.RawMessage) error {
	return func(v json.RawMessage) error {
		var s SummaryValue
		err := object(v, &s)
		if err == nil && s.Summary == "" {
			err = errors.New("an empty summary")
		}
		return err
	}
}

// vectors takes finite vectors of one dimension.
func vectors(params []byte) func(json.RawMessage) error {
	var p EmbedParams
	bad, dim := decode(params, &p), 0
	one := func(n int, err error) error {
		switch {
		case err != nil:
			return err
		case n == 0 || p.Dimensions != 0 && n != p.Dimensions:
			return fmt.Errorf("a vector of %d numbers", n)
		case dim != 0 && n != dim:
			return fmt.Errorf("a vector of %d numbers after one of %d", n, dim)
		}
		dim = n
		return nil
	}
	return func(v json.RawMessage) error {
		switch {
		case bad != nil:
			return bad
		case !p.Batch:
			x, err := Vector(v)
			return one(len(x), err)
		}
		if err := body(v); err != nil {
			return err
		}
		// The body is its server's and may say more than is known here.
		var b struct {
			Data []struct {
				Embedding json.RawMessage `json:"embedding"`
			} `json:"data"`
		}
		if err := json.Unmarshal(v, &b); err != nil {
			return err
		}
		if len(b.Data) == 0 {
			return errors.New("a body without a vector")
		}
		// Each line may ask for dimensions of its own.
		for _, d := range b.Data {
			x, err := Vector(d.Embedding)
			if len(x) == 0 && err == nil {
				err = errors.New("an empty vector")
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// Vector reads a vector: an array of numbers, or the base64 of little-endian
// 32-bit floats. All of its numbers are finite.
func Vector(v json.RawMessage) ([]float32, error) {
	if len(v) > 0 && v[0] == '[' {
		numbers := []float32{} // JSON knows no number that is not finite
		err := json.Unmarshal(v, &numbers)
		return numbers, err
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b)%4 != 0 {
		return nil, errors.New("a vector that is not the base64 of 32-bit floats")
	}
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if f := float64(x[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("a vector with a number that is not finite")
		}
	}
	return x, nil
}

// VectorValue is the value of a plain embed item.
func VectorValue(v []float32) json.RawMessage {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(b) + `"`)
}
