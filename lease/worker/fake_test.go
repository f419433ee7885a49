package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/spool"
)

// fake is a small honest control plane: rows in a map, changed by lease.Step
// alone, with faults on request. Hooks are called with its lock held.
type fake struct {
	lease.Control // the methods a worker never calls

	mu     sync.Mutex
	shards map[lease.ShardID]*lease.Shard
	order  []lease.ShardID
	fence  lease.Fence
	inc    uint64
	blobs  map[lease.Digest][]byte
	news   chan struct{} // closed when something changed
	term   time.Duration
	list   map[lease.ShardID]*lease.Lines // of list shards

	mark    lease.Mark // told with each answer
	down    bool
	refuse  func(lease.Exchange) error                  // before anything is done
	answer  func(lease.Exchange, lease.Exchanged) error // after all is done: a lost reply
	cut     func()                                      // when a waiting exchange is cut, before its last look for work
	verdict func(lease.Report) *lease.Judgement         // instead of the honest one

	drain lease.Pause   // told with each answer to a heartbeat
	deaf  time.Duration // heartbeats take so long; below 0 they fail

	calls  []string // "exchange", "heartbeat", "put", "blob"
	xs     []lease.Exchange
	beats  []beat
	events []lease.Event
	grants []lease.Grant // new ones, not those repeated
	put    []lease.Digest
	open   int // exchanges in flight
	most   int
}

type beat struct {
	at time.Time
	lease.Beat
}

func newFake() *fake {
	return &fake{
		shards: map[lease.ShardID]*lease.Shard{}, blobs: map[lease.Digest][]byte{},
		news: make(chan struct{}), term: lease.Term,
	}
}

// add queues n shards of a kind and returns the first one's id.
func (f *fake) add(kind lease.Kind, n int) lease.ShardID {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.addLocked(kind)
	for range n - 1 {
		f.addLocked(kind)
	}
	return first
}

func (f *fake) addLocked(kind lease.Kind) lease.ShardID {
	id := lease.ShardID{Job: 1<<32 | 1, Seq: uint32(len(f.order) + 1)}
	s := lease.Shard{ID: id, Spec: lease.Spec{Need: lease.Need{Kind: kind}, Work: 100, Payload: json.RawMessage(`{}`)}}
	f.shards[id] = &s
	f.order = append(f.order, id)
	if err := f.step(&s, lease.Queue{}); err != nil {
		panic(err)
	}
	return id
}

func (f *fake) step(s *lease.Shard, c lease.Command) error {
	next, events, err := lease.Step(*s, c, time.Now())
	if err != nil {
		return err
	}
	*s = next
	f.events = append(f.events, events...)
	close(f.news)
	f.news = make(chan struct{})
	return nil
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// steal grants a shard to somebody else.
func (f *fake) steal(id lease.ShardID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.shards[id]
	f.fence++
	if err := errors.Join(f.step(s, lease.Expire{Fence: s.Fence}), f.step(s, lease.Claim{Holder: lease.Holder{Worker: "other"}, Fence: f.fence, Term: time.Hour})); err != nil {
		panic(err)
	}
}

func (f *fake) count(kind lease.EventKind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (f *fake) state(id lease.ShardID) lease.Shard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.shards[id]
}

func (f *fake) hello(h lease.Hello) error {
	if f.down {
		return lease.ErrUnreachable
	}
	if h.Worker != "" && h.Incarnation < f.inc {
		return fmt.Errorf("worker %q: %w", h.Worker, lease.ErrTwin)
	}
	return nil
}

func (f *fake) Exchange(ctx context.Context, x lease.Exchange) (ans lease.Exchanged, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	f.most = max(f.most, f.open)
	defer func() { f.open-- }()
	f.calls, f.xs = append(f.calls, "exchange"), append(f.xs, x)
	if err := f.hello(x.Hello); err != nil {
		return ans, err
	}
	if f.refuse != nil {
		if err := f.refuse(x); err != nil {
			return ans, err
		}
	}
	for _, r := range x.Reports {
		ans.Verdicts = append(ans.Verdicts, f.judge(r))
	}
	ans.Mark = f.mark
	for _, g := range x.Releases {
		if s := f.shards[g.Shard]; s != nil {
			_ = f.step(s, lease.Release{Fence: g.Fence, Reason: g.Reason, Delay: g.Delay, Cost: g.Cost}) // late ones change nothing
		}
	}
	until := time.Now().Add(x.Wait)
	for x.Worker != "" && x.Request > 0 {
		ans.Grants = f.claim(x)
		if len(ans.Grants) > 0 || len(ans.Verdicts) > 0 || !time.Now().Before(until) {
			break
		}
		news := f.news
		f.mu.Unlock()
		timer := time.NewTimer(time.Until(until))
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		f.mu.Lock()
		if ctx.Err() != nil {
			if f.cut != nil {
				f.cut()
				f.claim(x) // nobody will read this answer
			}
			return lease.Exchanged{}, ctx.Err()
		}
	}
	if f.answer != nil {
		if err := f.answer(x, ans); err != nil {
			return lease.Exchanged{}, err
		}
	}
	return ans, nil
}

func (f *fake) Intend(_ context.Context, i lease.Intention) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "intend")
	if err := f.hello(lease.Hello{}); err != nil {
		return err
	}
	err := f.step(f.shards[i.Shard], lease.Intend{Fence: i.Fence, Reserve: i.Reserve})
	if errors.Is(err, lease.ErrDuplicate) {
		err = nil
	}
	return err
}

func (f *fake) judge(r lease.Report) lease.Judgement {
	j := lease.Judgement{Shard: r.Shard, Fence: r.Fence}
	if f.verdict != nil {
		if v := f.verdict(r); v != nil {
			v.Shard, v.Fence = r.Shard, r.Fence
			return *v
		}
	}
	s := f.shards[r.Shard]
	if s == nil {
		j.Verdict = lease.Denied
		return j
	}
	var c lease.Command = lease.Fail{Fence: r.Fence, Digest: r.Digest, Class: r.Class, Reason: r.Reason, Delay: time.Second, Cost: r.Cost}
	if r.Outcome == lease.OutcomeDone {
		for _, d := range r.Blobs {
			if f.blobs[d] == nil {
				j.Verdict, j.Missing = lease.NeedBlobs, append(j.Missing, d)
			}
		}
		if j.Verdict != "" {
			return j
		}
		if r.Result != nil && lease.DigestOf(r.Result) != r.Digest {
			j.Verdict, j.Reason = lease.InvalidReport, "digest differs"
			return j
		}
		c = lease.Complete{Fence: r.Fence, Digest: r.Digest, Result: lease.Result{Digest: r.Digest, Bytes: r.Bytes, Blob: r.Result == nil}, Cost: r.Cost}
	}
	switch err := f.step(s, c); {
	case err == nil:
		j.Verdict = lease.Accepted
	case errors.Is(err, lease.ErrDuplicate):
		j.Verdict = lease.Duplicate
	case errors.Is(err, lease.ErrConflict):
		j.Verdict = lease.Conflict
	default:
		j.Verdict = lease.Stale
	}
	return j
}

func (f *fake) claim(x lease.Exchange) (grants []lease.Grant) {
	now := time.Now()
	if x.Incarnation > f.inc {
		for _, id := range f.order {
			if s := f.shards[id]; s.State == lease.Leased && s.Holder.Worker == x.Worker && s.Holder.Incarnation < x.Incarnation {
				_ = f.step(s, lease.Expire{Fence: s.Fence})
			}
		}
		f.inc = x.Incarnation
	}
	h := lease.Holder{Worker: x.Worker, Incarnation: x.Incarnation, Request: x.Request}
	for _, id := range f.order {
		if s := f.shards[id]; s.State == lease.Leased && s.Holder == h {
			grants = append(grants, f.grant(s))
		}
	}
	if len(grants) > 0 {
		return grants
	}
	per := map[lease.Kind]int{}
	for _, id := range f.order {
		s := f.shards[id]
		if len(grants) == x.Max || per[s.Need.Kind] == x.PerKind[s.Need.Kind] || !x.Offer.Able(s.Need) {
			continue
		}
		if s.Delay > 0 && !s.Deadline.IsZero() && now.Before(s.Deadline) {
			continue // the old deadline stands in for the moment of the last event
		}
		f.fence++
		if f.step(s, lease.Claim{Holder: h, Fence: f.fence, Term: f.term, Count: true}) == nil {
			per[s.Need.Kind]++
			grants = append(grants, f.grant(s))
			f.grants = append(f.grants, f.grant(s))
		}
	}
	return grants
}

func (f *fake) grant(s *lease.Shard) lease.Grant {
	return lease.Grant{Shard: s.ID, Fence: s.Fence, Token: "t", Kind: s.Need.Kind, Payload: s.Payload, Work: s.Work, Term: f.term, Lines: f.list[s.ID]}
}

func (f *fake) Heartbeat(_ context.Context, b lease.Beat) (lease.Beaten, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "heartbeat")
	if err := f.hello(b.Hello); err != nil {
		return lease.Beaten{}, err
	}
	if f.deaf < 0 {
		return lease.Beaten{}, lease.ErrUnreachable
	}
	f.beats = append(f.beats, beat{time.Now(), b})
	if d := f.deaf; d > 0 {
		f.mu.Unlock()
		time.Sleep(d) //nolint:forbidigo // in a bubble
		f.mu.Lock()
	}
	ans := lease.Beaten{Mark: f.mark, Drain: f.drain}
	for _, l := range b.Leases {
		if s := f.shards[l.Shard]; s != nil && s.State == lease.Leased && s.Fence == l.Fence {
			s.Deadline = time.Now().Add(f.term)
		} else {
			ans.Lost = append(ans.Lost, l.Shard)
		}
	}
	return ans, nil
}

func (f *fake) PutBlob(_ context.Context, u lease.Upload, r io.Reader) error {
	d, size := u.Digest, u.Size
	b, err := io.ReadAll(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "put")
	switch {
	case err != nil:
		return err
	case f.down:
		return lease.ErrUnreachable
	case lease.DigestOf(b) != d || int64(len(b)) != size:
		return lease.ErrDigest
	}
	f.blobs[d] = b
	f.put = append(f.put, d)
	return nil
}

func (f *fake) Blob(_ context.Context, _ lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "blob")
	b, ok := f.blobs[d]
	switch {
	case f.down:
		return nil, 0, lease.ErrUnreachable
	case !ok:
		return nil, 0, lease.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
}

// Input serves a list input: the only blob there is.
func (f *fake) Input(_ context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "input")
	if f.down {
		return nil, lease.ErrUnreachable
	}
	for _, b := range f.blobs {
		if f.shards[of] != nil && to <= int64(len(b)) {
			return io.NopCloser(bytes.NewReader(b[from:to])), nil
		}
	}
	return nil, lease.ErrNotFound
}

// execute is an executor in a function.
type execute func(ctx context.Context, t Task) (Output, error)

func (e execute) Execute(ctx context.Context, t Task) (Output, error) { return e(ctx, t) }

// taking is an executor that needs so long, and heeds its context.
func taking(d time.Duration) execute {
	return func(ctx context.Context, t Task) (Output, error) {
		if err := wait(ctx, d); err != nil {
			return Output{}, err
		}
		return Output{Result: []byte(`{"ok": "<yes>"}`)}, nil
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rig is a worker with its fake control plane, inside a bubble.
type rig struct {
	*fake
	t   *testing.T
	cfg Config
	a   *Agent
	sp  *spool.Spool
	dir string // the spool's
	end context.CancelFunc
	err chan error
}

func newRig(t *testing.T, e execute) *rig {
	t.Helper()
	dir := t.TempDir()
	sp, err := spool.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{fake: newFake(), t: t, sp: sp, dir: dir}
	r.cfg = Config{
		ID: "w", Incarnation: 1, Control: r.fake, Spool: sp, Dir: t.TempDir(),
		Executors: map[lease.Kind]Executor{"k": e}, Parallel: 1, Rand: func() float64 { return 0.5 },
	}
	return r
}

func (r *rig) start() {
	r.t.Helper()
	a, err := New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	r.a, r.end, r.err = a, end, make(chan error, 1)
	go func() { r.err <- a.Run(ctx) }()
}

// stop ends the worker and checks that it leaves nothing behind.
func (r *rig) stop() {
	r.t.Helper()
	r.end()
	if err := <-r.err; err != nil {
		r.t.Fatalf("Run = %v, want nil", err)
	}
	r.tidy()
	if r.most > 1 {
		r.t.Fatalf("%d exchanges in flight, want 1", r.most)
	}
}

func (r *rig) waiting() int {
	r.t.Helper()
	names, err := r.sp.List()
	if err != nil {
		r.t.Fatal(err)
	}
	return len(names)
}

// spooled puts a report on a granted shard into the spool, as a former run would.
func (r *rig) spooled(rep lease.Report, files ...string) spool.Name {
	r.t.Helper()
	body, err := json.Marshal(rep)
	if err != nil {
		r.t.Fatal(err)
	}
	e, err := r.sp.Add(rep.Shard.String(), uint64(rep.Fence), time.Now(), body, files)
	if err != nil {
		r.t.Fatal(err)
	}
	return e.Name
}

// leased adds a shard that a former run of the worker holds, and a report on it.
func (r *rig) leased() lease.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.addLocked("k") // in one go with the claim: a worker that runs is waiting for work
	s := r.shards[id]
	r.fence++
	if err := r.step(s, lease.Claim{Holder: lease.Holder{Worker: "w"}, Fence: r.fence, Term: lease.Term}); err != nil {
		r.t.Fatal(err)
	}
	result := json.RawMessage(`{"n":` + fmt.Sprint(id.Seq) + `}`)
	return lease.Report{Shard: id, Fence: s.Fence, Token: "t", Outcome: lease.OutcomeDone,
		Digest: lease.DigestOf(result), Bytes: int64(len(result)), Result: result}
}

// pass lets time pass, and what falls into it happen.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble
	synctest.Wait()
}
