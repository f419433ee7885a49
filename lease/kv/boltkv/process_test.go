package boltkv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"macbatch/lease/kv"
)

// child runs this test binary as another process that opens path and does job.
func child(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestChild$")
	c.Env = append(os.Environ(), "BOLTKV_TEST_JOB="+job, "BOLTKV_TEST_PATH="+path)
	c.Stderr = os.Stderr
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _, _ = io.Copy(io.Discard, out); _ = c.Wait() })
	return c, bufio.NewScanner(out)
}

// TestChild is the other process of the tests here.
func TestChild(t *testing.T) {
	job, path := os.Getenv("BOLTKV_TEST_JOB"), os.Getenv("BOLTKV_TEST_PATH")
	if job == "" {
		return
	}
	opts := Options{}
	if n, err := strconv.Atoi(job); err == nil { // die at the n-th step of making the store
		opts.step = func(string) error {
			if n--; n == 0 {
				os.Exit(9)
			}
			return nil
		}
	}
	db, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	if job == "hold" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or the parent is gone
	}
	if job != "commit" {
		return
	}
	for {
		var n uint64
		err := db.Update(func(w kv.Writer) error {
			n = number(w) + 1
			return errors.Join(w.Put([]byte("n"), fmt.Append(nil, n)), w.Append(n, fmt.Append(nil, n)),
				w.Put(fmt.Appendf(nil, "key/%d", n%97), make([]byte, n*31%5000)))
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(n)
	}
}

// number returns what is stored under "n", 0 when nothing is.
func number(r kv.Reader) uint64 {
	n, _ := strconv.ParseUint(string(r.Get([]byte("n"))), 10, 64)
	return n
}

// A process that dies at any step of its first start leaves no store or a whole
// one, and nothing in the way of the next.
func TestCreateKilled(t *testing.T) {
	died := 0
	for n := 1; ; n++ {
		path := storePath(t)
		c, out := child(t, strconv.Itoa(n), path)
		if out.Scan() {
			break // ready: it made fewer steps than n
		}
		if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 9 {
			t.Fatalf("child at step %d: %v", n, err)
		}
		died++
		if _, err := os.Stat(path); err == nil {
			db := open(t, path, Options{ReadOnly: true})
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		db := open(t, path, Options{})
		if err := errors.Join(put(db, "a", "1"), db.Close()); err != nil {
			t.Fatalf("after a death at step %d: %v", n, err)
		}
		if left := folder(t, path); len(left) != 2 {
			t.Fatalf("after a death at step %d: %d files, want the store and its lock", n, len(left))
		}
	}
	if died < 5 {
		t.Fatalf("only %d steps", died)
	}
}

func TestHeld(t *testing.T) {
	path := storePath(t)
	c, out := child(t, "hold", path)
	if !out.Scan() || out.Text() != "ready" {
		t.Fatalf("child said %q", out.Text())
	}
	for _, readOnly := range []bool{false, true} {
		began := time.Now()
		_, err := Open(path, Options{ReadOnly: readOnly})
		if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on ", c.Process.Pid)) {
			t.Fatalf("Open (read only %v) = %v, want ErrHeld naming pid %d", readOnly, err, c.Process.Pid)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("refused after %v, want 2 s at most", took)
		}
	}
	// Without its lock file, the file's own lock still holds.
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Timeout: 100 * time.Millisecond}); !errors.Is(err, ErrHeld) {
		t.Fatalf("Open = %v, want ErrHeld", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	// Nobody is misled by what a dead holder left.
	if err := os.WriteFile(path+".lock", []byte("pid 1 on elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, Options{})
	if _, err := Open(path, Options{Timeout: 1}); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d ", os.Getpid())) {
		t.Fatalf("Open = %v, want ErrHeld naming this process", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// Every commit that was acknowledged is there after kill -9, at random moments.
func TestKill(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	path := storePath(t)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	last, unacked := uint64(0), 0
	for range rounds {
		c, out := child(t, "commit", path)
		if !out.Scan() || out.Text() != "ready" {
			t.Fatalf("child said %q", out.Text())
		}
		acked := last
		for range rnd.IntN(80) {
			if !out.Scan() {
				break
			}
			if _, err := fmt.Sscan(out.Text(), &acked); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() { // what it had acknowledged before it died counts too
			var n uint64
			if _, err := fmt.Sscan(out.Text(), &n); err == nil {
				acked = n
			}
		}
		_ = c.Wait()
		db := open(t, path, Options{})
		var n, records uint64
		err := db.View(func(r kv.Reader) error {
			r.Log(0, func(seq uint64, record []byte) bool {
				records++
				return seq == records && string(record) == fmt.Sprint(seq)
			})
			n = number(r)
			return nil
		})
		if err := errors.Join(err, db.Check(), db.Close()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if n < acked || n > acked+1 || records != n {
			t.Fatalf("seed %d: %d commits and %d records there, %d acknowledged", seed, n, records, acked)
		}
		if n > acked {
			unacked++
		}
		last = n
	}
	t.Logf("%d kills, %d commits, %d of them durable but not acknowledged", rounds, last, unacked)
}
