package ollama

import (
	"errors"
	"strings"
	"testing"

	"macbatch/summarize/model"
)

// TestOldServerCuts: version 0.6.5 does not know the word "truncate" of generate: it cuts
// a prompt over its context and answers with 200 and a count below it (case L1).
func TestOldServerCuts(t *testing.T) {
	q := model.GenerateRequest{Model: "m", Messages: []model.Message{{Role: model.User, Text: strings.Repeat("the lease ", 1000)}}}
	r := serve(t, answers(200, `{"model":"tiny-chain","response":" A lease says who works, until when, and nothing more.","done":true,"done_reason":"stop","prompt_eval_count":501,"eval_count":11}`))
	if got, err := r.Generate(t.Context(), q); !errors.Is(err, model.ErrOverflow) {
		t.Errorf("Generate = %+v, %v, want %v", got, err, model.ErrOverflow)
	}
}
