package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBenchLines submits a list to a control plane over HTTP, as plain items and as
// lines of the Batch API, cancels it and gathers what it came to, which is an error
// for each line. It prints wall times and peaks of memory of each process, and is
// what "scripts/bench lines" runs: MACBATCH_BENCH_LINES is the number of lines.
func TestBenchLines(t *testing.T) {
	lines, err := strconv.Atoi(os.Getenv("MACBATCH_BENCH_LINES"))
	if err != nil {
		t.Skip("a benchmark: scripts/bench lines")
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	macbatch := func(args ...string) *exec.Cmd {
		c := exec.Command("macbatch", args...)
		c.Env = append(os.Environ(), "HOME="+dir, "MACBATCH_CONTROL=http://"+addr, "MACBATCH_TOKEN_FILE="+filepath.Join(dir, "d/admin.token"))
		return c
	}
	control := macbatch("control", "--data", filepath.Join(dir, "d"), "--listen", addr)
	if err := control.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if control.ProcessState == nil {
			_ = control.Process.Signal(syscall.SIGTERM)
			_ = control.Wait()
		}
	}
	t.Cleanup(stop)
	for tries := 0; macbatch("jobs").Run() != nil; tries++ { // each is a process, which takes time enough
		if tries == 500 {
			t.Fatal("the control plane does not answer")
		}
	}
	for name, line := range map[string]string{
		"plain": `{"custom_id":"item-%d","input":"text number %d of a rather large input that somebody wants embedded"}`,
		"batch": `{"custom_id":"request-%d","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":"text number %d of a rather large input","encoding_format":"float"}}`,
	} {
		in := filepath.Join(dir, name+".jsonl")
		writeLines(t, in, line, lines)
		id := strings.TrimSpace(timed(t, name+" submitted", macbatch("submit", "embed", in, "--model", "m"), 0))
		timed(t, name+" canceled", macbatch("cancel", id), 0)
		timed(t, name+" gathered", macbatch("gather", id, "-o", filepath.Join(dir, name)), 1)
	}
	stop()
	fmt.Fprintf(os.Stderr, "%-18s  %18d MB\n", "control plane", peak(control.ProcessState))
}

// writeLines writes n lines with their numbers in them.
func writeLines(t *testing.T, path, line string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, line+"\n", i, i)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// timed runs a command that must exit with code, prints what it took and returns
// what it printed.
func timed(t *testing.T, name string, c *exec.Cmd, code int) string {
	t.Helper()
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	began := time.Now()
	if err := c.Run(); c.ProcessState == nil || c.ProcessState.ExitCode() != code {
		t.Fatalf("%s: %v: %s", name, err, problems.Bytes())
	}
	fmt.Fprintf(os.Stderr, "%-18s  %8.2f s  %6d MB\n", name, time.Since(began).Seconds(), peak(c.ProcessState))
	return out.String()
}

// peak is the most memory that a process took, in MB.
func peak(s *os.ProcessState) int64 {
	use, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" { // which counts bytes
		return use.Maxrss >> 20
	}
	return use.Maxrss >> 10
}
