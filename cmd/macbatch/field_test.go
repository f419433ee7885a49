package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// echo is a server of OpenAI's calls that answers everything, and remembers what it
// was asked.
type echo struct {
	mu     sync.Mutex
	bodies []string
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer any
	switch r.URL.Path {
	case "/v1/models":
		answer = map[string]any{"data": []any{map[string]string{"id": "m"}}}
	case "/v1/embeddings":
		answer = map[string]any{"object": "list", "data": vectors(b)}
	default:
		answer = map[string]any{"object": "chat.completion", "choices": []any{map[string]any{
			"message": map[string]string{"role": "assistant", "content": "ok"}, "finish_reason": "stop",
		}}}
	}
	if r.Method == http.MethodPost {
		e.mu.Lock()
		e.bodies = append(e.bodies, string(b))
		e.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(answer) // who left does not want it
}

// vectors are one for each text of a request.
func vectors(body []byte) []any {
	var q struct {
		Input json.RawMessage `json:"input"`
	}
	var texts []json.RawMessage
	if json.Unmarshal(body, &q) != nil || json.Unmarshal(q.Input, &texts) != nil {
		texts = []json.RawMessage{q.Input}
	}
	all := make([]any, len(texts))
	for i := range texts {
		all[i] = map[string]any{"object": "embedding", "index": i, "embedding": []int{1, 2}}
	}
	return all
}

// TestFieldFiles takes each file of the table through a whole job. It comes to the
// answers that it should, with the ids it has, or is refused with its name and its
// lines and nothing is queued.
func TestFieldFiles(t *testing.T) {
	server := &echo{}
	ts := httptest.NewServer(server)
	t.Cleanup(ts.Close)
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("MACBATCH_RUNTIME", "local=openai:"+ts.URL)
	t.Chdir(dir)
	files := fieldFiles()
	if len(files) < 60 {
		t.Errorf("%d files, want 60 at least", len(files))
	}
	for i, f := range files {
		t.Run(f.name, func(t *testing.T) {
			file := f.file
			if file == "" {
				file = "in.jsonl"
			}
			kind := f.kind
			if kind == "" {
				kind = "embed"
			}
			if err := os.WriteFile(file, []byte(f.bytes), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(file) })
			out := fmt.Sprint("out", i)
			var stdout, stderr bytes.Buffer
			args := []string{"macbatch", "run", kind, file, "-o", out, "--data", "data"}
			if !strings.Contains(f.bytes, `"method"`) {
				args = append(args, "--model", "m")
			}
			code := run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
			if len(f.refused) > 0 {
				for _, want := range f.refused {
					if !strings.Contains(stderr.String(), file+want) {
						t.Errorf("stderr lacks %q:\n%.2000s", file+want, stderr.String())
					}
				}
				if _, err := os.Stat(out); code != exitUsage || err == nil {
					t.Errorf("exit code %d, want %d and no output", code, exitUsage)
				}
				return
			}
			if code != exitDone {
				t.Fatalf("exit code %d:\n%.2000s", code, stderr.String())
			}
			if got := idsOf(t, filepath.Join(out, "output.jsonl")); !slices.Equal(got, f.ids) {
				t.Errorf("ids %.300q, want %.300q", got, f.ids)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			for _, body := range f.passed {
				if !slices.Contains(server.bodies, body) {
					t.Errorf("the server was never sent %.300s", body)
				}
			}
			server.bodies = nil
		})
	}
}

func idsOf(t *testing.T, path string) (ids []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var l struct {
			ID string `json:"custom_id"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ids = append(ids, l.ID)
	}
	return ids
}
