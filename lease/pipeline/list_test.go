package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"macbatch/lease"
)

func TestListParams(t *testing.T) {
	for _, c := range []struct {
		kind   lease.Kind
		params string
		want   string // what the error says; "": none
	}{
		{Embed, `{"model":"minilm"}`, ""},
		{Embed, `{"model":"minilm","batch":64,"fresh":true}`, ""},
		{Embed, `{}`, "no model"},
		{Embed, `{"model":"minilm","batch":-1}`, "batch of -1"},
		{Embed, `{"model":"minilm","url":"http://169.254.169.254/"}`, "url"},
		{Embed, `{"model":"mini\nlm"}`, "control"},
		{Embed, ``, "JSON"},
		{Generate, `{"model":"smol","prompt":"{{text}}","seed":7,"max_tokens":100,"schema":{"type":"object"}}`, ""},
		{Generate, `{"model":"smol","temperature":-1}`, "temperature"},
		{Generate, `{"model":"smol","max_tokens":-1}`, "max_tokens"},
		{Classify, `{"model":"smol","labels":["a","b"]}`, ""},
		{Classify, `{"model":"smol","labels":["a"]}`, "1 labels"},
		{Classify, `{"model":"smol","labels":["a","a"]}`, "twice"},
		{OCR, `{}`, ""},
		{OCR, `{"exec":"rm"}`, "exec"},
		{Summarize, `{"language":"en"}`, ""},
		{Summarize, `{"root":"films"}`, "root"},
		{Library, params, "no list"},
		{SummarizeText, `{}`, "not known"},
		{"shell", `{}`, "not known"},
	} {
		pack, err := Planner{}.List(c.kind, []byte(c.params))
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("List(%s, %s) = %v, want %q", c.kind, c.params, err, c.want)
		}
		if err == nil && (pack.Items < 1 || pack.Bytes < 1 || pack.Line < 16<<20) {
			t.Errorf("List(%s) packs %+v", c.kind, pack)
		}
	}
	if _, err := (Planner{}).Start(Embed, []byte(`{"model":"minilm"}`)); err == nil || !strings.Contains(err.Error(), "input") {
		t.Errorf("Start of a list kind without an input: %v", err)
	}
}

// TestListReuse: what decides a result is part of its identity, and what is drawn
// at random has none.
func TestListReuse(t *testing.T) {
	reuse := func(kind lease.Kind, params string) lease.Digest {
		pack, err := Planner{}.List(kind, []byte(params))
		if err != nil {
			t.Fatal(err)
		}
		return pack.Reuse
	}
	a := reuse(Embed, `{"model":"a"}`)
	if a.IsZero() || a != reuse(Embed, `{"model":"a"}`) || a == reuse(Embed, `{"model":"b"}`) || a == reuse(OCR, `{"model":"a"}`) {
		t.Error("the identity of work does not follow kind and parameters")
	}
	for _, params := range []string{`{"model":"a","fresh":true}`, `{"model":"a","temperature":0.5}`} {
		if !reuse(Generate, params).IsZero() {
			t.Errorf("generate %s may take an earlier result", params)
		}
	}
	if pack, err := (Planner{}).List(Summarize, []byte(`{}`)); err != nil || pack.Need.Kind != SummarizeText {
		t.Errorf("texts to summarize need %+v, %v, want a kind of their own", pack.Need, err)
	}
}

func TestAcceptList(t *testing.T) {
	accept := func(kind lease.Kind, params, result string) (uint32, error) {
		pack, err := Planner{}.List(kind, []byte(params))
		if err != nil {
			t.Fatal(err)
		}
		s := lease.Shard{Spec: lease.Spec{Need: pack.Need, Opens: 2, Settles: 2, Range: lease.Range{To: 9}}}
		means, err := Planner{}.Accept(&lease.Job{Kind: kind, Params: json.RawMessage(params)}, &s, []byte(result), nil)
		if len(means.Plan) > 0 {
			t.Fatalf("a list shard plans %v", means.Plan)
		}
		return means.Failed, err
	}
	const embed, labeled = `{"model":"m"}`, `{"model":"m","labels":["good","bad"]}`
	failure := `{"error":{"code":"too_long","message":"9000 tokens, over 512"}}`
	of := func(outcomes ...string) string { return `{"outcomes":[` + strings.Join(outcomes, ",") + `]}` }
	for _, c := range []struct {
		kind           lease.Kind
		params, result string
		failed         uint32
		want           string
	}{
		{Embed, embed, of(`{"value":[0.5,-1]}`, `{"value":[1e-3,2]}`), 0, ""},
		{Embed, embed, of(`{"value":"AACAPwAAAEA="}`, `{"value":"AACAPwAAAEA="}`), 0, ""},
		{Embed, embed, of(`{"value":[0.5,-1]}`, failure), 1, ""},
		{Embed, embed, of(failure, failure), 2, ""},
		{Embed, embed, `{"by":{"model":"m","server":"mac"},"outcomes":[` + failure + `,` + failure + `]}`, 2, ""},
		{Embed, embed, of(`{"value":[0.5,-1]}`), 0, "1 outcomes of 2"},
		{Embed, embed, of(failure, failure, failure), 0, "3 outcomes of 2"},
		{Embed, embed, of(`{"value":[0.5,-1]}`, `{"value":[0.5]}`), 0, "1 numbers after one of 2"},
		{Embed, embed, of(`{"value":[]}`, failure), 0, "empty vector"},
		{Embed, embed, of(`{"value":[1e999]}`, failure), 0, "item 0"},
		{Embed, embed, of(`{"value":"AADAfw=="}`, failure), 0, "not finite"},
		{Embed, embed, of(`{"value":"AAA="}`, failure), 0, "32-bit"},
		{Embed, embed, of(`{"value":null}`, failure), 0, "item 0"},
		{Embed, embed, of(`{}`, failure), 0, "item 0: must have"},
		{Embed, embed, of(failure, `{"value":[1],"error":{"code":"x","message":""}}`), 0, "item 1: must have"},
		{Embed, embed, of(`{"error":{"code":"","message":"x"}}`, failure), 0, "says nothing"},
		{Embed, embed, `[]`, 0, "JSON"},
		{Classify, labeled, of(`{"value":"good"}`, `{"value":"bad"}`), 0, ""},
		{Classify, labeled, of(`{"value":"good"}`, `{"value":"GOOD"}`), 0, "none of the labels"},
		{Generate, embed, of(`{"value":"text"}`, `{"value":{"a":1}}`), 0, ""},
		{Generate, embed, of(`{"value":null}`, failure), 0, "null"},
		{Summarize, `{}`, of(`{"value":{"title":"x"}}`, failure), 1, ""},
	} {
		failed, err := accept(c.kind, c.params, c.result)
		if failed != c.failed || (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s result %s = %d failed, %v, want %d and %q", c.kind, c.result, failed, err, c.failed, c.want)
		}
	}
	library := lease.Shard{Spec: lease.Spec{Need: lease.Need{Kind: Summarize}, Opens: 1, Range: lease.Range{To: 9}}}
	if _, err := (Planner{}).Accept(&lease.Job{Kind: Summarize, Params: []byte(`{}`)}, &library, []byte(of(failure)), nil); err == nil {
		t.Error("a shard of the library's kind with lines: accepted")
	}
	if fmt.Sprint(lists[Summarize].shard) == string(Summarize) {
		t.Error("texts and films are summarized by one kind of shard")
	}
}
