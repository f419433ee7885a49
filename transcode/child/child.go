package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrStalled is returned when a child made no progress for Command.Stall and was killed.
var ErrStalled = errors.New("no progress")

// ExitError is returned when a child ended with a non-zero status or by a signal.
type ExitError struct {
	Program string // base name of the program
	Status  string // as os.ProcessState prints it: "exit status 1", "signal: killed"
	Stderr  string // the last lines of its standard error, control characters removed
}

func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return e.Program + ": " + e.Status
	}
	return e.Program + ": " + e.Status + ": " + e.Stderr
}

// Command describes one run of an external program.
type Command struct {
	Path  string        // absolute path of the program
	Args  []string      // arguments after the program's name
	Dir   string        // working folder; empty means the root folder
	Env   []string      // "NAME=value" entries beside PATH, HOME, TMPDIR and LANG
	Files []*os.File    // open files handed over as descriptors 3, 4, …
	Stdin io.Reader     // nil, as almost always, means the null device
	Out   io.Writer     // standard output as it comes; nil discards it
	Err   io.Writer     // standard error as it comes, beside the kept tail; nil for the tail alone
	Stall time.Duration // kill the group after so long without output or Progress; 0 never
	Grace time.Duration // between SIGTERM and SIGKILL when ctx ends; 0 means 2 s
	Low   bool          // run at a low scheduling priority
}

// tailBytes bounds what is kept of a child's standard error.
const tailBytes = 16 << 10

// Run starts the program, waits for it, and returns the tail of its standard
// error. When ctx ends the whole process group gets SIGTERM and after the grace
// SIGKILL, and Run returns ctx's cause. Nothing of the group outlives Run. Where ctx
// has a Keeper, a successor ends what outlives this process.
//
// Errors: the context's cause; ErrStalled; *ExitError; or that of starting it.
func Run(ctx context.Context, c Command) (stderr string, err error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	name := filepath.Base(c.Path)
	var beat atomic.Int64
	tail := &tailWriter{max: tailBytes, beat: &beat}

	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = string(filepath.Separator)
	}
	cmd.Env = append(baseEnv(), c.Env...)
	keeper := keeperOf(ctx)
	if keeper != nil {
		cmd.Env = append(cmd.Env, keeper.env())
	}
	cmd.ExtraFiles = c.Files
	cmd.Stdin = c.Stdin
	cmd.Stdout = &beatWriter{w: c.Out, beat: &beat}
	cmd.Stderr = tail
	if c.Err != nil {
		cmd.Stderr = io.MultiWriter(tail, c.Err)
	}
	// A grandchild that keeps a pipe open must not keep us waiting.
	cmd.WaitDelay = 5 * time.Second
	setGroup(cmd)

	// The parent-death signal is bound to the starting thread, so the thread
	// must live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", name, err)
	}
	group := cmd.Process.Pid
	if keeper != nil {
		defer keeper.note(group)()
	}
	if c.Low {
		lowerPriority(group)
	}

	ended := make(chan struct{})
	var watcher sync.WaitGroup
	var stalled atomic.Bool
	watcher.Go(func() {
		stalled.Store(watch(ctx, c, group, &beat, ended))
	})
	werr := cmd.Wait()
	killGroup(group) // whatever it left behind
	close(ended)
	watcher.Wait()

	stderr = tail.String()
	if cerr := context.Cause(ctx); cerr != nil {
		return stderr, cerr
	}
	if stalled.Load() {
		return stderr, fmt.Errorf("%s: %w for %v", name, ErrStalled, c.Stall)
	}
	var exit *exec.ExitError
	if errors.As(werr, &exit) {
		return stderr, &ExitError{Program: name, Status: exit.String(), Stderr: lastLines(stderr, 3)}
	}
	if werr != nil {
		return stderr, fmt.Errorf("run %s: %w", name, werr)
	}
	return stderr, nil
}

// watch ends the group when ctx does or when the child stalls; it reports whether it stalled.
func watch(ctx context.Context, c Command, group int, beat *atomic.Int64, ended <-chan struct{}) (stalled bool) {
	var tick <-chan time.Time
	if c.Stall > 0 {
		t := time.NewTicker(max(c.Stall/8, 50*time.Millisecond))
		defer t.Stop()
		tick = t.C
	}
	last, since := beat.Load(), time.Now()
	for {
		select {
		case <-ended:
			return false
		case <-ctx.Done():
			stop(group, c.Grace, ended)
			return false
		case <-tick:
			if now := beat.Load(); now != last {
				last, since = now, time.Now()
			} else if time.Since(since) >= c.Stall {
				stop(group, c.Grace, ended)
				return true
			}
		}
	}
}

func stop(group int, grace time.Duration, ended <-chan struct{}) {
	if grace == 0 {
		grace = 2 * time.Second
	}
	termGroup(group)
	select {
	case <-ended:
	case <-time.After(grace):
		killGroup(group)
	}
}

// baseEnv is all that a child sees of our environment: no secret gets through.
func baseEnv() []string {
	env := []string{"LANG=C.UTF-8", "LC_ALL=C.UTF-8"}
	for _, k := range []string{"PATH", "HOME", "TMPDIR"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

type beatWriter struct {
	w    io.Writer
	beat *atomic.Int64
}

func (b *beatWriter) Write(p []byte) (int, error) {
	b.beat.Add(1)
	if b.w == nil {
		return len(p), nil
	}
	return b.w.Write(p)
}

// tailWriter keeps the last max bytes written to it.
type tailWriter struct {
	mu   sync.Mutex
	buf  []byte
	max  int
	beat *atomic.Int64
}

func (t *tailWriter) Write(p []byte) (int, error) {
	t.beat.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if len(b) > t.max {
		b = b[len(b)-t.max:]
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}

// lastLines joins the last n non-empty lines of s into one line.
func lastLines(s string, n int) string {
	var lines []string
	for l := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
		l = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, l))
		if l != "" {
			lines = append(lines, l)
		}
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "; ")
}
