package child

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func sh(script string) Command { return Command{Path: "/bin/sh", Args: []string{"-c", script}} }

// gone waits for the process to be gone: a killed orphan stays until init reaps it.
func gone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || dead(pid) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// dead reports whether /proc shows the process as a zombie.
func dead(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && bytes.Contains(b, []byte(") Z "))
}

// firstLine calls f with the first line written to it.
type firstLine struct {
	buf bytes.Buffer
	f   func(string)
}

func (l *firstLine) Write(p []byte) (int, error) {
	l.buf.Write(p)
	if line, _, ok := strings.Cut(l.buf.String(), "\n"); ok && l.f != nil {
		l.f(line)
		l.f = nil
	}
	return len(p), nil
}

func TestRunGroupDies(t *testing.T) {
	for name, script := range map[string]string{
		"grandchild":                      "sleep 600 & echo $!; wait",
		"grandchild that ignores SIGTERM": "(trap '' TERM; while :; do sleep 600; done) & echo $!; trap '' TERM; while :; do sleep 600; done",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause, pid := errors.New("lease lost"), 0
		c := sh(script)
		c.Grace = 200 * time.Millisecond
		c.Out = &firstLine{f: func(l string) {
			pid, _ = strconv.Atoi(l)
			cancel(cause)
		}}
		if _, err := Run(ctx, c); !errors.Is(err, cause) {
			t.Fatalf("%s: Run = %v, want the cause", name, err)
		}
		if pid == 0 {
			t.Fatalf("%s: no pid was told", name)
		}
		gone(t, pid)
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	var out bytes.Buffer
	c := sh("sleep 600 >/dev/null 2>&1 & echo $!")
	c.Out = &out
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}

func TestRunStall(t *testing.T) {
	c := sh("echo on; sleep 600")
	c.Stall, c.Grace = 300*time.Millisecond, 100*time.Millisecond
	if _, err := Run(t.Context(), c); !errors.Is(err, ErrStalled) {
		t.Fatalf("Run = %v, want ErrStalled", err)
	}
}

func TestRunMuchStderr(t *testing.T) {
	stderr, err := Run(t.Context(), sh("head -c 10000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2"))
	if err != nil || len(stderr) > tailBytes || !strings.HasSuffix(stderr, "x\nthe end\n") {
		t.Fatalf("Run = %d bytes, %v, want the last %d", len(stderr), err, tailBytes)
	}
}

func TestRunStatus(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"exit 3", "sh: exit status 3"},
		{"echo bad >&2; printf 'wo\\033rse\\n\\n' >&2; exit 1", "sh: exit status 1: bad; worse"},
		{"kill -9 $$", "sh: signal: killed"},
	} {
		_, err := Run(t.Context(), sh(c.script))
		var exit *ExitError
		if !errors.As(err, &exit) || err.Error() != c.want {
			t.Fatalf("Run(%q) = %v, want %q", c.script, err, c.want)
		}
	}
	if _, err := Run(t.Context(), Command{Path: "/nonexistent/program"}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("Run of no program = %v", err)
	}
}

func TestRunSurroundings(t *testing.T) {
	t.Setenv("MACBATCH_SECRET", "x")
	var out bytes.Buffer
	c := sh("env | grep -c SECRET; pwd; cat; echo $GIVEN")
	c.Out, c.Env = &out, []string{"GIVEN=yes"}
	if _, err := Run(t.Context(), c); err != nil || out.String() != "0\n/\nyes\n" {
		t.Fatalf("Run printed %q, %v, want no secret, the root folder and an empty input", out.String(), err)
	}
}
