package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"macbatch/lease"
)

// paidServer counts what it would bill: a completion is 10 tokens in and 5 out.
type paidServer struct {
	*httptest.Server
	calls atomic.Int32
	hang  atomic.Bool   // do not answer the next one
	came  chan struct{} // it arrived
}

func newPaidServer(t *testing.T) *paidServer {
	t.Helper()
	s := &paidServer{came: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s.calls.Add(1)
		if s.hang.CompareAndSwap(true, false) {
			s.came <- struct{}{}
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"choices":[{"message":{"content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// list writes an input of n items.
func list10(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"%d\",\"input\":\"x\"}\n", i)
	}
	name := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestPaidKill kills a run between its paid request and the answer: nothing is sent
// again until somebody says so.
func TestPaidKill(t *testing.T) {
	server := newPaidServer(t)
	dir, in := t.TempDir(), list10(t, 1)
	run := func(flags ...string) *exec.Cmd {
		c := exec.Command("macbatch", append([]string{
			"run", "generate", in, "--model", "m", "--tier", "cloud", "--max-tokens", "50", "-o", filepath.Join(dir, "out"), "--data", filepath.Join(dir, "data"),
			"--runtime", "cloud=openai:" + server.URL + ",paid,in=1000,out=1000",
		}, flags...)...)
		c.Env = append(os.Environ(), "HOME="+dir)
		return c
	}
	server.hang.Store(true)
	first := run()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	<-server.came
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	for range 2 {
		if out, err := run().CombinedOutput(); err == nil || !strings.Contains(string(out), "outcome of a paid request is unknown") || server.calls.Load() != 1 {
			t.Fatalf("run after the kill: %v, %d paid requests, want one\n%s", err, server.calls.Load(), out)
		}
	}
	out, err := run("--resend").CombinedOutput()
	if err != nil || server.calls.Load() != 2 {
		t.Fatalf("run --resend: %v, %d paid requests, want two\n%s", err, server.calls.Load(), out)
	}
}

// TestMaxCost: many shards at once of one job never spend more than its limit.
func TestMaxCost(t *testing.T) {
	server := newPaidServer(t)
	dir, in := t.TempDir(), list10(t, 200)
	// A request costs 15 thousandths of a dollar, and 115 at most.
	const each, limit = 15 * lease.Dollar / 1000, lease.Dollar
	c := exec.Command("macbatch", "run", "generate", in, "--model", "m", "--tier", "cloud", "--max-tokens", "50", "-o", filepath.Join(dir, "out"),
		"--data", filepath.Join(dir, "data"), "--parallel", "4", "--max-cost", "1", "--runtime", "cloud=openai:"+server.URL+",paid,in=1000,out=1000,parallel=8")
	c.Env = append(os.Environ(), "HOME="+dir)
	out, err := c.CombinedOutput()
	n := server.calls.Load()
	if spent := lease.Cost(n) * each; err == nil || c.ProcessState.ExitCode() != exitPartial || spent > limit || n < 50 {
		t.Fatalf("run: %v, %d paid requests of %v, limit %v\n%s", err, n, each, limit, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out", "output.jsonl"))
	if err != nil || strings.Count(string(b), "\n") != int(n) {
		t.Errorf("%d answers were paid, and %d kept, %v", n, strings.Count(string(b), "\n"), err)
	}
	var line struct {
		Output struct {
			Usage struct {
				Cost lease.Cost `json:"cost_nusd"`
			} `json:"usage"`
		} `json:"output"`
	}
	first, _, _ := strings.Cut(string(b), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Output.Usage.Cost != each {
		t.Errorf("line %s, want its cost of %v", first, each)
	}
}
