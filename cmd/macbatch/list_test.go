package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"macbatch/summarize/model/ollamatest"
)

// TestListScripts runs list jobs as a user does, on a real Ollama and the real
// tesseract.
func TestListScripts(t *testing.T) {
	demand(t, "tesseract", "pdftoppm", "ffmpeg", "pocketsphinx_batch")
	server := ollamatest.Start(t, nil)
	other := ollamatest.Start(t, []string{"tiny-chain"})
	other.Create(t, "tiny-bert", ollamatest.Bert(9)) // the same name, another digest
	testscript.Run(t, testscript.Params{
		Dir: "testdata/list",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("OLLAMA", server.URL)
			e.Setenv("OTHER", other.URL)
			e.Setenv("MACBATCH_RUNTIME", "local=ollama:"+server.URL)
			return errors.Join(setPort(e), os.MkdirAll(e.WorkDir+"/home", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "reach": reach, "job": job, "same": same, "items": writeItems, "begun": begun,
			"present": present, "digest": digest, "waits": waits,
			"runners": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Logf("%d runners killed", server.KillRunners(t))
			}},
	})
}

// same is "same A B": the two environment variables are equal.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if a, b := ts.Getenv(args[0]), ts.Getenv(args[1]); (a == b) == neg {
		ts.Fatalf("%s is %q, %s is %q", args[0], a, args[1], b)
	}
}

// writeItems is "items N FILE": a list of N items.
func writeItems(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"custom_id\":\"item %d\",\"input\":\"number %d\"}\n", i, i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o600))
}

// begun is "begun JOB [N]": N of its items are done, or some, after so many looks that
// they had the time.
func begun(ts *testscript.TestScript, _ bool, args []string) {
	least := 1
	if len(args) > 1 {
		var err error
		least, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	items := regexp.MustCompile(`"items":\{"total":\d+,"done":(\d+)`)
	for range 2000 {
		_ = ts.Exec("macbatch", "status", "--json", args[0]) // its code tells only whether the job has ended
		if m := items.FindStringSubmatch(ts.ReadFile("stdout")); m != nil {
			if done, err := strconv.Atoi(m[1]); err == nil && done >= least {
				return
			}
		}
	}
	ts.Fatalf("job %s does not get on", args[0])
}
