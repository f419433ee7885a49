package openai

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"macbatch/summarize/model"
)

// TestSilentCut: servers that cut what is too long say 200; their count of tokens
// tells (case L1).
func TestSilentCut(t *testing.T) {
	long := strings.Repeat("the lease ", 1000)
	for count, cut := range map[int]bool{0: false, 512: true, 2100: false} {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/embeddings" {
				fmt.Fprintf(w, `{"data":[{"index":0,"embedding":[1,2]}],"usage":{"prompt_tokens":%d}}`, count) //nolint:errcheck // the client tells
				return
			}
			fmt.Fprintf(w, `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":1}}`, count) //nolint:errcheck // the client tells
		}))
		r := New(model.Server{URL: ts.URL, HTTP: ts.Client()})
		_, err1 := r.Generate(t.Context(), say("m", long))
		_, err2 := r.Embed(t.Context(), model.EmbedRequest{Model: "m", Input: []string{long}})
		ts.Close()
		for _, err := range []error{err1, err2} {
			if errors.Is(err, model.ErrOverflow) != cut || err != nil && !cut {
				t.Errorf("a prompt of 2000 words counted as %d tokens: %v, want cut %v", count, err, cut)
			}
		}
	}
}
