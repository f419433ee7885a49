package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

var (
	histories  = flag.Int("histories", 3, "histories of concurrent clients to check")
	historyOps = flag.Int("ops", 5000, "operations in each")
)

// minStale is how many completions under an overtaken fence a history must have
// provoked: with fewer it proves little.
const minStale = 500

// lapseEvery is how many operations lie between two lapses: a job sees a few in its
// life. With many it would be suspected of killing its workers.
const lapseEvery = 150

// jobsAlive is how many jobs of one shard the clients work on at a time.
const jobsAlive = 8

// TestHistories checks that what many concurrent clients saw of each shard is
// what one shard, used by one client at a time, would have shown them: also where
// an answer was lost, a commit had an unknown outcome, or the store was restarted.
func TestHistories(t *testing.T) {
	seed := *simFirst
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	for i := range *histories {
		s := seed + uint64(i)
		if !t.Run(fmt.Sprint(s), func(t *testing.T) { history(t, s) }) {
			break
		}
	}
}

func history(t *testing.T, seed uint64) {
	c := newCrowd(t, seed)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() { c.client(i) })
	}
	wg.Go(c.lapses)
	wg.Wait()
	c.halt()
	count := c.check()
	t.Logf("seed %d: %v", seed, count)
	if count["operations"] < *historyOps || count["stale"] < minStale*min(*historyOps, 5000)/5000 {
		t.Fatalf("seed %d: %d operations, %d stale completions: too little happened", seed, count["operations"], count["stale"])
	}
	for _, k := range []string{"accepted", "duplicate", "conflict", "grant", "nothing", "again", "cancel", "release", "lapse", "restart", "unknown"} {
		if count[k] == 0 {
			t.Errorf("seed %d: no %q: too little happened", seed, k)
		}
	}
}

// crowd is a store and those who use it at the same time.
type crowd struct {
	*testing.T
	began time.Time
	clock *leasetest.Clock
	blobs *leasetest.Blobs
	seed  uint64
	done  atomic.Int64 // operations

	use   sync.RWMutex // held for reading by each operation, for writing by a restart
	db    *memkv.DB
	store *store.Store
	stop  context.CancelFunc
	ended chan error

	mu      sync.Mutex
	jobs    []*oneShard // those worked on
	all     []*oneShard
	numbers int // given out, to jobs and to clients of operations without an answer
}

// oneShard is a job of one shard: its history, and the grants that anybody was told of.
type oneShard struct {
	id   lease.JobID
	mu   sync.Mutex
	ops  []porcupine.Operation
	told []lease.Grant
	uses int // of the crowd's mu
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	c := &crowd{T: t, began: time.Now(), clock: leasetest.NewClock(), blobs: leasetest.NewBlobs(), seed: seed, db: memkv.Open()}
	c.open()
	for range jobsAlive {
		c.jobs = append(c.jobs, c.newJob())
	}
	return c
}

func (c *crowd) open() {
	c.db.OnCommit = func(n int) *memkv.Fault {
		switch {
		case n < 100: // opening, and the jobs
		case rand.IntN(40) == 0:
			return &memkv.Fault{Err: kv.ErrUnknownOutcome, Applied: rand.IntN(2) == 0}
		}
		return nil
	}
	s, err := store.Open(store.Options{Engine: kvtest.Guard(c.T, c.db), Blobs: c.blobs, Planner: leasetest.Planner{}, Now: c.clock.Now})
	if err != nil {
		c.Errorf("open store: %v", err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	c.store, c.stop, c.ended = s, stop, make(chan error, 1)
	go func() { c.ended <- s.Run(ctx) }()
}

func (c *crowd) halt() {
	c.stop()
	if err := <-c.ended; err != nil && !errors.Is(err, kv.ErrUnknownOutcome) {
		c.Errorf("run store: %v", err)
	}
	problems, err := store.Check(c.db.Reopen(), c.blobs)
	if err != nil || len(problems) > 0 {
		c.Errorf("verify: %v %v", problems, err)
	}
}

// now is an instant for the history.
func (c *crowd) now() int64 { return int64(time.Since(c.began)) }

// newJob submits a job of one shard, again until it is known to be there.
func (c *crowd) newJob() *oneShard {
	c.mu.Lock()
	c.numbers++
	p := fmt.Sprintf(`{"items":1,"distinct":"%d"}`, c.numbers)
	c.mu.Unlock()
	for {
		c.use.RLock()
		s := c.store
		id, err := s.As(leasetest.Admin).Submit(context.Background(), lease.Submission{Kind: "test", Params: []byte(p), Key: p})
		c.use.RUnlock()
		if err == nil {
			sh := &oneShard{id: id}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.all = append(c.all, sh)
			return sh
		}
		c.restart(s)
	}
}

// restart replaces a store whose newest outcome is unknown, once.
func (c *crowd) restart(broken *store.Store) {
	c.use.Lock()
	defer c.use.Unlock()
	if c.store != broken {
		return
	}
	from := c.now()
	c.halt()
	c.db = c.db.Reopen()
	c.open()
	c.everywhere(asked{op: opRestart}, from, c.now())
}

// everywhere notes what happened to all shards at once.
func (c *crowd) everywhere(in asked, from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.numbers++
	for _, sh := range c.all {
		sh.note(1000+c.numbers, in, told{}, from, to)
	}
}

func (sh *oneShard) note(client int, in asked, out told, from, to int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.ops = append(sh.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: from, Return: to})
}

// lapses lets time go by, so that what is leased lapses, until enough was done.
func (c *crowd) lapses() {
	for last := int64(0); c.done.Load() < int64(*historyOps); {
		if c.done.Load() < last+lapseEvery {
			runtime.Gosched()
			continue
		}
		last = c.done.Load()
		c.use.RLock() // no restart in between: it would give every lease a full term
		s, from, to := c.store, c.now(), int64(0)
		var err error
		for range 14 { // in steps of which two are too short for a stall: the clock is looked at once a commit
			c.clock.Advance(7 * time.Second)
			if _, err = s.As(leasetest.Admin).Exchange(context.Background(), lease.Exchange{}); err != nil {
				break
			}
		}
		if to = c.now(); err != nil {
			to = math.MaxInt64 // at some time in between, or not at all
		}
		c.everywhere(asked{op: opLapse}, from, to)
		c.use.RUnlock()
		if err != nil {
			c.restart(s)
		}
	}
}

// pick returns a job to work on; one that was used up is replaced.
func (c *crowd) pick(rnd *rand.Rand) *oneShard {
	i := rnd.IntN(jobsAlive)
	c.mu.Lock()
	sh := c.jobs[i]
	sh.uses++
	used := sh.uses == 60
	c.mu.Unlock()
	if used { // this client alone replaces it
		sh = c.newJob()
		c.mu.Lock()
		c.jobs[i] = sh
		c.mu.Unlock()
	}
	return sh
}

// client claims, completes, releases and cancels. Like all who are mistaken
// about their lease, it also completes under fences of long ago.
func (c *crowd) client(n int) {
	rnd := rand.New(rand.NewPCG(c.seed, uint64(n)))
	w := &worker{c: c, n: n, rnd: rnd, Hello: lease.Hello{
		Worker: lease.WorkerID(fmt.Sprint("w", n)), Incarnation: 1, Machine: "m", Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}},
	}}
	for c.done.Load() < int64(*historyOps) {
		sh := c.pick(rnd)
		switch k := rnd.IntN(100); {
		case w.unknown != nil && k < 30:
			w.claim(w.unknown, true)
		case k < 30:
			w.unknown = nil
			w.request++
			w.claim(sh, false)
		case k < 70:
			w.complete(sh)
		case k < 99 || rnd.IntN(2) == 0:
			w.release(sh)
		default:
			w.cancel(sh)
		}
	}
}

type worker struct {
	lease.Hello
	c       *crowd
	n       int
	rnd     *rand.Rand
	request uint64
	unknown *oneShard // whose claim had no answer
}

// do runs an operation and notes it. An answer that was lost on its way may
// belong to something that happened at any later time, or never.
func (w *worker) do(sh *oneShard, in asked, run func(lease.Control) (told, error)) (told, bool) {
	w.c.done.Add(1)
	w.c.use.RLock()
	s, from := w.c.store, w.c.now()
	out, err := run(s.As(leasetest.Admin))
	to := w.c.now()
	lost := err == nil && w.rnd.IntN(30) == 0
	if err != nil || lost {
		w.c.mu.Lock()
		w.c.numbers++
		n := 100_000 + w.c.numbers
		w.c.mu.Unlock()
		sh.note(n, in, told{unknown: true}, from, math.MaxInt64)
	} else {
		sh.note(w.n, in, out, from, to)
	}
	w.c.use.RUnlock()
	switch {
	case err == nil:
		return out, !lost
	case errors.Is(err, lease.ErrUnknownOutcome), errors.Is(err, lease.ErrUnreachable):
		w.c.restart(s)
	default:
		w.c.Errorf("%+v of %v: %v", in, sh.id, err)
	}
	return told{}, false
}

func (w *worker) claim(sh *oneShard, again bool) {
	var grant lease.Grant
	out, known := w.do(sh, asked{op: opClaim, worker: w.n, request: w.request, again: again}, func(ctl lease.Control) (told, error) {
		out, err := ctl.Exchange(context.Background(), lease.Exchange{
			Hello: w.Hello, Request: w.request, Max: 1, PerKind: map[lease.Kind]int{leasetest.Work: 1}, Job: sh.id,
		})
		if err != nil || len(out.Grants) == 0 {
			return told{}, err
		}
		grant = out.Grants[0]
		return told{fence: grant.Fence}, nil
	})
	if w.unknown = nil; !known {
		w.unknown = sh
	} else if out.fence != 0 {
		sh.mu.Lock()
		sh.told = append(sh.told, grant)
		sh.mu.Unlock()
	}
}

// known returns a grant of the shard that somebody was told of: the newest, or, n
// times in n + 1, any.
func (w *worker) known(sh *oneShard, n int) (lease.Grant, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.told) == 0 {
		return lease.Grant{}, false
	}
	if w.rnd.IntN(n+1) == 0 {
		return sh.told[len(sh.told)-1], true
	}
	return sh.told[w.rnd.IntN(len(sh.told))], true
}

func (w *worker) complete(sh *oneShard) {
	g, ok := w.known(sh, 3)
	if !ok {
		return
	}
	if w.rnd.IntN(8) > 0 { // not to end it at once
		sh.mu.Lock()
		newest := sh.told[len(sh.told)-1].Fence
		sh.mu.Unlock()
		if g.Fence == newest {
			return
		}
	}
	rep := leasetest.Done(g, fmt.Sprint("by ", w.rnd.IntN(2)))
	w.do(sh, asked{op: opComplete, fence: g.Fence, digest: rep.Digest}, func(ctl lease.Control) (told, error) {
		out, err := ctl.Exchange(context.Background(), lease.Exchange{Reports: []lease.Report{rep}})
		if err != nil {
			return told{}, err
		}
		return told{verdict: out.Verdicts[0].Verdict}, nil
	})
}

func (w *worker) release(sh *oneShard) {
	g, ok := w.known(sh, 1)
	if !ok {
		return
	}
	w.do(sh, asked{op: opRelease, fence: g.Fence}, func(ctl lease.Control) (told, error) {
		_, err := ctl.Exchange(context.Background(), lease.Exchange{Releases: []lease.Give{{Shard: g.Shard, Fence: g.Fence, Reason: "away"}}})
		return told{}, err
	})
}

func (w *worker) cancel(sh *oneShard) {
	w.do(sh, asked{op: opCancel}, func(ctl lease.Control) (told, error) {
		return told{}, ctl.Cancel(context.Background(), sh.id, "enough")
	})
}

// check holds every shard's history against the model and counts what happened.
func (c *crowd) check() map[string]int {
	count := map[string]int{}
	longest := 0
	for _, sh := range c.all {
		for i := range sh.ops {
			sh.ops[i].Return = max(sh.ops[i].Return, sh.ops[i].Call)
			tally(count, sh.ops[i])
		}
		longest = max(longest, len(sh.ops))
		result, info := porcupine.CheckOperationsVerbose(shardModel, sh.ops, time.Minute)
		if result == porcupine.Ok {
			continue
		}
		path := filepath.Join(os.TempDir(), fmt.Sprintf("history-%d-%v.html", c.seed, sh.id))
		if err := porcupine.VisualizePath(shardModel, info, path); err != nil {
			c.Error(err)
		}
		text := ""
		slices.SortFunc(sh.ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, op := range sh.ops {
			text += fmt.Sprintf("\n%9d…%-9d %s", op.Call/1000, op.Return/1000, shardModel.DescribeOperation(op.Input, op.Output))
		}
		c.Errorf("seed %d: job %v: %s: these operations do not fit one shard (drawn in %s):%s", c.seed, sh.id, result, path, text)
	}
	count["shards"], count["longest"] = len(c.all), longest
	return count
}

func tally(count map[string]int, op porcupine.Operation) {
	in, out := op.Input.(asked), op.Output.(told)
	if in.op == opLapse || in.op == opRestart {
		count[in.op]++
		return
	}
	count["operations"]++
	switch {
	case out.unknown:
		count["unknown"]++
	case in.op == opClaim && out.fence == 0:
		count["nothing"]++
	case in.op == opClaim:
		count["grant"]++
	case in.op == opComplete:
		count[string(out.verdict)]++
	default:
		count[in.op]++
	}
	if in.again && out.fence != 0 {
		count["again"]++
	}
}
