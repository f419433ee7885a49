package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestBell(t *testing.T) {
	s := open(t)
	before := descriptors(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		rings, err := s.Bell(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other, err := Open(s.dir) // as another process would
		if err != nil {
			t.Fatal(err)
		}
		add(t, other, "a", "body")
		if _, open := <-rings; !open {
			t.Fatal("bell closed before its context ended")
		}
		cancel()
		for range rings { // ends when the channel is closed
		}
	}
	if after := descriptors(t); after > before {
		t.Fatalf("%d descriptors open, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestLock(t *testing.T) {
	s := open(t)
	unlock, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second Lock = %v, want ErrBusy naming %d", err, os.Getpid())
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatalf("second unlock = %v", err)
	}

	// A process that is killed leaves no lock behind.
	if testing.Short() {
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestHoldLock$")
	c.Env = append(os.Environ(), "SPOOL_TEST_HOLD="+s.dir)
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
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("child said %q", line)
	}
	if _, err := s.Lock(); !errors.Is(err, ErrBusy) || !strings.HasSuffix(err.Error(), fmt.Sprintf(" %d", c.Process.Pid)) {
		t.Fatalf("Lock = %v, want ErrBusy naming %d", err, c.Process.Pid)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	unlock, err = s.Lock()
	if err != nil {
		t.Fatalf("Lock after the holder died = %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestHoldLock is the child of TestLock.
func TestHoldLock(t *testing.T) {
	dir := os.Getenv("SPOOL_TEST_HOLD")
	if dir == "" {
		return
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or the parent is gone
}
