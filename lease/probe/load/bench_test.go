package load

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
)

// workers is how many processes claim at once, and items how many shards a round has.
const (
	workers    = 16
	items      = 10_000
	batchItems = 96_000
)

// TestBench prints the figures of a whole run. scripts/bench store calls it with
// MACBATCH_LOAD naming what to measure ("all", or some of rates, depth, submit, lists,
// slow), MACBATCH_LOAD_DIR a folder on the disk to measure, MACBATCH_LOAD_PEERS
// the folder of the peers' harness, and MACBATCH_LOAD_ROUNDS.
func TestBench(t *testing.T) {
	want := os.Getenv("MACBATCH_LOAD")
	if want == "" {
		t.Skip("a measurement, not a test: scripts/bench store")
	}
	b := &bench{T: t, dir: os.Getenv("MACBATCH_LOAD_DIR"), peers: os.Getenv("MACBATCH_LOAD_PEERS"), rounds: 3}
	if b.dir == "" {
		b.dir = t.TempDir()
	}
	if n, err := strconv.Atoi(os.Getenv("MACBATCH_LOAD_ROUNDS")); err == nil {
		b.rounds = n
	}
	for _, part := range []struct {
		name string
		run  func()
	}{{"limits", b.limits}, {"rates", b.rates}, {"submit", b.submit}, {"lists", b.lists}, {"depth", b.depth}, {"slow", b.slow}} {
		if want == "all" || slices.Contains(strings.Split(want, ","), part.name) {
			part.run()
		}
	}
}

type bench struct {
	*testing.T
	dir, peers string
	rounds     int
	stores     int
}

func (b *bench) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// control starts a control process on a new store.
func (b *bench) control(delay time.Duration) (*plane, string) {
	b.stores++
	dir := filepath.Join(b.dir, fmt.Sprintf("store-%d", b.stores))
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	return control(b, dir, delay), dir
}

// end stops it and removes its store.
func (b *bench) end(p *plane, dir string) {
	p.end(b)
	if err := os.RemoveAll(dir); err != nil {
		b.Fatal(err)
	}
}

// limits measures what the parts can do alone.
func (b *bench) limits() {
	b.say("-- limits of this machine")
	b.say("a synced page                     %8.2f ms", float64(diskSync(b, b.dir).Microseconds())/1000)
	db, err := boltkv.Open(filepath.Join(b.dir, "limits.db"), boltkv.Options{})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	put := func(each int, d time.Duration) float64 {
		commits, began := 0, time.Now()
		for time.Since(began) < d {
			err := db.Update(func(w kv.Writer) error {
				for range each {
					n++
					if err := w.Put(fmt.Appendf(nil, "%016d", n), make([]byte, 16)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			commits++
		}
		return float64(commits*each) / time.Since(began).Seconds()
	}
	b.say("bare puts, 1 a commit             %8.0f /s", put(1, time.Second))
	b.say("bare puts, 16 a commit            %8.0f /s", put(16, time.Second))
	b.say("bare puts, 1000 a commit          %8.0f /s", put(1000, time.Second))
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	p, dir := b.control(0)
	var group sync.WaitGroup
	answers, began := make([]int, workers), time.Now()
	for i := range answers {
		group.Go(func() {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			for time.Since(began) < time.Second {
				r, err := c.Get(p.url + "/healthz")
				if err != nil {
					b.Error(err)
					return
				}
				r.Body.Close()
				answers[i]++
			}
		})
	}
	group.Wait()
	sum := 0
	for _, n := range answers {
		sum += n
	}
	b.say("empty HTTP answers, 16 clients    %8.0f /s", float64(sum)/time.Since(began).Seconds())
	b.end(p, dir)
}

// rates compares with the peers, in turns.
func (b *bench) rates() {
	for _, c := range []struct {
		batch, items int
		peers        []string
	}{{1, items, []string{"proto-comb", "pg-ledger"}}, {100, batchItems, []string{"proto-comb", "pg-ledger"}}} {
		b.say("-- %d shards, %d processes, %d a call, completion riding on the next claim", c.items, workers, c.batch)
		got := map[string][]float64{}
		for range b.rounds {
			p, dir := b.control(0)
			put := fleet(b, p, role{Name: "submit", Batch: 100, Quota: c.items / workers}, workers)
			commits := p.figures(b).Commits
			if os.Getenv("MACBATCH_LOAD_PPROF") != "" {
				p.say(b, "profile")
				p.line(b)
			}
			ph := fleet(b, p, role{Name: "work", Batch: c.batch}, workers)
			if ph.n != c.items {
				b.Fatalf("finished %d shards, want %d", ph.n, c.items)
			}
			f := p.figures(b)
			if os.Getenv("MACBATCH_LOAD_PPROF") == "" {
				p.verify(b)
			}
			got["macbatch"] = append(got["macbatch"], ph.rate())
			b.say("macbatch    %8.0f /s  (submit %.0f /s)  call p50 %.2f p99 %.2f ms  CPU clients %.2f + control %.2f s: %.0f + %.0f µs a call  %d commits  RssAnon %d MB  store %.1f MB, %.1f free: %.0f bytes a shard",
				ph.rate(), put.rate(), ph.call(50), ph.call(99), ph.clients, ph.plane, ph.clients*1e6/float64(len(ph.calls)), ph.plane*1e6/float64(len(ph.calls)), f.Commits-commits, ph.rss,
				float64(f.Size)/1e6, float64(f.Free)/1e6, float64(f.Size-f.Free)/float64(c.items))
			b.end(p, dir)
			if b.peers == "" {
				continue
			}
			for _, peer := range c.peers {
				rate, line := b.peer(peer, c.batch, c.items)
				got[peer] = append(got[peer], rate)
				b.say("%-11s %8.0f /s  %s", peer, rate, line)
			}
		}
		for _, name := range append([]string{"macbatch"}, c.peers...) {
			if len(got[name]) > 0 {
				b.say("median %-11s %8.0f /s  macbatch/%s %.2f", name, median(got[name]), name, median(got["macbatch"])/median(got[name]))
			}
		}
	}
}

var drained = regexp.MustCompile(`drain/s +(\d+).*(cpu s: .*)\| mem`)

// peer runs a peer once, for the same work.
func (b *bench) peer(name string, batch, items int) (rate float64, line string) {
	c := exec.CommandContext(b.Context(), "out/peers", "run", "-peer", name, "-mode", "durable", "-enq", "100",
		"-batch", strconv.Itoa(batch), "-items", strconv.Itoa(items), "-workers", strconv.Itoa(workers), "-reps", "1")
	c.Dir, c.Stderr = b.peers, os.Stderr
	out, err := c.Output()
	if err != nil {
		b.Fatalf("peer %s: %v: %s", name, err, out)
	}
	m := drained.FindStringSubmatch(string(out))
	if m == nil {
		b.Fatalf("peer %s said %q", name, out)
	}
	rate, err = strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return rate, m[2]
}

// submit times the submission of a million shards, and what it is to open them again.
func (b *bench) submit() {
	b.say("-- 1,000,000 shards of one item")
	p, dir := b.control(0)
	b.fill(p, 1_000_000, 1)
	b.say("heartbeats of 10 leases: 100 made %d commits", p.beats(b, 1, 100))
	p.end(b)
	began := time.Now()
	p = control(b, dir, 0)
	b.say("opened again in %.2f s, RssAnon %d MB", time.Since(began).Seconds(), anon(p.Process.Pid))
	b.end(p, dir)
}

// fill submits n shards.
func (b *bench) fill(p *plane, n, classes int) {
	before := p.figures(b).Commits
	ph := fleet(b, p, role{Name: "submit", Batch: min(10_000, n/2), Quota: n / 2, Classes: classes}, 2)
	f := p.figures(b)
	b.say("submitted %d shards in %.2f s: %.0f /s, %d commits, CPU of control %.2f s, RssAnon %d MB at most, store %.0f MB",
		n, ph.seconds, ph.rate(), f.Commits-before, ph.plane, ph.rss, float64(f.Size)/1e6)
}

// idle is how long memory is given back before it is looked at.
const idle = 20 * time.Second

// depth compares claims with few and with many shards ready.
func (b *bench) depth() {
	for _, classes := range []int{1, 100} {
		b.say("-- claims at depth, %d classes of need", classes)
		shallow, dir1 := b.control(0)
		deep, dir2 := b.control(0)
		b.fill(shallow, 1000, classes)
		b.fill(deep, 1_000_000, classes)
		<-time.After(idle)
		b.say("idle with 1,000,000 ready: RssAnon %d MB", anon(deep.Process.Pid))
		var p50, p99 [2][]float64
		var first [2]phase
		for round := range 1 + 2*b.rounds {
			for i, p := range []*plane{shallow, deep} {
				ph := fleet(b, p, role{Name: "work", Batch: 1, Quota: 500, Classes: classes}, 1)
				if round == 0 {
					first[i] = ph // pages of the file are mapped as they are met, and the heap grows again
				} else {
					p50[i], p99[i] = append(p50[i], ph.call(50)), append(p99[i], ph.call(99))
				}
				if i == 0 {
					fleet(b, p, role{Name: "submit", Batch: 500, Quota: 500, Classes: classes}, 1)
				}
			}
		}
		b.say("claim, one worker, the first 500 after the idle time: p50 %.3f ms at 1,000, %.3f at 1,000,000", first[0].call(50), first[1].call(50))
		b.say("claim, one worker: p50 %.3f ms at 1,000, %.3f at 1,000,000: %.2f×;  p99 %.3f and %.3f: %.2f×",
			median(p50[0]), median(p50[1]), median(p50[1])/median(p50[0]), median(p99[0]), median(p99[1]), median(p99[1])/median(p99[0]))
		for _, batch := range []int{1, 100} {
			n := map[int]int{1: items, 100: batchItems}[batch]
			ph := fleet(b, deep, role{Name: "work", Batch: batch, Quota: n / workers, Classes: classes}, workers)
			b.say("load at depth, %3d a call: %.0f /s, call p50 %.2f p99 %.2f ms, RssAnon at most %d MB", batch, ph.rate(), ph.call(50), ph.call(99), ph.rss)
		}
		<-time.After(idle)
		b.say("idle after it: RssAnon %d MB", anon(deep.Process.Pid))
		b.end(shallow, dir1)
		b.end(deep, dir2)
	}
}

// slow runs batches on a disk whose syncs take 40 ms more.
func (b *bench) slow() {
	p, dir := b.control(40 * time.Millisecond)
	n := 32_000
	fleet(b, p, role{Name: "submit", Batch: n / 2, Quota: n / 2}, 2)
	before := p.figures(b).Commits
	ph := fleet(b, p, role{Name: "work", Batch: 100}, workers)
	b.say("-- every sync slowed by 40 ms: %.0f shards/s in batches of 100, %d commits", ph.rate(), p.figures(b).Commits-before)
	b.end(p, dir)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
