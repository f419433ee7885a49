package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/item"
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

// ListResult is the result of a list shard: one outcome for each line, in order.
type ListResult struct {
	By       Maker     `json:"by,omitzero"`
	Outcomes []Outcome `json:"outcomes"`
}

// Maker is what made a result, and what it took.
type Maker struct {
	Engine  string  `json:"engine,omitempty"` // a program, or the kind of the model's server
	Model   string  `json:"model,omitempty"`
	Digest  string  `json:"digest,omitempty"` // of the model; "" where its server tells none
	Tier    string  `json:"tier,omitempty"`   // the worker's name for the server, never its address
	Usage   Usage   `json:"usage,omitzero"`
	Seconds float64 `json:"seconds,omitempty"` // from the first request to the last answer
}

// Usage is what answers took: tokens as the server tells, the time of the requests,
// and what they cost where their server is paid.
type Usage struct {
	InputTokens  int        `json:"input_tokens"`
	OutputTokens int        `json:"output_tokens,omitempty"`
	Seconds      float64    `json:"seconds,omitempty"`
	Cost         lease.Cost `json:"cost_nusd,omitempty"`
}

// Add sums up.
func (u *Usage) Add(v Usage) {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.Seconds += v.Seconds
	u.Cost = u.Cost.Plus(v.Cost)
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

// listKind is what a kind makes of a list.
type listKind struct {
	shard lease.Kind // kind of its shards
	items int        // in a shard, at most
	bytes int64      // in a shard, at most, but for a single longer line
	// params checks the parameters and says which model they need ("": none) and
	// whether equal work may take an earlier result.
	params func(b []byte) (need string, reusable bool, err error)
	// value checks the values of a shard, one after another. They were made by the
	// parameters b.
	value func(b []byte) func(v json.RawMessage) error
}

// lists is the closed table of list kinds, by the kind of the job.
var lists = map[lease.Kind]listKind{
	Embed:     {Embed, 256, 1 << 20, check[EmbedParams], vectors},
	Generate:  {Generate, 32, 256 << 10, check[GenerateParams], texts},
	Classify:  {Classify, 32, 256 << 10, check[ClassifyParams], labels},
	OCR:       {OCR, 8, 16 << 20, check[OCRParams], texts},
	Summarize: {SummarizeText, 4, 1 << 20, check[SummarizeTextParams], summaries},
}

// List implements store.Planner.
func (Planner) List(kind lease.Kind, params []byte) (lease.Packing, error) {
	k, ok := lists[kind]
	if !ok {
		return lease.Packing{}, fmt.Errorf("kind %q is not known, or works on no list", kind)
	}
	model, reusable, err := k.params(params)
	if err != nil {
		return lease.Packing{}, fmt.Errorf("parameters: %w", err)
	}
	p := lease.Packing{Need: lease.Need{Kind: k.shard, Model: model}, Items: k.items, Bytes: k.bytes, Line: item.MaxLine}
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
	means.Maker = lease.Maker{Engine: res.By.Engine, Model: res.By.Model, Server: res.By.Tier}
	return means, nil
}
