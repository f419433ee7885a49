package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// roleVar holds a role, as JSON, in the environment of a child.
const roleVar = "MACBATCH_LOAD_ROLE"

// role is what a child process does.
type role struct {
	Name string // control, work, submit, beat

	// control
	Dir   string        `json:",omitzero"` // the store's folder
	Delay time.Duration `json:",omitzero"` // added to each sync
	Pprof string        `json:",omitzero"` // file for a CPU profile

	// the others
	URL, Token string `json:",omitzero"`
	Worker     int    `json:",omitzero"`
	Batch      int    `json:",omitzero"` // shards in a claim, or in a job
	Quota      int    `json:",omitzero"` // shards to finish or to submit; work: 0 means until dry
	Classes    int    `json:",omitzero"`
}

func TestMain(m *testing.M) {
	text, child := os.LookupEnv(roleVar)
	if !child {
		os.Exit(m.Run())
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		switch r.Name {
		case "control":
			err = serve(r)
		case "work":
			err = work(r)
		case "submit":
			err = submit(r)
		case "beat":
			err = beat(r)
		default:
			err = fmt.Errorf("role %q is not known", r.Name)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", r.Name, err)
		os.Exit(1)
	}
}

var stdin = bufio.NewReader(os.Stdin)

// ready tells the parent and waits for its word.
func ready() {
	fmt.Println("ready")
	stdin.ReadString('\n') //nolint:errcheck // its end is a word too
}

// child is a process of this binary.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs a role. The child is killed at the end of the test, if it still runs.
func start(t testing.TB, r role) *child {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), roleVar+"="+string(text))
	if r.Name == "work" || r.Name == "submit" {
		c.Env = append(c.Env, "GOMAXPROCS=2")
	}
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{c, in, bufio.NewReaderSize(out, 1<<20)}
}

// line reads what the child says.
func (c *child) line(t testing.TB) string {
	t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	return strings.TrimSpace(s)
}

// say writes a line to the child.
func (c *child) say(t testing.TB, s string) {
	t.Helper()
	if _, err := io.WriteString(c.in, s+"\n"); err != nil {
		t.Fatalf("child: %v", err)
	}
}
