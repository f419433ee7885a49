package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// TestMachine drives a store and a model of it through the same random actions:
// the model is lease.Step over a map, a clock, and the rule of who comes first.
// After each action every row must be as in the model, and rows and ledger agree.
func TestMachine(t *testing.T) {
	count := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{
			T: r, count: count, clock: leasetest.NewClock(), blobs: leasetest.NewBlobs(),
			jobs: map[lease.JobID]*modelJob{}, rows: map[lease.ShardID]*modelRow{}, seen: map[lease.WorkerID]uint64{},
		}
		var e kv.Engine = memkv.Open()
		if rapid.IntRange(0, 9).Draw(r, "engine") == 3 {
			dir := t.TempDir()
			db, err := boltkv.Open(filepath.Join(dir, "store.db"), boltkv.Options{InitialMmap: 16 << 20})
			if err != nil {
				r.Fatal(err)
			}
			defer func() {
				if err := errors.Join(db.Check(), db.Close()); err != nil {
					r.Error(err)
				}
			}()
			e = db
			count["boltkv"]++
		}
		count["run"]++
		m.engine = kvtest.Guard(t, e)
		for i := range m.workers {
			id := lease.WorkerID(fmt.Sprint("w", i))
			m.workers[i] = lease.Hello{Worker: id, Incarnation: 1, Machine: "m", Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}}}
		}
		m.start()
		defer func() { m.halt() }()
		r.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "claim": m.claim, "claim more": m.claim, "again": m.again, "report": m.report, "report more": m.report,
			"replay": m.replay, "release": m.release, "beat": m.beat, "cancel": m.cancel, "advance": m.advance, "lapse": m.lapse, "sleep": m.sleep, "restart": m.restart,
			"die": m.die, "": m.compare,
		})
	})
	t.Logf("%v", count)
	for _, k := range []string{"boltkv", "grant", "takeover", "again", "accepted", "conflict", "stale", "denied", "lost", "cancel"} {
		if count[k] == 0 && count["run"] >= 100 {
			t.Errorf("no %q in any run", k)
		}
	}
}

// maxSilence bounds how often shards lose their worker: with more they would be
// suspected of it, of which the model knows nothing.
const maxSilence = 5

type modelJob struct {
	priority int32
	canceled bool
	rows     []*modelRow
}

// modelRow is a shard and what only memory knows of it.
type modelRow struct {
	lease.Shard
	events int
	rests  time.Time // not to be granted before
}

type machine struct {
	*rapid.T
	count   map[string]int
	clock   *leasetest.Clock
	blobs   *leasetest.Blobs
	engine  kv.Engine
	store   *store.Store
	stop    context.CancelFunc
	ended   chan error
	workers [2]lease.Hello
	request [2]uint64
	last    [2]lease.Exchange // the newest claim

	jobs     map[lease.JobID]*modelJob
	rows     map[lease.ShardID]*modelRow
	grants   []lease.Grant
	by       []int // whose they are
	reported []lease.Grant
	seen     map[lease.WorkerID]uint64
	fence    lease.Fence
	silence  int
}

func (m *machine) start() {
	s, err := store.Open(store.Options{Engine: m.engine, Blobs: m.blobs, Planner: leasetest.Planner{}, Now: m.clock.Now})
	if err != nil {
		m.Fatalf("open store: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.store, m.stop, m.ended = s, stop, make(chan error, 1)
	go func() { m.ended <- s.Run(ctx) }()
}

func (m *machine) halt() {
	m.stop()
	if err := <-m.ended; err != nil {
		m.Fatalf("run store: %v", err)
	}
}

func (m *machine) ctl() lease.Control { return m.store.As(leasetest.Admin) }

func (m *machine) exchange(x lease.Exchange) lease.Exchanged {
	out, err := m.ctl().Exchange(context.Background(), x)
	if err != nil {
		m.Fatalf("exchange %+v: %v", x, err)
	}
	return out
}

// step moves a row of the model.
func (m *machine) step(row *modelRow, c lease.Command) error {
	next, events, err := lease.Step(row.Shard, c, m.clock.Now())
	row.Shard, row.events = next, row.events+len(events)
	if err == nil && row.State == lease.Ready {
		row.rests = m.clock.Now().Add(row.Delay)
	}
	return err
}

func (m *machine) must(row *modelRow, c lease.Command) {
	if err := m.step(row, c); err != nil {
		m.Fatalf("model: %v", err)
	}
}

func (m *machine) submit(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "items")
	j := &modelJob{priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority"))}
	id, err := m.ctl().Submit(context.Background(), lease.Submission{
		Kind: "test", Priority: j.priority, Params: fmt.Appendf(nil, `{"items":%d,"distinct":"%d"}`, n, len(m.jobs)),
	})
	if err != nil {
		m.Fatalf("submit: %v", err)
	}
	for i := range n {
		row := &modelRow{Shard: lease.Shard{ID: lease.ShardID{Job: id, Seq: uint32(i + 1)}, Priority: j.priority}}
		m.must(row, lease.Queue{Actor: leasetest.Admin.ID})
		j.rows = append(j.rows, row)
		m.rows[row.ID] = row
	}
	m.jobs[id] = j
}

// claimable lists what may be granted, in order.
func (m *machine) claimable() (list []*modelRow) {
	now := m.clock.Now()
	for _, row := range m.rows {
		ready := row.State == lease.Ready && !now.Before(row.rests)
		if (ready || row.Lapsed(now)) && !m.jobs[row.ID.Job].canceled {
			list = append(list, row)
		}
	}
	slices.SortFunc(list, func(a, b *modelRow) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.ID.Compare(b.ID))
	})
	return list
}

func (m *machine) claim(t *rapid.T) {
	w := rapid.IntRange(0, 1).Draw(t, "worker")
	n := rapid.IntRange(1, 4).Draw(t, "max")
	m.request[w]++
	h := m.workers[w]
	m.last[w] = lease.Exchange{Hello: h, Request: m.request[w], Max: n, PerKind: map[lease.Kind]int{leasetest.Work: n}}
	for _, row := range m.rows { // what an older incarnation held ends
		if row.State == lease.Leased && row.Holder.Worker == h.Worker && row.Holder.Incarnation < h.Incarnation {
			m.must(row, lease.Expire{Fence: row.Fence})
		}
	}
	want := m.claimable()
	want = want[:min(n, len(want))]
	got := m.exchange(m.last[w]).Grants
	if len(got) != len(want) {
		m.Fatalf("claim of %d: %d grants, want %d", n, len(got), len(want))
	}
	for i, g := range got {
		if g.Shard != want[i].ID {
			m.Fatalf("grant %d is %v, want %v", i, g.Shard, want[i].ID)
		}
		if g.Fence <= m.fence {
			m.Fatalf("shard %v granted under fence %v after %v", g.Shard, g.Fence, m.fence)
		}
		m.fence = g.Fence
		m.count["grant"]++
		if want[i].State == lease.Leased {
			m.count["takeover"]++
		}
		m.must(want[i], lease.Claim{
			Holder: lease.Holder{Worker: h.Worker, Actor: leasetest.Admin.ID, Incarnation: h.Incarnation, Request: m.request[w]},
			Fence:  g.Fence, Term: lease.Term,
		})
		m.grants, m.by = append(m.grants, g), append(m.by, w)
	}
}

// again repeats a claim whose answer was lost: what is open of it is told again.
// When nothing is, it is a new claim; the model leaves that to claim.
func (m *machine) again(t *rapid.T) {
	w := rapid.IntRange(0, 1).Draw(t, "worker")
	x := m.last[w]
	var want []lease.ShardID
	for _, row := range m.rows {
		if row.State == lease.Leased && row.Holder.Worker == x.Worker && row.Holder.Request == x.Request &&
			row.Holder.Incarnation == x.Incarnation && !row.Lapsed(m.clock.Now()) {
			want = append(want, row.ID)
		}
	}
	if len(want) == 0 || x.Incarnation != m.workers[w].Incarnation {
		t.Skip("nothing is open")
	}
	slices.SortFunc(want, lease.ShardID.Compare)
	m.count["again"]++
	var got []lease.ShardID
	for _, g := range m.exchange(x).Grants {
		got = append(got, g.Shard)
		if g.Fence != m.rows[g.Shard].Fence {
			m.Fatalf("shard %v told again under fence %v, want %v", g.Shard, g.Fence, m.rows[g.Shard].Fence)
		}
	}
	if !slices.Equal(got, want) {
		m.Fatalf("told again: %v, want %v", got, want)
	}
}

// seldom skips an action that would crowd out the others.
func seldom(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "odds") > 0 {
		t.Skip("not this time")
	}
}

// grant picks one of all grants ever told.
func (m *machine) grant(t *rapid.T) (lease.Grant, int) {
	if len(m.grants) == 0 {
		t.Skip("nothing was granted")
	}
	i := len(m.grants) - 1 - rapid.IntRange(0, min(len(m.grants)-1, 7)).Draw(t, "grant")
	return m.grants[i], m.by[i]
}

func (m *machine) report(t *rapid.T) {
	g, _ := m.grant(t)
	m.deliver(t, g)
}

// replay reports on what a report settled before.
func (m *machine) replay(t *rapid.T) {
	if len(m.reported) == 0 {
		t.Skip("nothing was reported")
	}
	m.deliver(t, rapid.SampledFrom(m.reported).Draw(t, "reported"))
}

func (m *machine) deliver(t *rapid.T, g lease.Grant) {
	m.reported = append(m.reported, g)
	rep := leasetest.Done(g, fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "text")))
	class, reason := lease.FailureClass(""), ""
	switch rapid.IntRange(0, 5).Draw(t, "outcome") {
	case 0:
		class, reason = lease.Retryable, "try again"
		rep = leasetest.Failed(g, class, reason)
	case 1:
		class, reason = lease.Permanent, "no film"
		rep = leasetest.Failed(g, class, reason)
	case 2:
		class, reason = lease.Invalid, "the result is bad"
		rep = leasetest.Bad(g)
	}
	forged := rapid.IntRange(0, 9).Draw(t, "token") == 0
	if forged {
		rep.Token = "forged"
	}
	row := m.rows[g.Shard]
	var err error
	var c lease.Command = lease.Complete{Fence: g.Fence, Digest: rep.Digest, Result: lease.Result{Digest: rep.Digest, Bytes: rep.Bytes}, Actor: leasetest.Admin.ID}
	if class != "" {
		c = lease.Fail{Fence: g.Fence, Digest: rep.Digest, Class: class, Reason: reason, Actor: leasetest.Admin.ID}
	}
	if !forged {
		err = m.step(row, c)
	}
	want := lease.Accepted
	switch {
	case forged && row.Fence != g.Fence, errors.Is(err, lease.ErrFenced):
		want = lease.Stale
	case forged:
		want = lease.Denied
	case errors.Is(err, lease.ErrDuplicate):
		want = lease.Duplicate
	case errors.Is(err, lease.ErrConflict):
		want = lease.Conflict
	case err != nil:
		m.Fatalf("model: %v", err)
	case class == lease.Invalid:
		want = lease.InvalidReport
	}
	got := m.exchange(lease.Exchange{Reports: []lease.Report{rep}}).Verdicts[0]
	m.count[string(got.Verdict)]++
	if got.Verdict != want {
		m.Fatalf("report %+v on %+v: %s (%s), want %s", rep, row.Shard, got.Verdict, got.Reason, want)
	}
	if err == nil && !forged && row.State == lease.Ready { // the back-off is the store's choice
		rows, err := m.ctl().Shards(context.Background(), g.Shard.Job, g.Shard.Seq-1, 1, false)
		if err != nil || len(rows) != 1 || rows[0].Delay <= 0 || rows[0].Delay > 5*time.Minute {
			m.Fatalf("after a failure: %+v, %v", rows, err)
		}
		row.Delay = rows[0].Delay
		row.rests = m.clock.Now().Add(row.Delay)
	}
}

func (m *machine) release(t *rapid.T) {
	g, _ := m.grant(t)
	delay := time.Duration(rapid.IntRange(0, 1).Draw(t, "delay")) * time.Minute
	row := m.rows[g.Shard]
	if row.State == lease.Leased && row.Fence == g.Fence {
		m.must(row, lease.Release{Fence: g.Fence, Reason: "away", Delay: delay})
	}
	m.exchange(lease.Exchange{Releases: []lease.Give{{Shard: g.Shard, Fence: g.Fence, Reason: "away", Delay: delay}}})
}

// beat renews one lease, if it is still its worker's.
func (m *machine) beat(t *rapid.T) {
	g, w := m.grant(t)
	row := m.rows[g.Shard]
	out, err := m.ctl().Heartbeat(context.Background(), lease.Beat{Hello: m.workers[w], Leases: []lease.LeaseBeat{{Shard: g.Shard, Fence: g.Fence, Phase: lease.Waiting}}})
	if err != nil {
		m.Fatalf("heartbeat: %v", err)
	}
	held := row.State == lease.Leased && row.Fence == g.Fence
	if lost := len(out.Lost) > 0; lost == held {
		m.Fatalf("heartbeat on %v under %v, row %+v: lost %v", g.Shard, g.Fence, row.Shard, lost)
	}
	if !held {
		m.count["lost"]++
	} else {
		row.Deadline = m.clock.Now().Add(lease.Term)
	}
}

func (m *machine) cancel(t *rapid.T) {
	if len(m.jobs) == 0 {
		t.Skip("no job")
	}
	seldom(t)
	ids := make([]lease.JobID, 0, len(m.jobs))
	for id := range m.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(t, "job")
	if err := m.ctl().Cancel(context.Background(), id, "enough"); err != nil {
		m.Fatalf("cancel: %v", err)
	}
	for _, row := range m.jobs[id].rows {
		if !row.State.Terminal() {
			m.jobs[id].canceled = true
			m.count["cancel"]++
			m.must(row, lease.Cancel{Actor: leasetest.Admin.ID, Reason: "enough"})
		}
	}
	for { // the rows follow the mark in pages
		j, err := m.ctl().Job(context.Background(), id)
		if err != nil {
			m.Fatalf("job: %v", err)
		}
		if j.Shards.Open() == 0 {
			return
		}
		runtime.Gosched()
	}
}

// pass lets time go by in steps that are no stall.
func (m *machine) pass(d time.Duration) {
	for ; d > 0; d -= 10 * time.Second {
		m.clock.Advance(min(d, 10*time.Second))
		m.exchange(lease.Exchange{})
	}
}

func (m *machine) advance(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second
	m.mayLapse(t, d)
	m.pass(d)
}

func (m *machine) lapse(t *rapid.T) {
	m.mayLapse(t, lease.Term+time.Second)
	m.pass(lease.Term + time.Second)
}

// mayLapse counts the leases that end if nothing is heard for so long.
func (m *machine) mayLapse(t *rapid.T, d time.Duration) {
	for _, row := range m.rows {
		if row.State == lease.Leased && row.Lapsed(m.clock.Now().Add(d)) {
			if m.silence++; m.silence > maxSilence {
				t.Skip("enough lapsed")
			}
		}
	}
}

// full gives every open lease a full term.
func (m *machine) full() {
	for _, row := range m.rows {
		if row.State == lease.Leased {
			row.Deadline = m.clock.Now().Add(lease.Term)
		}
	}
}

// sleep is the control plane's: nobody could reach it meanwhile.
func (m *machine) sleep(t *rapid.T) {
	seldom(t)
	m.count["sleep"]++
	m.clock.Advance(time.Hour)
	m.exchange(lease.Exchange{})
	m.full()
}

func (m *machine) restart(t *rapid.T) {
	seldom(t)
	m.count["restart"]++
	m.halt()
	m.start()
	m.full()
	for _, row := range m.rows {
		if row.State == lease.Ready {
			row.rests = m.clock.Now().Add(row.Delay) // it starts afresh
		}
	}
}

// die ends a worker; its next incarnation's first claim ends its leases.
func (m *machine) die(t *rapid.T) {
	seldom(t)
	w := rapid.IntRange(0, 1).Draw(t, "worker")
	for _, row := range m.rows {
		if row.State == lease.Leased && row.Holder.Worker == m.workers[w].Worker {
			if m.silence++; m.silence > maxSilence {
				t.Skip("enough died")
			}
		}
	}
	m.count["die"]++
	m.workers[w].Incarnation++
	m.request[w] = 0
}

// compare holds every row, and every count, against the model.
func (m *machine) compare(*rapid.T) {
	for id, j := range m.jobs {
		rows, err := m.ctl().Shards(context.Background(), id, 0, 100, false)
		if err != nil || len(rows) != len(j.rows) {
			m.Fatalf("job %v: %d rows, want %d: %v", id, len(rows), len(j.rows), err)
		}
		var counts lease.Counts
		for i := range rows {
			row := j.rows[i]
			*counts.Of(row.State)++
			if got, want := facts(&rows[i]), facts(&row.Shard); !reflect.DeepEqual(got, want) || int(rows[i].Events) != row.events {
				m.Fatalf("shard %v is\n%+v with %d events, the model has\n%+v with %d", row.ID, got, rows[i].Events, want, row.events)
			}
		}
		job, err := m.ctl().Job(context.Background(), id)
		if err != nil || job.Shards != counts || job.Canceled != j.canceled {
			m.Fatalf("job %v: %+v, %v; the model counts %+v", id, job, err, counts)
		}
	}
	problems, err := store.Check(m.engine, m.blobs)
	if err != nil || len(problems) > 0 {
		m.Fatalf("verify: %v %v", problems, err)
	}
}

// facts are the parts of a row that Step decides.
func facts(s *lease.Shard) lease.Shard {
	return lease.Shard{
		ID: s.ID, State: s.State, Fence: s.Fence, Holder: s.Holder, Failures: s.Failures, Lapses: s.Lapses, Delay: s.Delay,
		Class: s.Class, Reason: s.Reason, Settled: s.Settled, Result: lease.Result{Digest: s.Result.Digest, Bytes: s.Result.Bytes},
	}
}
