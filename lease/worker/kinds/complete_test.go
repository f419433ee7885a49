package kinds

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"macbatch/lease/pipeline"
	"macbatch/summarize/model"
)

// TestOtherCalls: the calls of batch lines beside chat are answered by runtimes of
// another protocol, in their own shapes; what can't be is refused.
func TestOtherCalls(t *testing.T) {
	var asked []model.GenerateRequest
	s := &script{generate: func(q model.GenerateRequest) (string, error) {
		asked = append(asked, q)
		return "yes", nil
	}}
	s.usage = model.Usage{InputTokens: 3, OutputTokens: 1}
	line := func(url, body string) string {
		b, _ := json.Marshal(map[string]any{"custom_id": "a", "method": "POST", "url": url, "body": json.RawMessage(body)}) // it always encodes
		return string(b)
	}
	r, err := work(t, scripted(s), pipeline.Generate, `{"model":"m","batch":true}`,
		line(pipeline.CompletionsURL, `{"model":"m","prompt":"who?","max_tokens":9,"stop":["."]}`),
		line(pipeline.CompletionsURL, `{"model":"m","prompt":["who?"]}`),
		line(pipeline.CompletionsURL, `{"model":"m","prompt":["a","b"]}`),
		line(pipeline.CompletionsURL, `{"model":"m","prompt":"a","logprobs":5}`),
		line(pipeline.ResponsesURL, `{"model":"m","input":"who?","instructions":"be short","max_output_tokens":4}`),
		line(pipeline.ResponsesURL, `{"model":"m","input":[{"role":"user","content":"who?"}]}`),
		line(pipeline.ResponsesURL, `{"model":"m","input":"a","tools":[]}`),
	)
	want := []string{"", "", codeUnsupported, codeUnsupported, "", "", codeUnsupported}
	if err != nil || !slices.Equal(codes(r), want) {
		t.Fatalf("outcomes %v, %v, want %v", codes(r), err, want)
	}
	for i, part := range map[int]string{0: `"text":"yes"`, 1: `"object":"text_completion"`, 4: `"type":"output_text"`, 5: `"input_tokens":3`} {
		if v := string(r.Outcomes[i].Value); !strings.Contains(v, part) {
			t.Errorf("line %d is answered with %s, want %s in it", i, v, part)
		}
	}
	if len(asked) != 4 || asked[0].MaxTokens != 9 || asked[1].MaxTokens != 16 || asked[2].Messages[0].Role != model.System || asked[2].MaxTokens != 4 {
		t.Errorf("asked %+v", asked)
	}
	if u := r.By.Usage; u.InputTokens != 12 || u.OutputTokens != 4 {
		t.Errorf("usage %+v, want that of four requests", u)
	}
}
