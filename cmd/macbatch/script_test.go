package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"macbatch": main})
}

// demand skips a test whose programs are missing; in CI that is a failure.
func demand(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			absent(t, err)
		}
	}
}

func absent(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// TestScripts runs the command as a user does: a file per behaviour, with the
// real ffmpeg and the real recogniser.
func TestScripts(t *testing.T) {
	demand(t, "ffmpeg", "ffprobe", "pocketsphinx_batch")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			bin, err := exec.LookPath("macbatch")
			e.Setenv("MACBATCH", bin)
			e.Setenv("HOME", e.WorkDir+"/home")
			return errors.Join(err, setPort(e), os.MkdirAll(e.WorkDir+"/home", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "reach": reach, "job": job, "leave": leave, "drained": drained, "until": until, "speechserver": speechServer},
	})
}

// wantCode is "code N command...": the command exits with N.
func wantCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// reach is "reach": the control plane answers, after so many tries that it had
// the time to start.
func reach(ts *testscript.TestScript, _ bool, _ []string) {
	for range 500 {
		if ts.Exec("macbatch", "jobs") == nil {
			return
		}
	}
	ts.Fatalf("the control plane does not answer")
}

// job is "job NAME": the last command printed a job's id alone; keep it.
func job(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// until is "until macbatch ARGS... PATTERN": what the command prints comes to match.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: until command args... pattern")
	}
	last := len(args) - 1
	pattern, err := regexp.Compile(args[last])
	ts.Check(err)
	for range 2000 { // each is a process, which takes time enough
		if ts.Exec(args[0], args[1:last]...) == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%q never printed", args[last])
}
