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
		{Embed, `{"model":"minilm","together":64,"dimensions":16,"batch":true,"fresh":true}`, ""},
		{Embed, `{}`, "no model"},
		{Embed, `{"model":"minilm","together":-1}`, "-1 texts"},
		{Embed, `{"model":"minilm","digest":"../x"}`, "hexadecimal"},
		{Embed, `{"model":"minilm","tier":"a@b"}`, "tier"},
		{Embed, `{"model":"minilm","url":"http://169.254.169.254/"}`, "url"},
		{Embed, `{"model":"mini\nlm"}`, "control"},
		{Embed, ``, "JSON"},
		{Generate, `{"model":"smol","prompt":"{{text}}","seed":7,"max_tokens":100,"schema":{"type":"object"}}`, ""},
		{Generate, `{"model":"smol","temperature":-1}`, "temperature"},
		{Generate, `{"model":"smol","max_tokens":-1}`, "tokens"},
		{Generate, `{"model":"smol","prompt":"{{text"}`, "without its"},
		{Generate, `{"model":"smol","schema":[]}`, "object"},
		{Generate, `{"model":"smol","batch":true,"prompt":"x"}`, "of their own"},
		{Classify, `{"model":"smol","labels":["a","b"]}`, ""},
		{Classify, `{"model":"smol","labels":["a"]}`, "1 labels"},
		{Classify, `{"model":"smol","labels":["a","a"]}`, "twice"},
		{OCR, `{}`, ""},
		{OCR, `{"language":"eng; rm"}`, "language"},
		{OCR, `{"tier":"cloud"}`, "no model"},
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
	const pinned = `{"model":"a","digest":"0a"}`
	a := reuse(Embed, pinned)
	if a.IsZero() || a != reuse(Embed, pinned) || a == reuse(Embed, `{"model":"b","digest":"0a"}`) || a == reuse(OCR, pinned) {
		t.Error("the identity of work does not follow kind and parameters")
	}
	for _, params := range []string{`{"model":"a"}`, `{"model":"a","digest":"0a","fresh":true}`, `{"model":"a","digest":"0a","temperature":0.5}`, `{"model":"a","digest":"0a","batch":true}`} {
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
	const embed, batch, labeled = `{"model":"m"}`, `{"model":"m","batch":true}`, `{"model":"m","labels":["good","bad"]}`
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
		{Embed, embed, `{"by":{"model":"m","tier":"local","usage":{"input_tokens":3},"seconds":0.5},"outcomes":[` + failure + `,` + failure + `]}`, 2, ""},
		{Embed, embed, of(`{"value":[0.5,-1]}`), 0, "1 outcomes of 2"},
		{Embed, embed, of(failure, failure, failure), 0, "3 outcomes of 2"},
		{Embed, embed, of(`{"value":[0.5,-1]}`, `{"value":[0.5]}`), 0, "1 numbers after one of 2"},
		{Embed, embed, of(`{"value":[]}`, failure), 0, "of 0 numbers"},
		{Embed, embed, of(`{"value":[1e999]}`, failure), 0, "item 0"},
		{Embed, embed, of(`{"value":"AADAfw=="}`, failure), 0, "not finite"},
		{Embed, embed, of(`{"value":"AAA="}`, failure), 0, "32-bit"},
		{Embed, embed, of(`{"value":null}`, failure), 0, "item 0"},
		{Embed, embed, of(`{}`, failure), 0, "item 0: must have"},
		{Embed, embed, of(failure, `{"value":[1],"error":{"code":"x","message":""}}`), 0, "item 1: must have"},
		{Embed, embed, of(`{"error":{"code":"","message":"x"}}`, failure), 0, "says nothing"},
		{Embed, embed, `[]`, 0, "JSON"},
		{Classify, labeled, of(`{"value":{"label":"good"}}`, `{"value":{"label":"bad"}}`), 0, ""},
		{Classify, labeled, of(`{"value":{"label":"good"}}`, `{"value":{"label":"GOOD"}}`), 0, "none of the labels"},
		{Generate, embed, of(`{"value":{"text":"a"}}`, `{"value":{"text":"","finish":"stop"}}`), 0, ""},
		{Generate, embed, of(`{"value":{"a":1}}`, failure), 0, "/a"},
		{Generate, batch, of(`{"value":{"id":"x","choices":[]}}`, failure), 1, ""},
		{Generate, batch, of(`{"value":"x"}`, failure), 0, "body"},
		{Embed, batch, of(`{"value":{"data":[{"embedding":[1,2]}],"x":1}}`, `{"value":{"data":[{"embedding":[1]},{"embedding":"AACAPw=="}]}}`), 0, ""},
		{Embed, batch, of(`{"value":{"data":[{"embedding":[]}]}}`, failure), 0, "empty vector"},
		{Embed, batch, of(`{"value":{"data":[]}}`, failure), 0, "without a vector"},
		{Embed, `{"model":"m","dimensions":3}`, of(`{"value":[1,2]}`, failure), 0, "of 2 numbers"},
		{Generate, embed, of(`{"value":null}`, failure), 0, "object"},
		{Summarize, `{}`, of(`{"value":{"title":"x","summary":"y","keywords":[],"extractive":true}}`, failure), 1, ""},
		{Summarize, `{}`, of(`{"value":{"title":"x"}}`, failure), 0, "empty summary"},
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
