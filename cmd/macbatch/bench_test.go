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
// MACBATCH_BENCH_MODELS is the number of rounds. The models are tiny and answer in
// milliseconds: what macbatch costs weighs hundreds of times more than on real ones,
// most of all where answers are short.
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
	generate := func(model string, options map[string]any) func([]string) any {
		return func(texts []string) any {
			return map[string]any{"model": model, "prompt": texts[0], "truncate": false, "shift": false, "options": options}
		}
	}
	for _, b := range []modelBench{
		{"embed", "embed, 64 texts a request", "tiny-bert", 10_000, 64, nil, "/api/embed", func(texts []string) any {
			return map[string]any{"model": "tiny-bert", "input": texts, "truncate": false}
		}},
		{"generate", "generate, 100 tokens an answer", "tiny-loop", 600, 1, []string{"--max-tokens", "100"},
			"/api/generate", generate("tiny-loop", map[string]any{"temperature": 0, "num_predict": 100})},
		{"generate", "generate, 11 tokens an answer", "tiny-chain", 1200, 1, nil,
			"/api/generate", generate("tiny-chain", map[string]any{"temperature": 0})},
	} {
		b.run(t, bin, s.URL, rounds)
	}
}

// modelBench is a list job, and the requests that it comes to.
type modelBench struct {
	kind, name, model string
	items, together   int
	flags             []string
	path              string
	body              func(texts []string) any
}

func (b *modelBench) run(t *testing.T, bin, url string, rounds int) {
	t.Helper()
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
	bare := func(int) { loop(t, url+b.path, slices.Collect(slices.Chunk(texts, b.together)), b.body) }
	whole := func(round int) {
		c := exec.Command(bin, append([]string{"run", b.kind, in, "--model", b.model, "--data", filepath.Join(dir, fmt.Sprint("data", round)), "-o", filepath.Join(dir, fmt.Sprint("out", round))}, b.flags...)...)
		c.Env = append(os.Environ(), "MACBATCH_RUNTIME=local=ollama:"+url)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	loop(t, url+b.path, [][]string{texts[:b.together]}, b.body) // loads the model
	took := [2][]float64{}
	for round := range rounds {
		for i := range 2 {
			which := (i + round) % 2 // what drifts on the machine meets both alike
			began := time.Now()
			[]func(int){bare, whole}[which](round)
			took[which] = append(took[which], time.Since(began).Seconds())
		}
	}
	var ratios []float64
	for i := range rounds {
		ratios = append(ratios, took[0][i]/took[1][i])
	}
	slices.Sort(ratios)
	slices.Sort(took[0])
	slices.Sort(took[1])
	rate := func(i int) float64 { return float64(b.items) / took[i][rounds/2] }
	fmt.Fprintf(os.Stderr, "%-30s  %5d items: bare loop %7.1f/s, macbatch %7.1f/s, ratio %.3f (%.3f to %.3f)\n",
		b.name, b.items, rate(0), rate(1), ratios[rounds/2], ratios[0], ratios[rounds-1])
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
