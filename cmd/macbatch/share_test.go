package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"macbatch/lease"
	"macbatch/summarize/model/ollamatest"
)

// present is "present WORKER": it was seen, after so many looks that it had the time.
func present(ts *testscript.TestScript, _ bool, args []string) {
	for range 500 {
		if ts.Exec("macbatch", "workers", "--json") == nil && strings.Contains(ts.ReadFile("stdout"), `"id":"`+args[0]+`"`) {
			return
		}
	}
	ts.Fatalf("worker %s does not come", args[0])
}

// digest is "digest FILE NAME": it keeps the beginning of the first digest in FILE.
func digest(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(`"digest":"([0-9a-f]{12})`).FindStringSubmatch(ts.ReadFile(args[0]))
	if found == nil {
		ts.Fatalf("%s tells no digest", args[0])
	}
	ts.Setenv(args[1], found[1])
}

// waits is "waits JOB PATTERN": what a job waits for matches.
func waits(ts *testscript.TestScript, _ bool, args []string) {
	_ = ts.Exec("macbatch", "status", args[0], "--json") // that it still runs is an exit code
	var j lease.Job
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &j))
	if !regexp.MustCompile(args[1]).MatchString(j.Waits) {
		ts.Fatalf("job %s waits: %q", args[0], j.Waits)
	}
}

// TestModelLoads: small jobs of two models in turns, on a server that has room for
// one, make it load each a few times, and not once for each job.
func TestModelLoads(t *testing.T) {
	s := ollamatest.Start(t, []string{"tiny-bert", "tiny-other"}, "OLLAMA_MAX_LOADED_MODELS=1")
	const jobs = 16
	testscript.Run(t, testscript.Params{
		Dir: "testdata/loads",
		Setup: func(e *testscript.Env) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close()
			e.Setenv("PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("MACBATCH_RUNTIME", "local=ollama:"+s.URL)
			for i := range jobs {
				line := fmt.Sprintf("{\"custom_id\":\"a\",\"input\":\"text %d\"}\n", i)
				if err := os.WriteFile(filepath.Join(e.WorkDir, fmt.Sprintf("%d.jsonl", i)), []byte(line), 0o600); err != nil {
					return err
				}
			}
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": wantCode, "reach": reach, "job": job,
			"alternate": func(ts *testscript.TestScript, _ bool, _ []string) {
				for i := range jobs {
					ts.Check(ts.Exec("macbatch", "submit", "embed", fmt.Sprintf("%d.jsonl", i), "--model", []string{"tiny-bert", "tiny-other"}[i%2]))
					ts.Setenv(fmt.Sprint("J", i), strings.TrimSpace(ts.ReadFile("stdout")))
				}
			},
			"finish": func(ts *testscript.TestScript, _ bool, _ []string) {
				for i := range jobs {
					ts.Check(ts.Exec("macbatch", "status", ts.Getenv(fmt.Sprint("J", i)), "--wait", "--timeout", "120s"))
				}
				loads := s.Loads(t)
				t.Logf("%d jobs of two models in turns: %d loads", jobs, loads)
				if loads < 2 || loads > 5 {
					ts.Fatalf("the server loaded models %d times for %d jobs of two in turns, want about 2", loads, jobs)
				}
			},
		},
	})
}
