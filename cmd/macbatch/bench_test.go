package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"macbatch/summarize/model/ollamatest"
)

// TestBenchModels times list jobs against a bare loop of the same requests, as many
// at a time, on one real server, in turns. It is what "scripts/bench models" runs:
// MACBATCH_BENCH_MODELS is the number of rounds.
func TestBenchModels(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("MACBATCH_BENCH_MODELS"))
	if err != nil {
		t.Skip("a benchmark: scripts/bench models")
	}
	bin, err := exec.LookPath("macbatch")
	if err != nil {
		t.Fatal(err)
	}
	s := ollamatest.Start(t, nil, "OLLAMA_NUM_PARALLEL="+strconv.Itoa(runtime.NumCPU()))
	for _, b := range []struct {
		kind, model     string
		items, together int
		path            string
		body            func(texts []string) any
	}{
		{"embed", "tiny-bert", 20_000, 64, "/api/embed", func(texts []string) any {
			return map[string]any{"model": "tiny-bert", "input": texts, "truncate": false}
		}},
		{"generate", "tiny-chain", 3000, 1, "/api/generate", func(texts []string) any {
			return map[string]any{"model": "tiny-chain", "prompt": texts[0], "truncate": false, "shift": false, "options": map[string]any{"temperature": 0}}
		}},
	} {
		dir := t.TempDir()
		texts := make([]string, b.items)
		var lines bytes.Buffer
		for i := range texts {
			texts[i] = fmt.Sprintf("who works on number %d until when", i)
			fmt.Fprintf(&lines, "{\"custom_id\":\"%d\",\"input\":\"%s\"}\n", i, texts[i])
		}
		in := filepath.Join(dir, "in.jsonl")
		if err := os.WriteFile(in, lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		var bare, whole []float64
		for round := range rounds + 1 { // the first one loads the model
			began := time.Now()
			loop(t, s.URL+b.path, slices.Collect(slices.Chunk(texts, b.together)), b.body)
			one := time.Since(began).Seconds()
			began = time.Now()
			c := exec.Command(bin, "run", b.kind, in, "--model", b.model, "--data", filepath.Join(dir, fmt.Sprint("data", round)), "-o", filepath.Join(dir, fmt.Sprint("out", round)))
			c.Env = append(os.Environ(), "MACBATCH_RUNTIME=local=ollama:"+s.URL)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			two := time.Since(began).Seconds()
			if round > 0 {
				bare, whole = append(bare, one), append(whole, two)
			}
		}
		slices.Sort(bare)
		slices.Sort(whole)
		x, y := bare[len(bare)/2], whole[len(whole)/2]
		fmt.Fprintf(os.Stderr, "%-8s %6d items: bare loop %7.1f/s, macbatch %7.1f/s, ratio %.3f\n", b.kind, b.items, float64(b.items)/x, float64(b.items)/y, x/y)
	}
}

// loop makes the requests with as many clients as macbatch has workers.
func loop(t *testing.T, url string, chunks [][]string, body func([]string) any) {
	t.Helper()
	next := make(chan []string)
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for texts := range next {
				b, err := json.Marshal(body(texts))
				if err != nil {
					t.Error(err)
					continue
				}
				r, err := http.Post(url, "application/json", bytes.NewReader(b))
				if err != nil {
					t.Error(err)
					continue
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 200 {
					t.Errorf("%d, %v", r.StatusCode, err)
				}
				_ = r.Body.Close()
			}
		})
	}
	for _, c := range chunks {
		next <- c
	}
	close(next)
	all.Wait()
}
