package pipeline

import (
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/item"
)

func TestLineCheck(t *testing.T) {
	batch := func(url, body string) string {
		return `{"custom_id":"a","method":"POST","url":"` + url + `","body":` + body + `}`
	}
	for _, c := range []struct {
		kind lease.Kind
		line string
		want string // what the error says; "": none
	}{
		{Embed, `{"custom_id":"a","input":"x"}`, ""},
		{Embed, `{"custom_id":"a","input":"  \n"}`, "empty"},
		{Embed, `{"custom_id":"a","image":"x"}`, "no text"},
		{Embed, batch(EmbeddingsURL, `{"model":"m","input":"x"}`), ""},
		{Embed, batch(EmbeddingsURL, `{"model":"m","input":["x","y"]}`), ""},
		{Embed, batch(EmbeddingsURL, `{"model":"m","input":[]}`), "input is missing"},
		{Embed, batch(EmbeddingsURL, `{"model":"other","input":"x"}`), `model "other"`},
		{Embed, batch(EmbeddingsURL, `{"input":"x"}`), "model is missing"},
		{Embed, batch(ChatURL, `{"model":"m","messages":[{}]}`), "embed takes"},
		{Embed, batch("http://evil.example.com/v1/embeddings", `{"model":"m","input":"x"}`), "embed takes"},
		{Generate, `{"custom_id":"a","prompt":"x"}`, ""},
		{Generate, `{"custom_id":"a","prompt":"x","image":"http://example.com/x.png"}`, "data URL"},
		{Generate, `{"custom_id":"a","prompt":"x","images":["data:image/png;base64,AAAA"]}`, ""},
		{Generate, batch(ChatURL, `{"model":"m","messages":[{"role":"user","content":"x"}]}`), ""},
		{Generate, batch(ChatURL, `{"model":"m","messages":[{}],"stream":true}`), "stream"},
		{Generate, batch(ChatURL, `{"model":"m"}`), "messages is missing"},
		{Generate, batch(CompletionsURL, `{"model":"m","prompt":"x"}`), ""},
		{Generate, batch(ResponsesURL, `{"model":"m","input":"x"}`), ""},
		{Classify, `{"custom_id":"a","text":"x"}`, ""},
		{Classify, batch(ChatURL, `{"model":"m","messages":[{}]}`), "no batch lines"},
		{OCR, `{"custom_id":"a","image":"data:image/png;base64,AAAA"}`, ""},
		{OCR, `{"custom_id":"a","document":"data:application/pdf;base64,AAAA"}`, ""},
		{OCR, `{"custom_id":"a","image":"/etc/passwd"}`, "data URL"},
		{OCR, `{"custom_id":"a","image":"data:image/png;base64,%%%%"}`, "base64"},
		{OCR, `{"custom_id":"a","image":"data:image/png;base64,"}`, "empty"},
		{OCR, `{"custom_id":"a"}`, "no \"image\""},
		{Summarize, `{"custom_id":"a","input":"x"}`, ""},
	} {
		it, err := item.Parse([]byte(c.line))
		if err != nil {
			t.Fatal(err)
		}
		check := LineCheck{Kind: c.kind, Model: "m"}
		if err = check.Check(it); (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s = %v, want %q", c.kind, c.line, err, c.want)
		}
	}
	first := LineCheck{Kind: Generate}
	it, _ := item.Parse([]byte(batch(ChatURL, `{"model":"m","messages":[{}]}`)))
	if err := first.Check(it); err != nil || first.Model != "m" {
		t.Errorf("model taken from a line: %q, %v", first.Model, err)
	}
	it, _ = item.Parse([]byte(batch(CompletionsURL, `{"model":"m","prompt":"x"}`)))
	if err := first.Check(it); err == nil || !strings.Contains(err.Error(), "the lines before") {
		t.Errorf("another call in one input = %v", err)
	}
}

func TestFill(t *testing.T) {
	it, err := item.Parse([]byte(`{"custom_id":"a","name":"Ann \"A\"","n":7,"list":[1,2],"none":null}`))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"":                         "",
		"plain":                    "plain",
		"{{name}} is {{ n }}":      `Ann "A" is 7`,
		"{{list}}{{none}}":         "[1,2]null",
		"{ {name} } }}":            "{ {name} } }}",
		"{{custom_id}}":            "! is missing",
		"{{nope}}":                 "! is missing",
		"{{name":                   "! without its",
		"{{name}} {{{{name}}}}":    "! is missing",
		"no second look: {{name}}": `no second look: Ann "A"`,
	} {
		got, err := Fill(in, it)
		if bad, ok := strings.CutPrefix(want, "! "); ok && (err == nil || !strings.Contains(err.Error(), bad)) || !ok && (err != nil || got != want) {
			t.Errorf("Fill(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestNeedsMeetOffers(t *testing.T) {
	offers := strings.Join(Offers("m", strings.Repeat("ab", 32), "local"), " ") + " "
	for _, p := range []ModelParams{{Model: "m"}, {Model: "m", Tier: "local"}, {Model: "m", Digest: strings.Repeat("ab", 32)}, {Model: "m", Digest: strings.Repeat("ab", 32), Tier: "local"}} {
		if !strings.Contains(offers, p.Need()+" ") {
			t.Errorf("%+v needs %q, offered are %s", p, p.Need(), offers)
		}
	}
	for _, p := range []ModelParams{{Model: "n"}, {Model: "m", Tier: "cloud"}, {Model: "m", Digest: strings.Repeat("cd", 32)}} {
		if strings.Contains(offers, p.Need()+" ") {
			t.Errorf("%+v needs %q, which must not be offered: %s", p, p.Need(), offers)
		}
	}
}
