package store_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

var (
	simSeeds = flag.Int("sim", 30, "lives of a store to simulate")
	simFirst = flag.Uint64("seed", 0, "the first of their seeds; 0: any")
)

// world is a store, its workers and what they know of it. One goroutine drives
// it; only the pages of cancels and plans follow on their own.
type world struct {
	*testing.T
	rnd     *rand.Rand
	db      *memkv.DB
	engine  kv.Engine
	blobs   *leasetest.Blobs
	clock   *leasetest.Clock
	store   *store.Store
	stop    context.CancelFunc
	ended   chan error
	faults  atomic.Bool
	told    bool // the sound came since the store was opened
	workers []*player
	jobs    map[lease.JobID]bool // whether its cancel was acknowledged
	pruned  map[lease.JobID]bool
	ends    map[lease.ShardID]lease.State
	open    map[lease.ShardID]*holding // the newest grant known to anybody
	paused  map[lease.Target]uint64    // without an end: the newest event after its pause was acknowledged
	newest  uint64                     // event that was read
	count   map[string]int
	late    []func() // messages under way

	accepted map[grant]bool // reported as accepted under that grant's fence
	saved    *copied
	lost     bool // some of what was acknowledged is lost: an older copy came back
}

// grant is one of a shard.
type grant struct {
	lease.ShardID
	lease.Fence
}

// player is a worker: what it believes to hold, and all it ever reported.
type player struct {
	lease.Hello
	request uint64
	unknown bool      // the answer to the newest claim was lost
	since   time.Time // when that claim was first sent: its leases count from then
	held    map[lease.ShardID]*holding
	sent    []lease.Report
	signs   uint64    // of progress: what is held gets on with every beat
	frozen  time.Time // it does nothing before
}

// holding is a grant as a worker knows it.
type holding struct {
	lease.Grant
	by    *player
	until time.Time // not to be granted to others before
	over  bool
}

// TestLives drives stores through random lives, half of them with commits that fail.
func TestLives(t *testing.T) {
	seed := *simFirst
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	total := map[string]int{}
	for i := range *simSeeds {
		s := seed + uint64(i)
		if !t.Run(fmt.Sprint(s), func(t *testing.T) { live(t, s, total) }) {
			break
		}
	}
	t.Logf("seeds from %d: %v", seed, total)
	for _, k := range []string{"accepted", "duplicate", "stale", "invalid", "conflict", "denied", "need_blobs", "grant", "restart", "cancel", "pause", "resume", "retry", "repeated", "lost answer", "full", "unknown", "takeover", "reused", "list", "item failed", "dropped", "late", "twice", "frozen", "stall", "intent", "over budget", "parked", "resent", "prune", "checkpoint", "carried", "rolled back"} {
		lives := 30
		if k == "need_blobs" || k == "repeated" || k == "retry" { // a handful in so few
			lives = 100
		}
		if total[k] == 0 && *simSeeds >= lives {
			t.Errorf("no %q in any life", k)
		}
	}
}

func live(t *testing.T, seed uint64, total map[string]int) {
	w := &world{
		T: t, rnd: rand.New(rand.NewPCG(seed, 1)), db: memkv.Open(), blobs: leasetest.NewBlobs(), clock: leasetest.NewClock(),
		jobs: map[lease.JobID]bool{}, pruned: map[lease.JobID]bool{}, ends: map[lease.ShardID]lease.State{},
		open: map[lease.ShardID]*holding{}, paused: map[lease.Target]uint64{}, count: total,
		accepted: map[grant]bool{},
	}
	w.faults.Store(seed%2 == 1)
	w.start()
	for _, id := range []lease.WorkerID{"a", "b", "c"} {
		w.workers = append(w.workers, &player{
			Hello: lease.Hello{Worker: id, Incarnation: 1, Machine: "of " + string(id), Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}, Roots: []string{"nas"}}},
			held:  map[lease.ShardID]*holding{},
		})
	}
	w.workers[1].Offer.Roots = nil
	for i := range 120 {
		w.act()
		if i%4 == 0 {
			w.verify()
		}
	}
	w.faults.Store(false)
	for len(w.late) > 0 { // the network heals
		w.arrive()
	}
	w.heal()
	w.halt()
	w.verify()
}

func (w *world) start() {
	w.db.OnCommit = w.fault
	w.engine = kvtest.Guard(w.T, w.db)
	s, err := store.Open(store.Options{
		Engine: w.engine, Blobs: w.blobs, Planner: leasetest.Planner{}, Budget: 1, Now: w.clock.Now, Rand: rand.New(rand.NewPCG(w.rnd.Uint64(), 2)),
	})
	for errors.Is(err, kv.ErrFull) || errors.Is(err, kv.ErrUnknownOutcome) {
		w.db = w.db.Reopen()
		w.engine = kvtest.Guard(w.T, w.db)
		s, err = store.Open(store.Options{Engine: w.engine, Blobs: w.blobs, Planner: leasetest.Planner{}, Budget: 1, Now: w.clock.Now})
	}
	if err != nil {
		w.Fatalf("open store: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.store, w.stop, w.ended = s, stop, make(chan error, 1)
	go func() { w.ended <- s.Run(ctx) }()
	w.Cleanup(stop)
}

func (w *world) halt() {
	w.stop()
	if err := <-w.ended; err != nil && !errors.Is(err, kv.ErrUnknownOutcome) {
		w.Fatalf("run store: %v", err)
	}
}

// restart is another process on what is durable.
func (w *world) restart() {
	w.halt()
	w.count["restart"]++
	w.db, w.told = w.db.Reopen(), false
	w.start()
}

// fault decides how a commit ends. It runs on the writer's goroutine: its dice
// are the system's.
func (w *world) fault(int) *memkv.Fault {
	if !w.faults.Load() {
		return nil
	}
	switch rand.IntN(40) {
	case 0:
		return &memkv.Fault{Err: kv.ErrFull}
	case 1:
		return &memkv.Fault{Err: kv.ErrUnknownOutcome}
	case 2:
		return &memkv.Fault{Err: kv.ErrUnknownOutcome, Applied: true}
	}
	return nil
}

func (w *world) ctl() lease.Control { return w.store.As(leasetest.Admin) }

// failed deals with an error that says how the commit ended; others are the test's end.
func (w *world) failed(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, lease.ErrFull):
		w.count["full"]++
	case errors.Is(err, lease.ErrUnknownOutcome) || errors.Is(err, lease.ErrUnreachable) || errors.Is(err, kv.ErrUnknownOutcome):
		w.count["unknown"]++
		w.restart()
	default:
		w.Fatalf("%s: %v", what, err)
	}
	return true
}

func (w *world) act() {
	p := w.workers[w.rnd.IntN(len(w.workers))]
	if w.rnd.IntN(6) == 0 {
		w.arrive()
	}
	if w.clock.Now().Before(p.frozen) {
		w.pass(time.Duration(w.rnd.IntN(20)) * time.Second)
		return
	}
	switch n := w.rnd.IntN(121); {
	case n >= 119:
		w.rollBack()
	case n >= 117:
		w.save()
	case n < 8:
		w.submit()
	case n < 33:
		w.claim(p, 1+w.rnd.IntN(4), w.rnd.IntN(8) == 0)
	case n < 58:
		w.report(p)
	case n < 63:
		w.replay(p)
	case n < 67:
		w.release(p)
	case n < 77:
		w.beat(p)
	case n < 78:
		w.cancel()
	case n < 80:
		w.prune()
	case n < 81:
		w.retry()
	case n < 83:
		w.pause()
	case n < 84:
		w.resume()
	case n < 86:
		w.restart()
	case n < 88: // it dies, and with it what it held in memory
		if w.rnd.IntN(2) == 0 {
			w.beat(p)
		}
		p.Incarnation, p.request, p.unknown = p.Incarnation+1, 0, false
		for _, h := range p.held {
			h.over = true
		}
		clear(p.held)
	case n < 97:
		w.pass(time.Duration(w.rnd.IntN(60)) * time.Second)
	case n >= 107:
		w.intend(p)
	case n >= 104:
		w.retry()
	case n >= 102:
		w.freeze(p)
	case n >= 100:
		w.stall()
	case n < 98: // one is not heard of for long
		w.pass(lease.Term + lease.Heartbeat)
	default:
		w.clock.Advance(time.Hour) // asleep
		w.touch()
	}
}

// pass lets time go by in steps in which the control plane is awake.
func (w *world) pass(d time.Duration) {
	for ; d > 0; d -= 10 * time.Second {
		w.clock.Advance(min(d, 10*time.Second))
		w.touch()
	}
}

func (w *world) touch() {
	_, err := w.ctl().Exchange(w.Context(), lease.Exchange{})
	w.failed("exchange", err)
}

// submitList submits a list, of which some need pages to be whole.
func (w *world) submitList() {
	n := 1 + w.rnd.IntN(6)
	switch w.rnd.IntN(8) {
	case 0:
		n = 255 + w.rnd.IntN(4)
	case 1:
		n = 256 + 998 + w.rnd.IntN(4)
	}
	b, in := leasetest.Lines(n)
	if w.failed("put blob", w.ctl().PutBlob(w.Context(), lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: lease.DefaultProject}, bytes.NewReader(b))) {
		return
	}
	id, err := w.ctl().Submit(w.Context(), lease.Submission{
		Kind: "list", Input: in, Params: []byte(fmt.Sprintf(`{"items":%d,"reuse":%v,"distinct":"%d"}`, 1+w.rnd.IntN(3), w.rnd.IntN(3) == 0, w.rnd.IntN(5))),
	})
	if w.failed("submit a list", err) {
		return
	}
	if _, known := w.jobs[id]; !known {
		w.jobs[id] = false
		delete(w.pruned, id)
		w.count["list"]++
	}
}

func (w *world) submit() {
	if w.rnd.IntN(4) == 0 {
		w.submitList()
		return
	}
	p := leasetest.Params{Items: 1 + w.rnd.IntN(4), Distinct: fmt.Sprint(w.rnd.IntN(1000))}
	if w.rnd.IntN(2) == 0 {
		p.Then = 2
		p.Sound = w.rnd.IntN(2) == 0
		p.Reuse = w.rnd.IntN(2) == 0
	}
	switch w.rnd.IntN(12) {
	case 0:
		p.Then, p.Items, p.Reuse = 255+w.rnd.IntN(4), 1, false
	case 1:
		p.Then, p.Items, p.Reuse = 998+w.rnd.IntN(4), 1, false
	case 2, 3:
		p.Root = "nas"
	}
	sub := lease.Submission{Kind: "test", Params: []byte(fmt.Sprintf(`{"items":%d,"root":%q,"reuse":%v,"then":%d,"sound":%v,"bulky":%v,"distinct":%q}`,
		p.Items, p.Root, p.Reuse, p.Then, p.Sound, w.rnd.IntN(4) == 0, p.Distinct)), Priority: int32(w.rnd.IntN(3) - 1), MaxCost: lease.Cost(6 * w.rnd.IntN(2))}
	id, err := w.ctl().Submit(w.Context(), sub)
	if w.failed("submit", err) {
		return
	}
	w.jobs[id] = false
	delete(w.pruned, id) // it may be the id of one that was lost before anybody worked on it
	w.count["job"]++
}

func (w *world) claim(p *player, n int, lose bool) {
	if !p.unknown {
		p.request++
		p.since = w.clock.Now()
	}
	p.unknown = true
	out, answered := w.ask(p, n)
	if !answered {
		return
	}
	if lose {
		w.count["lost answer"]++
		return
	}
	p.unknown = false
	for _, g := range out.Grants {
		w.granted(p, g)
	}
}

// tell is a shard's history, for a failure's text.
func (w *world) tell(id lease.ShardID) (out string) {
	events, err := w.ctl().Events(w.Context(), id, 0, 100)
	for _, ev := range events {
		out += fmt.Sprintf("\n%d %v %s %s %v %s", ev.Seq, ev.At.Format("15:04:05"), ev.Kind, ev.Worker, ev.Fence, ev.Reason)
	}
	if err != nil {
		out += err.Error()
	}
	return out
}

// granted checks a grant against all that is known of earlier ones.
func (w *world) granted(p *player, g lease.Grant) {
	w.count["grant"]++
	if h := w.open[g.Shard]; h != nil {
		switch {
		case h.Fence > g.Fence:
			w.Fatalf("shard %v granted under fence %v after %v", g.Shard, g.Fence, h.Fence)
		case h.Fence == g.Fence && h.by != p:
			w.Fatalf("shard %v granted to %s under the fence of %s", g.Shard, p.Worker, h.by.Worker)
		case h.Fence == g.Fence:
			return // told again
		case !h.over && w.clock.Now().Before(h.until):
			w.Fatalf("shard %v granted to %s while %s holds it for %v:%s", g.Shard, p.Worker, h.by.Worker, h.until.Sub(w.clock.Now()), w.tell(g.Shard))
		case !h.over:
			w.count["takeover"]++
		}
	}
	if w.jobs[g.Shard.Job] {
		w.Fatalf("shard %v granted after its job was canceled", g.Shard)
	}
	w.unpaused(g)
	row := w.row(g.Shard)
	for _, d := range row.Inputs {
		if here, _ := w.blobs.Has(d); !here {
			w.Fatalf("shard %v granted, but its sound is not here:%s", g.Shard, w.tell(g.Shard))
		}
	}
	if row.Range != (lease.Range{}) {
		job, err := w.ctl().Job(w.Context(), g.Shard.Job)
		if err == nil && (g.Lines == nil || g.Lines.Range != row.Range || job.Plans > 0) {
			w.Fatalf("shard %v granted with lines %+v of a job with %d plans, it works on %+v", g.Shard, g.Lines, job.Plans, row.Range)
		}
	}
	if waited := len(row.After) + w.kept(row); len(g.Needs) != waited {
		w.Fatalf("shard %v granted with %d results, it waited for %d:%s", g.Shard, len(g.Needs), waited, w.tell(g.Shard))
	}
	h := &holding{Grant: g, by: p, until: p.since.Add(lease.Term)}
	w.open[g.Shard], p.held[g.Shard] = h, h
}

// kept is how many earlier results a shard completes: that of the last one in its place
// that is done, if some of its items failed.
func (w *world) kept(row lease.Shard) int {
	for row.Range != (lease.Range{}) && len(row.Supersedes) > 0 {
		row = w.row(lease.ShardID{Job: row.ID.Job, Seq: row.Supersedes[0]})
		if row.State == lease.Done {
			return min(1, int(row.Result.Failed))
		}
	}
	return 0
}

// lines is what a list shard was granted with.
func (w *world) lines(id lease.ShardID) *lease.Lines {
	if h := w.open[id]; h != nil {
		return h.Lines
	}
	return nil
}

func (w *world) row(id lease.ShardID) lease.Shard {
	row, there := w.find(id)
	if !there {
		w.Fatalf("shard %v is not there", id)
	}
	return row
}

func (w *world) find(id lease.ShardID) (row lease.Shard, there bool) {
	for {
		rows, err := w.ctl().Shards(w.Context(), id.Job, id.Seq-1, 1, false)
		switch {
		case errors.Is(err, lease.ErrNotFound):
			return row, false
		case w.failed("shards", err):
		case len(rows) != 1 || rows[0].ID != id:
			return row, false
		default:
			return rows[0], true
		}
	}
}

// any picks one of a worker's holdings.
func (w *world) any(p *player) *holding {
	var list []*holding
	for _, h := range p.held {
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.rnd.IntN(len(list))]
}

func (w *world) release(p *player) {
	h := w.any(p)
	if h == nil {
		return
	}
	give := lease.Give{Shard: h.Shard, Fence: h.Fence, Reason: "away", Delay: time.Duration(w.rnd.IntN(3)) * time.Minute}
	x := lease.Exchange{Hello: p.Hello, Releases: []lease.Give{give}}
	h.over = true
	if w.delayed(func() {
		_, err := w.ctl().Exchange(w.Context(), x)
		w.astray("late release", err)
	}) {
		delete(p.held, h.Shard)
		return
	}
	_, err := w.ctl().Exchange(w.Context(), x)
	if !w.failed("release", err) {
		delete(p.held, h.Shard)
	}
}

func (w *world) beat(p *player) {
	b := lease.Beat{Hello: p.Hello}
	p.signs++
	for _, h := range p.held {
		b.Leases = append(b.Leases, lease.LeaseBeat{Shard: h.Shard, Fence: h.Fence, Phase: lease.Running, Signs: p.signs})
	}
	if w.dropped() || w.delayed(func() {
		_, err := w.ctl().Heartbeat(w.Context(), b)
		w.astray("late heartbeat", err)
	}) {
		return
	}
	out, err := w.ctl().Heartbeat(w.Context(), b)
	if w.failed("heartbeat", err) {
		return
	}
	p.hear(out.Mark)
	for _, h := range p.held {
		h.until = w.clock.Now().Add(lease.Term)
	}
	for _, id := range out.Lost {
		if h := p.held[id]; !h.over && w.open[id] == h && !w.canceled(id.Job) && w.row(id).Fence == h.Fence && w.row(id).State == lease.Leased {
			w.Fatalf("%s was told that it lost %v:%s", p.Worker, id, w.tell(id))
		}
		p.held[id].over = true
		delete(p.held, id)
	}
}

func (w *world) cancel() {
	for id, canceled := range w.jobs {
		if canceled {
			continue
		}
		job, err := w.ctl().Job(w.Context(), id)
		if w.failed("job", err) || job.State.Terminal() {
			continue
		}
		delete(w.paused, lease.Target{Job: id}) // a cancel ends the pause too
		if !w.failed("cancel", w.ctl().Cancel(w.Context(), id, "enough")) {
			w.jobs[id] = true
			w.count["cancel"]++
		}
		return
	}
}

// prune drops some of the jobs that have ended; reports on them are denied from now on.
func (w *world) prune() {
	var ids []lease.JobID
	for id := range w.jobs {
		job, err := w.ctl().Job(w.Context(), id)
		if w.failed("job", err) {
			return
		}
		if job.State.Terminal() && job.Shards.Open() == 0 && job.Plans == 0 && w.rnd.IntN(3) > 0 {
			ids = append(ids, id)
		}
	}
	if w.failed("prune", w.ctl().Prune(w.Context(), ids)) && len(ids) > 0 {
		if _, err := w.ctl().Job(w.Context(), ids[0]); !errors.Is(err, lease.ErrNotFound) {
			w.failed("job", err)
			return
		}
	}
	w.count["prune"]++
	for _, id := range ids {
		delete(w.jobs, id)
		delete(w.paused, lease.Target{Job: id})
		w.pruned[id] = true
	}
	for _, p := range w.workers {
		for id, h := range p.held {
			if w.pruned[id.Job] {
				h.over = true
				delete(p.held, id)
			}
		}
	}
}

// canceled is what the store says: a cancel of unknown outcome may have been recorded.
func (w *world) canceled(id lease.JobID) bool {
	job, err := w.ctl().Job(w.Context(), id)
	return w.failed("job", err) || job.Canceled
}

// verify holds rows against the ledger, and ends against what they were.
func (w *world) verify() {
	w.Helper()
	problems, err := store.CheckWithin(w.db.Reopen(), w.blobs, 2+w.rnd.IntN(200))
	if err != nil {
		w.Fatalf("verify: %v", err)
	}
	for _, p := range problems {
		w.Errorf("verify: %s %s: %s", p.Kind, p.Subject, p.Detail)
	}
	for id := range w.jobs {
		shards, err := w.ctl().Shards(w.Context(), id, 0, 200, true)
		if errors.Is(err, lease.ErrUnknownOutcome) || errors.Is(err, kv.ErrUnknownOutcome) {
			break // the store is broken; the next one tells
		}
		if err != nil {
			w.Fatalf("shards: %v", err)
		}
		for i := range shards {
			sh := &shards[i]
			if was, ended := w.ends[sh.ID]; ended && was != sh.State {
				w.Errorf("shard %v was %s and is %s", sh.ID, was, sh.State)
			}
			if sh.State.Terminal() {
				w.ends[sh.ID] = sh.State
			}
		}
	}
	if w.Failed() {
		w.FailNow()
	}
}
