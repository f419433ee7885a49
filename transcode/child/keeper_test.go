package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets this test's binary be a process that keeps children.
func TestMain(m *testing.M) {
	if dir := os.Getenv("KEEPER_TEST_DIR"); dir != "" {
		k, _, err := Keep(dir)
		if err != nil {
			panic(err)
		}
		_, err = Run(With(context.Background(), k), Command{Path: "/bin/sh", Args: []string{"-c", os.Getenv("KEEPER_TEST_SCRIPT")}, Out: os.Stdout})
		panic(fmt.Sprint("the child ended: ", err))
	}
	os.Exit(m.Run())
}

// killed runs a script as the child of a process, kills that one, and returns the
// process ids that the script told of, as many as wanted.
func killed(t *testing.T, dir, script string, want int) (pids []int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe)
	parent.Env = append(os.Environ(), "KEEPER_TEST_DIR="+dir, "KEEPER_TEST_SCRIPT="+script)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); len(pids) < want && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	if len(pids) < want {
		t.Fatalf("%d processes told of, want %d", len(pids), want)
	}
	return pids
}

// What outlives a killed process ends at the start of the next: its child, that
// one's children, also one in a session of its own, whether or not they heed SIGTERM.
func TestKeepEndsLeftovers(t *testing.T) {
	dir := t.TempDir()
	script := "trap '' TERM; sleep 600 & echo $!; (trap '' TERM; while :; do sleep 600; done) & echo $!; "
	want := 2
	if setsid, err := exec.LookPath("setsid"); err == nil {
		script += setsid + " sh -c 'echo $$; exec sleep 600' & "
		want++
	}
	pids := killed(t, dir, script+"wait", want)
	alive := 0
	for _, pid := range pids {
		if _, err := look(pid); err == nil {
			alive++
		}
	}
	if alive == 0 {
		t.Fatal("nothing outlived the kill: the test shows nothing")
	}
	_, ended, err := Keep(dir)
	if err != nil || ended < alive {
		t.Fatalf("Keep ended %d processes, %v, want at least %d", ended, err, alive)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("left in the folder: %v, %v, want the new mark alone", files, err)
	}
	if _, ended, err := Keep(dir); err != nil || ended != 0 {
		t.Fatalf("Keep again ended %d, %v, want nothing", ended, err)
	}
}

// innocent starts a process that nobody recorded.
func innocent(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // whatever became of it
		_ = c.Wait()
	})
	return c
}

func writeRecord(t *testing.T, dir string, r record) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(r.PID)), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Somebody else's process that has the number of one that was left is spared: all
// of the record must agree. One of which all agrees is ended by it alone.
func TestKeepSparesTheInnocent(t *testing.T) {
	for name, change := range map[string]func(*record){
		"started at another time": func(r *record) { r.Start = "1" + r.Start },
		"another program":         func(r *record) { r.Program += "x" },
		"torn record":             nil,
		"itself":                  func(*record) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, _, err := Keep(dir); err != nil {
				t.Fatal(err)
			}
			p := innocent(t)
			r, err := look(p.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			if change != nil {
				before := r
				if change(&r); r == before {
					want = 1
				}
				writeRecord(t, dir, r)
			} else if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(r.PID)), []byte(`{"pid":`), 0o600); err != nil {
				t.Fatal(err)
			}
			// The parent has to reap it, or it would stay for ever.
			reaped := make(chan struct{})
			if want == 1 {
				go func() {
					_ = p.Wait() // killed
					close(reaped)
				}()
			}
			_, ended, err := Keep(dir)
			if err != nil || ended != want {
				t.Fatalf("Keep ended %d, %v, want %d", ended, err, want)
			}
			if want == 1 {
				<-reaped
				return
			}
			if _, err := look(p.Process.Pid); err != nil {
				t.Fatalf("the innocent process is gone: %v", err)
			}
		})
	}
}

// A copy of a folder ends nothing of the one it was copied from.
func TestKeepOfACopy(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	k, _, err := Keep(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := innocent(t)
	gone := k.note(p.Process.Pid)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("kept %v, %v, want a mark and a record", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(other, f.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, ended, err := Keep(other); err != nil || ended != 0 {
		t.Fatalf("Keep of a copy ended %d, %v, want nothing", ended, err)
	}
	if _, err := look(p.Process.Pid); err != nil {
		t.Fatal(err)
	}
	gone()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Fatalf("after its end the folder has %v, %v", files, err)
	}
}

// A child is recorded while it runs, and marked.
func TestRunIsKept(t *testing.T) {
	dir := t.TempDir()
	k, _, err := Keep(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }() // only read
	kept := make(chan []record, 1)
	go func() {
		// The child waits for the end of its input, which comes once it is recorded.
		var list []record
		for range 100000 {
			if list, _ = k.records(); len(list) > 0 {
				break
			}
		}
		kept <- list
		_ = w.Close() // written nothing
	}()
	var out strings.Builder
	c := sh("echo $$; echo $" + markEnv + "; read -r x || true")
	c.Stdin, c.Out = r, &out
	if _, err := Run(With(t.Context(), k), c); err != nil {
		t.Fatal(err)
	}
	pid, mark, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if list := <-kept; len(list) != 1 || strconv.Itoa(list[0].PID) != pid || mark != k.mark {
		t.Fatalf("kept %+v of process %s with mark %q, want %q", list, pid, mark, k.mark)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Fatalf("left in the folder: %v, %v", files, err)
	}
}
