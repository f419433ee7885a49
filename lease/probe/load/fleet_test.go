package load

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plane is a control process.
type plane struct {
	*child
	url, token string
}

// control starts a control process on a store in dir.
func control(t testing.TB, dir string, delay time.Duration) *plane {
	t.Helper()
	c := start(t, role{Name: "control", Dir: dir, Delay: delay, Pprof: os.Getenv("MACBATCH_LOAD_PPROF")})
	url, token, _ := strings.Cut(c.line(t), " ")
	return &plane{c, url, token}
}

func (p *plane) figures(t testing.TB) (f figures) {
	t.Helper()
	p.say(t, "figures")
	if err := json.Unmarshal([]byte(p.line(t)), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// verify has the store checked.
func (p *plane) verify(t testing.TB) {
	t.Helper()
	p.say(t, "verify")
	if s := p.line(t); s != "0 <nil>" {
		t.Fatalf("verify found problems: %s", s)
	}
}

// end stops it and returns the seconds of CPU it took.
func (p *plane) end(t testing.TB) float64 {
	t.Helper()
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("control process: %v", err)
	}
	return (p.ProcessState.UserTime() + p.ProcessState.SystemTime()).Seconds()
}

// phase is what a fleet did between the word to begin and the last answer.
type phase struct {
	n              int
	seconds        float64
	calls          []int32 // microseconds, ascending
	clients, plane float64 // seconds of CPU
	rss            int     // MB, the largest anonymous memory of the control process
}

func (p phase) rate() float64 { return float64(p.n) / p.seconds }

// call is a percentile of what a call took, in milliseconds.
func (p phase) call(percent int) float64 {
	return float64(p.calls[min(len(p.calls)-1, len(p.calls)*percent/100)]) / 1000
}

// fleet runs one role in so many processes at once.
func fleet(t testing.TB, p *plane, r role, processes int) (ph phase) {
	t.Helper()
	r.URL, r.Token = p.url, p.token
	var all []*child
	for i := range processes {
		r.Worker = i
		all = append(all, start(t, r))
	}
	for _, c := range all {
		if s := c.line(t); s != "ready" {
			t.Fatalf("child said %q", s)
		}
	}
	stop, most := make(chan struct{}), make(chan int)
	go func() {
		rss, tick := anon(p.Process.Pid), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				rss = max(rss, anon(p.Process.Pid))
			case <-stop:
				most <- rss
				return
			}
		}
	}()
	cpu, began := cpuOf(p.Process.Pid), time.Now()
	for _, c := range all {
		c.say(t, "go")
	}
	end := began.UnixNano()
	for _, c := range all {
		var d done
		if err := json.Unmarshal([]byte(c.line(t)), &d); err != nil {
			t.Fatal(err)
		}
		ph.n += d.N
		end = max(end, d.End)
		ph.calls = append(ph.calls, d.Calls...)
	}
	ph.plane = cpuOf(p.Process.Pid) - cpu
	close(stop)
	ph.rss = <-most
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		ph.clients += (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	}
	ph.seconds = float64(end-began.UnixNano()) / 1e9
	slices.Sort(ph.calls)
	return ph
}

// anon is a process's anonymous memory in MB: what is not a mapped file. 0 where
// the system does not tell.
func anon(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kb, _ := strconv.Atoi(f[1]) // a kernel's number
			return kb >> 10
		}
	}
	return 0
}

// cpuOf is how many seconds of CPU a process has taken; 0 where the system does
// not tell.
func cpuOf(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.Atoi(f[11]) // a kernel's numbers
	system, _ := strconv.Atoi(f[12])
	return float64(user+system) / 100
}

// diskSync is how long one synced write of a page takes.
func diskSync(t testing.TB, dir string) time.Duration {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const n = 200
	began := time.Now()
	for i := range int64(n) {
		if _, err := f.WriteAt(make([]byte, 4096), i%16*4096); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Fsync(int(f.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(began) / n
}

// beats has a worker hold some leases and send so many heartbeats; it returns the
// commits they made.
func (p *plane) beats(t testing.TB, classes, n int) uint64 {
	t.Helper()
	c := start(t, role{Name: "beat", URL: p.url, Token: p.token, Batch: 10, Quota: n, Classes: classes})
	c.line(t)
	before := p.figures(t).Commits
	c.say(t, "go")
	c.line(t)
	made := p.figures(t).Commits - before
	c.line(t)
	c.say(t, "give back")
	c.line(t)
	if err := c.Wait(); err != nil {
		t.Fatalf("beat: %v", err)
	}
	return made
}
