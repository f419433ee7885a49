package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
	"macbatch/lease/worker"
	"macbatch/spool"
)

// office is a real control plane behind a bad network, with workers.
type office struct {
	*testing.T
	ctx    context.Context // of all that is asked
	engine *memkv.DB
	blobs  *leasetest.Blobs
	near   lease.Control // not by the network
	proxy  *proxy
	url    string // through the proxy
	rnd    *rand.Rand

	mu       sync.Mutex
	asides   int                      // attempts whose lease was lost meanwhile
	finished map[held]bool            // attempts that came to a result
	verdicts map[held][]lease.Verdict // that workers heard
	heard    map[lease.Verdict]int    // of them
}

// held names a lease.
type held struct {
	shard lease.ShardID
	fence lease.Fence
}

// witness is a control plane, and notes which verdicts come from it.
type witness struct {
	lease.Control
	o *office
}

func (w witness) Exchange(ctx context.Context, x lease.Exchange) (lease.Exchanged, error) {
	out, err := w.Control.Exchange(ctx, x)
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	for _, v := range out.Verdicts {
		w.o.heard[v.Verdict]++
		w.o.verdicts[held{v.Shard, v.Fence}] = append(w.o.verdicts[held{v.Shard, v.Fence}], v.Verdict)
	}
	return out, err
}

func newOffice(t *testing.T, seed uint64, term time.Duration) *office {
	t.Helper()
	o := &office{T: t, ctx: t.Context(), engine: memkv.Open(), blobs: leasetest.NewBlobs(), rnd: rand.New(rand.NewPCG(seed, 0)),
		finished: map[held]bool{}, verdicts: map[held][]lease.Verdict{}, heard: map[lease.Verdict]int{}}
	s, err := store.Open(store.Options{
		Engine: o.engine, Blobs: o.blobs, Planner: leasetest.Planner{}, Term: term, Rand: rand.New(rand.NewPCG(seed, 1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	o.near = s.As(leasetest.Admin)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := api.NewServer(api.NewHandler(api.Options{
		Authenticate: func(string) (lease.Actor, error) { return leasetest.Admin, nil },
		Control:      func(a lease.Actor) lease.Control { return s.As(a) },
	}), nil)
	go func() {
		server.Serve(l) //nolint:errcheck // ends with the server
		ended <- nil
	}()
	o.proxy = newProxy(t, l.Addr().String())
	o.url = "http://" + o.proxy.l.Addr().String()
	t.Cleanup(func() {
		o.proxy.end()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		problems, err := store.Check(o.engine, o.blobs)
		if err != nil || len(problems) > 0 {
			t.Errorf("verify: %v, %v", problems, err)
		}
	})
	return o
}

// far is a client of the control plane through the proxy.
func (o *office) far() lease.Control {
	o.Helper()
	c, err := api.Dial(o.url, func() string { return "t" }, api.NewHTTPClient(0, nil))
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(c.Close)
	return c
}

// text is the result of a shard: more than a report carries inline, unless nothing
// follows from it.
func text(id lease.ShardID, stage int) string {
	if stage == 2 {
		return id.String()
	}
	return strings.Repeat(id.String()+" ", 1+(80<<10)/len(id.String()))
}

// Execute implements worker.Executor. What a shard waited for must be what was said.
func (o *office) Execute(ctx context.Context, t worker.Task) (worker.Output, error) {
	var p leasetest.Payload
	if err := json.Unmarshal(t.Grant.Payload, &p); err != nil {
		return worker.Output{}, err
	}
	for i, need := range t.Grant.Needs {
		b, err := t.Need(ctx, i)
		if err != nil {
			return worker.Output{}, err
		}
		var r leasetest.Result
		if err := json.Unmarshal(b, &r); err != nil || len(r.Text) < 80<<10 || int64(len(b)) != need.Bytes {
			o.Errorf("shard %v waits for %d bytes, and read %d, %v", t.Grant.Shard, need.Bytes, len(b), err)
		}
	}
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		o.mu.Lock()
		o.asides++
		o.mu.Unlock()
		return worker.Output{}, context.Cause(ctx)
	}
	b, err := json.Marshal(leasetest.Result{Text: text(t.Grant.Shard, p.Stage)})
	o.mu.Lock()
	o.finished[held{t.Grant.Shard, t.Grant.Fence}] = true
	o.mu.Unlock()
	return worker.Output{Result: b}, err
}

// work runs a worker. The function it returns ends it, and checks what it leaves.
func (o *office) work(id lease.WorkerID, ctl lease.Control, parallel int) (end func()) {
	o.Helper()
	dir := o.TempDir()
	sp, err := spool.Open(dir)
	if err != nil {
		o.Fatal(err)
	}
	var short atomic.Uint64
	a, err := worker.New(worker.Config{
		ID: id, Incarnation: 1, Machine: string(id), Control: witness{ctl, o}, Spool: sp, Dir: o.TempDir(), Parallel: parallel, LeaseLimit: parallel + 1,
		Executors: map[lease.Kind]worker.Executor{leasetest.Work: o}, Grace: time.Minute,
		Rand: func() float64 { return float64(short.Add(1)%10) / 50 }, // short pauses
	})
	if err != nil {
		o.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return func() {
		o.Helper()
		stop()
		if err := <-ended; err != nil {
			o.Errorf("worker %s: %v", id, err)
		}
		left, err := sp.List()
		rejected, rerr := sp.Rejected()
		if len(left) > 0 || len(rejected) > 0 || err != nil || rerr != nil {
			o.Errorf("worker %s leaves %d entries, %d rejected, %v, %v", id, len(left), len(rejected), err, rerr)
		}
	}
}

// once checks by the ledger that each shard of a job was done, and that once.
func (o *office) once(id lease.JobID, counts map[lease.EventKind]int) (shards int) {
	o.Helper()
	done := map[uint32]int{}
	for after := uint64(0); ; {
		events, err := o.near.Events(o.ctx, lease.ShardID{Job: id}, after, lease.MaxPage)
		if err != nil {
			o.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Seq
			counts[e.Kind]++
			if e.Kind == lease.EventDone {
				done[e.Shard]++
			}
			if e.Kind == lease.EventFailed || e.Kind == lease.EventRequeued {
				o.Errorf("shard %v/%d: %s %s: %q", id, e.Shard, e.Kind, e.Class, e.Reason)
			}
		}
	}
	for after := uint32(0); ; {
		rows, err := o.near.Shards(o.ctx, id, after, lease.MaxPage, false)
		if err != nil {
			o.Fatal(err)
		}
		if len(rows) == 0 {
			return shards
		}
		for _, s := range rows {
			after = s.ID.Seq
			shards++
			if s.State != lease.Done || done[s.ID.Seq] != 1 {
				o.Errorf("shard %v is %v, and was done %d times", s.ID, s.State, done[s.ID.Seq])
				continue
			}
			if !s.Result.Blob {
				continue
			}
			r, _, err := o.near.Blob(o.ctx, s.ID, s.Result.Digest)
			if err != nil {
				o.Errorf("result of shard %v: %v", s.ID, err)
				continue
			}
			b, err := io.ReadAll(r)
			if r.Close(); err != nil || lease.DigestOf(b) != s.Result.Digest || int64(len(b)) != s.Result.Bytes {
				o.Errorf("result of shard %v: %d bytes, %v", s.ID, len(b), err)
			}
		}
	}
}

// TestNetwork: what a network does to a worker costs time, and nothing else.
func TestNetwork(t *testing.T) {
	const (
		term  = 2 * time.Second
		films = 12
	)
	seed := rand.Uint64()
	o := newOffice(t, seed, term)
	for tenths := range 11 {
		for dir := range 2 {
			o.proxy.cuts = append(o.proxy.cuts, cut{dir, true, tenths}, cut{dir, false, min(tenths, 9)})
		}
	}
	cuts := len(o.proxy.cuts)
	o.rnd.Shuffle(cuts, func(i, j int) { o.proxy.cuts[i], o.proxy.cuts[j] = o.proxy.cuts[j], o.proxy.cuts[i] })
	var jobs []lease.JobID
	submit := func() {
		jobs = append(jobs, leasetest.Submit(t, o.near, leasetest.Params{Items: films, Then: 1, Distinct: fmt.Sprint(len(jobs))}))
	}
	submit()
	ends := []func(){o.work("far", o.far(), 3), o.work("near", o.near, 1)}
	var drops, parts int
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	pass := func(n int) {
		for range n {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				t.Fatal("out of time")
			}
		}
	}
	part := func(late bool) { // for longer than leases last
		parts++
		o.proxy.part()
		pass(int(3 * term / 2 / (50 * time.Millisecond)))
		if !late {
			drops += o.proxy.drop()
		}
		o.proxy.heal()
	}
	plot := []func(){
		func() { part(true) }, func() { part(false) },
		func() { o.proxy.set(func() { o.proxy.slow = 20 * time.Millisecond }); pass(20) },
		func() { o.proxy.set(func() { o.proxy.slow = 0 }) },
		func() { o.proxy.set(func() { o.proxy.lose += 4 }) },
		func() { o.proxy.set(func() { o.proxy.lose += 4 }) },
		func() { drops += o.proxy.drop() }, func() { drops += o.proxy.drop() }, func() { drops += o.proxy.drop() },
	}
	o.rnd.Shuffle(len(plot), func(i, j int) { plot[i], plot[j] = plot[j], plot[i] })
	for {
		pass(1 + o.rnd.IntN(6))
		if len(plot) > 0 {
			plot[0]()
			plot = plot[1:]
		}
		left := 0
		o.proxy.set(func() { left = len(o.proxy.cuts) + o.proxy.lose })
		if !leasetest.JobOf(t, o.near, jobs[len(jobs)-1]).State.Terminal() {
			continue
		}
		if left+len(plot) == 0 {
			break
		}
		submit()
	}
	o.proxy.set(func() { o.proxy.slow = 0 })
	for _, end := range ends {
		end()
	}
	shards, counts := 0, map[lease.EventKind]int{}
	for _, id := range jobs {
		shards += o.once(id, counts)
	}
	if want := 3 * films * len(jobs); shards != want {
		t.Errorf("%d shards, want %d", shards, want)
	}
	for h := range o.finished { // no result is lost on the way, whatever is said of it in the end
		if !slices.ContainsFunc(o.verdicts[h], func(v lease.Verdict) bool { return v == lease.Accepted || v == lease.Duplicate || v == lease.Stale }) {
			t.Errorf("the result of shard %v under fence %v had the verdicts %v", h.shard, h.fence, o.verdicts[h])
		}
	}
	t.Logf("seed %d: %d cuts, %d answers lost, %d links dropped, %d partitions: %d jobs, %d shards, each done once; %d results, %v; %d attempts ended by the loss of their lease; %d grants, %d leases lapsed",
		seed, o.proxy.counts["cut"], o.proxy.counts["answer lost"], drops, parts, len(jobs), shards, len(o.finished), o.heard, o.asides, counts[lease.EventLeased], counts[lease.EventLeaseExpired])
	if n := o.proxy.counts["cut"]; n != cuts || o.proxy.counts["answer lost"] != 8 || counts[lease.EventLeaseExpired] == 0 {
		t.Errorf("%d cuts, want %d; too little happened to prove anything", n, cuts)
	}
}
