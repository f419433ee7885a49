package pipeline

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"macbatch/lease"
)

// The kinds of list jobs. A job's kind is its shards' kind, but for texts to
// summarize: that job is of kind Summarize, and its shards are SummarizeText, for
// the library's Summarize shards have another payload.
const (
	Embed         lease.Kind = "embed"
	Classify      lease.Kind = "classify"
	Generate      lease.Kind = "generate"
	OCR           lease.Kind = "ocr"
	SummarizeText lease.Kind = "summarize-text"
)

// MaxLine is the longest line of a list input, in bytes, its end included.
const MaxLine = 32 << 20

// ListResult is the result of a list shard: one outcome for each line, in order.
type ListResult struct {
	By       Maker     `json:"by,omitzero"`
	Outcomes []Outcome `json:"outcomes"`
}

// Maker is what made a result.
type Maker struct {
	Model  string `json:"model,omitempty"`
	Digest string `json:"digest,omitempty"` // of the model
	Tier   string `json:"tier,omitempty"`
	Server string `json:"server,omitempty"` // its alias on the worker, never its address
}

// Outcome is what became of an item: a value of its kind's own shape, or an error
// that another attempt would meet too.
type Outcome struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *ItemError      `json:"error,omitempty"`
}

// ItemError says why an item has no value.
type ItemError struct {
	Code    string `json:"code"` // a word for programs
	Message string `json:"message"`
}

// EmbedParams are the parameters of an embed job. A value is a vector: an array
// of numbers, or the base64 of little-endian 32-bit floats.
type EmbedParams struct {
	Model string `json:"model"`
	Batch int    `json:"batch,omitempty"` // texts in one request; 0: the runtime's default
	Fresh bool   `json:"fresh,omitempty"` // do all work anew
}

// GenerateParams are the parameters of a generate job. A value is an answer.
type GenerateParams struct {
	Model       string          `json:"model"`
	System      string          `json:"system,omitempty"`
	Prompt      string          `json:"prompt,omitempty"` // a template over the item's fields; empty: the item has its own
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON schema of the answer
	Temperature float64         `json:"temperature,omitempty"`
	Seed        int64           `json:"seed,omitempty"`
	MaxTokens   int             `json:"max_tokens,omitempty"` // of an answer; 0: the runtime's default
	Fresh       bool            `json:"fresh,omitempty"`
}

// ClassifyParams are the parameters of a classify job. A value is one of the labels.
type ClassifyParams struct {
	Model  string   `json:"model"`
	Labels []string `json:"labels"`
	Prompt string   `json:"prompt,omitempty"`
	Fresh  bool     `json:"fresh,omitempty"`
}

// OCRParams are the parameters of an ocr job. A value is text.
type OCRParams struct {
	Model    string `json:"model,omitempty"`    // a vision model; empty: tesseract
	Language string `json:"language,omitempty"` // as tesseract names it
	Fresh    bool   `json:"fresh,omitempty"`
}

// SummarizeTextParams are the parameters of a summarize job over texts.
type SummarizeTextParams struct {
	Model    string `json:"model,omitempty"` // empty: an extractive summary
	Language string `json:"language,omitempty"`
	Fresh    bool   `json:"fresh,omitempty"`
}

// listKind is what a kind makes of a list.
type listKind struct {
	shard lease.Kind // kind of its shards
	items int        // in a shard, at most
	bytes int64      // in a shard, at most, but for a single longer line
	// params checks the parameters and says which model they need ("": none) and
	// whether equal work may take an earlier result.
	params func(b []byte) (model string, reusable bool, err error)
	// value checks the values of a shard, one after another. They were made by the
	// parameters b.
	value func(b []byte) func(v json.RawMessage) error
}

// lists is the closed table of list kinds, by the kind of the job.
var lists = map[lease.Kind]listKind{
	Embed:     {Embed, 256, 1 << 20, embedParams, vectors},
	Generate:  {Generate, 16, 256 << 10, generateParams, anything},
	Classify:  {Classify, 32, 256 << 10, classifyParams, labels},
	OCR:       {OCR, 8, 16 << 20, ocrParams, anything},
	Summarize: {SummarizeText, 4, 1 << 20, summarizeTextParams, anything},
}

// List implements store.Planner.
func (Planner) List(kind lease.Kind, params []byte) (lease.Packing, error) {
	k, ok := lists[kind]
	if !ok {
		return lease.Packing{}, fmt.Errorf("kind %q is not known, or works on no list", kind)
	}
	model, reusable, err := k.params(params)
	if err == nil && (len(model) > 200 || strings.ContainsFunc(model, func(r rune) bool { return r < ' ' })) {
		err = errors.New("the model's name is too long or has control characters")
	}
	if err != nil {
		return lease.Packing{}, fmt.Errorf("parameters: %w", err)
	}
	p := lease.Packing{Need: lease.Need{Kind: k.shard, Model: model}, Items: k.items, Bytes: k.bytes, Line: MaxLine}
	if reusable {
		p.Reuse = lease.ReuseDigest(string(k.shard), revision[k.shard], string(params))
	}
	return p, nil
}

// acceptList checks the result of a list shard and counts the items that failed.
func acceptList(job *lease.Job, s *lease.Shard, result []byte) (means lease.Acceptance, err error) {
	k, ok := lists[job.Kind]
	if !ok || k.shard != s.Need.Kind {
		return lease.Acceptance{}, fmt.Errorf("kind %q is not known, or works on no list", s.Need.Kind)
	}
	var res ListResult
	if err := decode(result, &res); err != nil {
		return lease.Acceptance{}, fmt.Errorf("%s result: %w", s.Need.Kind, err)
	}
	if len(res.Outcomes) != int(s.Opens) {
		return lease.Acceptance{}, fmt.Errorf("%s result: %d outcomes of %d items", s.Need.Kind, len(res.Outcomes), s.Opens)
	}
	check := k.value(job.Params)
	for i := range res.Outcomes {
		o := &res.Outcomes[i]
		switch {
		case (o.Value == nil) == (o.Error == nil):
			err = errors.New("must have a value or an error, and not both")
		case o.Error == nil:
			err = check(o.Value)
		case o.Error.Code == "" || len(o.Error.Code) > 100 || len(o.Error.Message) > lease.MaxReason:
			err = errors.New("its error says nothing, or too much")
		default:
			means.Failed++
		}
		if err != nil {
			return lease.Acceptance{}, fmt.Errorf("%s result: item %d: %w", s.Need.Kind, int(s.Item)+i, err)
		}
	}
	means.Maker = lease.Maker{Model: res.By.Model, Server: res.By.Server}
	return means, nil
}

func embedParams(b []byte) (string, bool, error) {
	var p EmbedParams
	err := decode(b, &p)
	switch {
	case err != nil:
	case p.Model == "":
		err = errors.New("no model is named")
	case p.Batch < 0 || p.Batch > 4096:
		err = fmt.Errorf("batch of %d: must be 0 to 4096", p.Batch)
	}
	return p.Model, !p.Fresh, err
}

func generateParams(b []byte) (string, bool, error) {
	var p GenerateParams
	err := decode(b, &p)
	switch {
	case err != nil:
	case p.Model == "":
		err = errors.New("no model is named")
	case p.Temperature < 0 || p.Temperature > 10:
		err = fmt.Errorf("temperature %v: must be 0 to 10", p.Temperature)
	case p.MaxTokens < 0 || p.MaxTokens > 1<<20:
		err = fmt.Errorf("max_tokens %d: must be 0 to %d", p.MaxTokens, 1<<20)
	}
	return p.Model, !p.Fresh && p.Temperature == 0, err
}

func classifyParams(b []byte) (string, bool, error) {
	var p ClassifyParams
	err := decode(b, &p)
	switch {
	case err != nil:
	case p.Model == "":
		err = errors.New("no model is named")
	case len(p.Labels) < 2:
		err = fmt.Errorf("%d labels: must be at least 2", len(p.Labels))
	}
	seen := map[string]bool{}
	for _, l := range p.Labels {
		if err == nil && (l == "" || seen[l]) {
			err = fmt.Errorf("label %q is empty or named twice", l)
		}
		seen[l] = true
	}
	return p.Model, !p.Fresh, err
}

func ocrParams(b []byte) (string, bool, error) {
	var p OCRParams
	err := decode(b, &p)
	if err == nil && len(p.Language) > 100 {
		err = errors.New("the language's name is too long")
	}
	return p.Model, !p.Fresh, err
}

func summarizeTextParams(b []byte) (string, bool, error) {
	var p SummarizeTextParams
	err := decode(b, &p)
	if err == nil && len(p.Language) > 20 {
		err = errors.New("the language's name is too long")
	}
	return p.Model, !p.Fresh, err
}

// anything is every value but null.
func anything([]byte) func(json.RawMessage) error {
	return func(v json.RawMessage) error {
		if string(v) == "null" {
			return errors.New("its value is null")
		}
		return nil
	}
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
		var s string
		if err := errors.Join(bad, decode(v, &s)); err != nil {
			return err
		}
		if !known[s] {
			return fmt.Errorf("%.100q is none of the labels", s)
		}
		return nil
	}
}

// vectors takes finite vectors of one dimension.
func vectors([]byte) func(json.RawMessage) error {
	dim := 0
	return func(v json.RawMessage) error {
		n, err := dimension(v)
		switch {
		case err != nil:
			return err
		case n == 0:
			return errors.New("an empty vector")
		case dim != 0 && n != dim:
			return fmt.Errorf("a vector of %d numbers after one of %d", n, dim)
		}
		dim = n
		return nil
	}
}

// dimension is the length of a vector in either of its two forms.
func dimension(v json.RawMessage) (int, error) {
	if len(v) > 0 && v[0] == '[' {
		var numbers []float64 // JSON knows no number that is not finite
		err := decode(v, &numbers)
		return len(numbers), err
	}
	var s string
	if err := decode(v, &s); err != nil {
		return 0, err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b)%4 != 0 {
		return 0, errors.New("a vector that is not the base64 of 32-bit floats")
	}
	for i := 0; i < len(b); i += 4 {
		if f := math.Float32frombits(binary.LittleEndian.Uint32(b[i:])); f != f || math.IsInf(float64(f), 0) {
			return 0, errors.New("a vector with a number that is not finite")
		}
	}
	return len(b) / 4, nil
}
