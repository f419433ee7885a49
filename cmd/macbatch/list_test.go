package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"macbatch/summarize/model/ollamatest"
)

// TestListScripts runs list jobs as a user does, on a real Ollama and the real
// tesseract.
func TestListScripts(t *testing.T) {
	for _, p := range []string{"tesseract", "pdftoppm"} {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	server := ollamatest.Start(t, nil)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/list",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("OLLAMA", server.URL)
			e.Setenv("MACBATCH_RUNTIME", "local=ollama:"+server.URL)
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "reach": reach, "job": job, "same": same},
	})
}

// same is "same A B": the two environment variables are equal.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if a, b := ts.Getenv(args[0]), ts.Getenv(args[1]); (a == b) == neg {
		ts.Fatalf("%s is %q, %s is %q", args[0], a, args[1], b)
	}
}
