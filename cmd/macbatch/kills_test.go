package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/pipeline"
)

var (
	kills     = flag.Int("kills", 2, "percent of the full size of TestKills: the control plane and workers killed 100 times each, their children 50 times")
	killsSeed = flag.Uint64("kills-seed", 0, "of TestKills; 0: any")
)

// mortal is a process that is killed and started again.
type mortal struct {
	t     *testing.T
	args  []string
	env   []string
	log   *os.File
	cmd   *exec.Cmd
	ended chan error
}

func (m *mortal) start() {
	m.t.Helper()
	bin, err := exec.LookPath("macbatch")
	if err != nil {
		m.t.Fatal(err)
	}
	m.cmd, m.ended = exec.Command(bin, m.args...), make(chan error, 1)
	m.cmd.Env, m.cmd.Stderr = m.env, m.log
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { m.ended <- m.cmd.Wait() }()
}

// kill ends it at once. It must have been alive.
func (m *mortal) kill() {
	m.t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		m.t.Fatalf("macbatch %s ended by itself: %v, %v", m.args[0], err, <-m.ended)
	}
	var exit *exec.ExitError
	if err := <-m.ended; !errors.As(err, &exit) || exit.String() != "signal: killed" {
		m.t.Fatalf("macbatch %s ended by itself: %v", m.args[0], err)
	}
}

// stop asks it to end, and waits.
func (m *mortal) stop() {
	m.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Errorf("stop macbatch %s: %v", m.args[0], err)
	}
	if err := <-m.ended; err != nil {
		m.t.Errorf("macbatch %s, asked to end: %v", m.args[0], err)
	}
}

// slaughter is a control plane, two workers and their children, killed in turns.
type slaughter struct {
	t       *testing.T
	dir     string
	rnd     *rand.Rand
	control *mortal
	workers []*mortal
	folders []string // of the workers
	ctl     *api.Client
	root    string
	films   int
	jobs    []lease.JobID
	ended   int // as many of them have, in any case
}

// tone writes a second of a sound that no other n has.
func tone(path string, n int) error {
	const rate = 16000
	b := bytes.NewBufferString("RIFF")
	le := func(v any) { binary.Write(b, binary.LittleEndian, v) } //nolint:errcheck // to memory
	le(uint32(36 + 2*rate))
	b.WriteString("WAVEfmt ")
	le(uint32(16))
	le([]uint16{1, 1})
	le([]uint32{rate, 2 * rate})
	le([]uint16{2, 16})
	b.WriteString("data")
	le(uint32(2 * rate))
	for i := range rate {
		le(int16(3000 * math.Sin(2*math.Pi*float64(200+n)*float64(i)/rate)))
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

func prepare(t *testing.T, seed uint64, films int) *slaughter {
	t.Helper()
	dir := t.TempDir()
	k := &slaughter{t: t, dir: dir, rnd: rand.New(rand.NewPCG(seed, 0)), films: films, root: filepath.Join(dir, "films")}
	for _, d := range []string{"home", "tmp", "films"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hour := time.Now().Add(-time.Hour)
	for i := range films {
		path := filepath.Join(k.root, fmt.Sprintf("%04d.wav", i))
		if err := errors.Join(tone(path, i), os.Chtimes(path, hour, hour)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	control := filepath.Join(dir, "control")
	url, token := "http://"+addr, filepath.Join(control, tokenName)
	k.control = k.mortal("control", "control", "--data", control, "--listen", addr)
	for i := range 2 {
		name := fmt.Sprintf("w%d", i+1)
		k.folders = append(k.folders, filepath.Join(dir, name))
		k.workers = append(k.workers, k.mortal(name, "serve", "--control", url, "--token-file", token, "--data", k.folders[i],
			"--root", "films="+k.root, "--parallel", "2", "--transcriber", pocketSphinx, "--min-free", "1", "--grace", "2m"))
	}
	client := api.NewHTTPClient(0, nil)
	k.ctl, err = api.Dial(url, func() string {
		b, err := readToken(token)
		if err != nil {
			return "not yet"
		}
		return b
	}, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.ctl.Close)
	return k
}

func (k *slaughter) mortal(name string, args ...string) *mortal {
	k.t.Helper()
	log, err := os.Create(filepath.Join(k.dir, name+".log"))
	if err != nil {
		k.t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+filepath.Join(k.dir, "home"), "TMPDIR="+filepath.Join(k.dir, "tmp"), "MACBATCH_CONFIG=")
	m := &mortal{t: k.t, args: args, log: log, env: env}
	k.t.Cleanup(func() {
		if m.cmd != nil {
			m.cmd.Process.Kill() //nolint:errcheck // it has ended, if all is well
		}
		if k.t.Failed() {
			b, err := os.ReadFile(log.Name())
			k.t.Logf("%s, %v: …%s", name, err, b[max(0, len(b)-4000):])
		}
		log.Close() //nolint:errcheck // only read here
	})
	return m
}

// ask repeats a question for as long as the control plane is away.
func (k *slaughter) ask(what string, f func() error) {
	k.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, lease.ErrUnreachable) && !errors.Is(err, lease.ErrUnknownOutcome) && !errors.Is(err, lease.ErrUnauthorized) {
			k.t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-tick.C:
		case <-k.t.Context().Done():
			k.t.Fatalf("%s: %v", what, err)
		}
	}
}

// open lists the jobs that have not ended.
func (k *slaughter) open() (open []lease.JobID) {
	k.t.Helper()
	for _, id := range k.jobs[k.ended:] {
		k.ask("job", func() error {
			j, err := k.ctl.Job(k.t.Context(), id)
			if err == nil && !j.State.Terminal() {
				open = append(open, id)
			}
			return err
		})
	}
	if len(open) == 0 {
		k.ended = len(k.jobs)
	}
	return open
}

// feed sees to it that there is always work.
func (k *slaughter) feed() {
	k.t.Helper()
	for range 3 - len(k.open()) {
		k.submit()
	}
}

// submit queues the films, all of them anew.
func (k *slaughter) submit() {
	k.t.Helper()
	params, err := json.Marshal(pipeline.LibraryParams{Root: "films", Transcriber: pocketSphinx, Fresh: true})
	if err != nil {
		k.t.Fatal(err)
	}
	s := lease.Submission{Kind: pipeline.Library, Params: params, Key: fmt.Sprint("films ", len(k.jobs))}
	k.ask("submit", func() error {
		id, err := k.ctl.Submit(k.t.Context(), s)
		if err == nil {
			k.jobs = append(k.jobs, id)
		}
		return err
	})
}

// wait lets some time pass.
func (k *slaughter) wait() {
	select {
	case <-time.After(time.Duration(k.rnd.Int64N(int64(1500 * time.Millisecond)))):
	case <-k.t.Context().Done():
		k.t.Fatal("out of time")
	}
}

// child kills a program that a worker runs, as soon as there is one.
func (k *slaughter) child() {
	k.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, w := range k.rnd.Perm(len(k.folders)) {
			files, err := os.ReadDir(filepath.Join(k.folders[w], childName))
			if err != nil {
				continue // its first start
			}
			for _, f := range files {
				pid, err := strconv.Atoi(f.Name())
				if err != nil || !k.ours(pid) {
					continue
				}
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					return
				}
			}
		}
		k.feed()
		select {
		case <-tick.C:
		case <-k.t.Context().Done():
			k.t.Fatal("no child to kill")
		}
	}
}

// ours tells whether a process lives that was started here, or by one that was.
func (k *slaughter) ours(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(env, []byte("TMPDIR="+filepath.Join(k.dir, "tmp")+"\x00"))
}

// left lists our processes that live, but for the test's own.
func (k *slaughter) left() (list []string) {
	k.t.Helper()
	procs, err := os.ReadDir("/proc")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, p := range procs {
		if pid, err := strconv.Atoi(p.Name()); err == nil && pid != os.Getpid() && k.ours(pid) {
			cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // only to be told
			list = append(list, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return list
}

// empty checks that no file is left where only temporary ones are.
func (k *slaughter) empty(dir string) {
	k.t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir {
			k.t.Errorf("%s is left", strings.TrimPrefix(path, k.dir))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.t.Error(err)
	}
}

// once checks by the ledger that each shard of a job was done, and that once. It
// counts shards, and events by their kind.
func (k *slaughter) once(id lease.JobID, counts map[lease.EventKind]int) (shards int) {
	k.t.Helper()
	ended := map[lease.ShardID]int{}
	for after := uint64(0); ; {
		events, err := k.ctl.Events(k.t.Context(), lease.ShardID{Job: id}, after, lease.MaxPage)
		if err != nil {
			k.t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Seq
			counts[e.Kind]++
			if e.Kind == lease.EventDone || e.Kind == lease.EventReused {
				ended[lease.ShardID{Job: id, Seq: e.Shard}]++
			}
			if e.Kind == lease.EventFailed || e.Kind == lease.EventCanceled {
				k.t.Errorf("shard %v/%d: %s %s: %q", id, e.Shard, e.Kind, e.Class, e.Reason)
			}
		}
	}
	for after := uint32(0); ; {
		rows, err := k.ctl.Shards(k.t.Context(), id, after, lease.MaxPage, false)
		if err != nil {
			k.t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		for _, s := range rows {
			after = s.ID.Seq
			shards++
			if s.State != lease.Done || ended[s.ID] != 1 {
				k.t.Errorf("shard %v is %v, and was done %d times: %q", s.ID, s.State, ended[s.ID], s.Reason)
			}
		}
	}
	if want := 1 + 3*k.films; shards != want || len(ended) != want {
		k.t.Errorf("job %v has %d shards, %d ended, want %d", id, shards, len(ended), want)
	}
	return shards
}

// TestKills: whatever is killed and when, each film is done, once, and nothing is
// left behind.
func TestKills(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	demand(t, "ffmpeg", "ffprobe", "pocketsphinx_batch")
	seed := *killsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	const control, worker, child = 0, 1, 2
	sizes := [...]int{max(1, 100**kills/100), max(1, 100**kills/100), max(1, 50**kills/100)}
	began := time.Now()
	k := prepare(t, seed, 6)
	var plot []int
	for what, n := range sizes {
		for range n {
			plot = append(plot, what)
		}
	}
	k.rnd.Shuffle(len(plot), func(i, j int) { plot[i], plot[j] = plot[j], plot[i] })
	k.control.start()
	for _, w := range k.workers {
		w.start()
	}
	k.feed()
	for _, what := range plot {
		k.wait()
		switch what {
		case control:
			k.control.kill()
			k.control.start()
		case worker:
			w := k.workers[k.rnd.IntN(len(k.workers))]
			w.kill()
			w.start()
		case child:
			k.child()
		}
		k.feed()
	}
	for tick := time.NewTicker(100 * time.Millisecond); len(k.open()) > 0; <-tick.C {
	}
	for _, w := range k.workers {
		w.stop()
	}
	shards, counts := 0, map[lease.EventKind]int{}
	for _, id := range k.jobs {
		shards += k.once(id, counts)
	}
	problems, err := k.ctl.Verify(context.Background())
	if err != nil || len(problems) > 0 {
		t.Errorf("verify: %v, %v", problems, err)
	}
	k.control.stop()
	check := k.mortal("verify", "verify", "--data", filepath.Join(k.dir, "control"))
	check.start()
	if err := <-check.ended; err != nil {
		t.Errorf("verify at rest: %v", err)
	}
	if left := k.left(); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
	k.empty(filepath.Join(k.dir, "tmp"))
	k.empty(filepath.Join(k.dir, "control", "blobs", "tmp"))
	for _, w := range k.folders {
		k.empty(filepath.Join(w, workName))
		for _, d := range []string{"tmp", "new", "rejected", "damaged", "blobs"} {
			k.empty(filepath.Join(w, spoolName, d))
		}
	}
	t.Logf("kills: seed %d: control plane %d, workers %d, children %d: %d jobs, %d shards, each done once; %d grants, %d leases lapsed, %d attempts failed; %d s",
		seed, sizes[control], sizes[worker], sizes[child], len(k.jobs), shards, counts[lease.EventLeased], counts[lease.EventLeaseExpired], counts[lease.EventRequeued], int(time.Since(began).Seconds()))
}
