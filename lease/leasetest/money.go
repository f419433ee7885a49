package leasetest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"macbatch/lease"
)

// intend opens an intent and says how that ended.
func intend(t *testing.T, ctl lease.Control, g lease.Grant, reserve lease.Cost) error {
	t.Helper()
	return intendAs(t, ctl, g, reserve, false)
}

func intendAs(t *testing.T, ctl lease.Control, g lease.Grant, reserve lease.Cost, idle bool) error {
	t.Helper()
	return ctl.Intend(t.Context(), lease.Intention{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Reserve: reserve, Idle: idle})
}

func mustIntend(t *testing.T, ctl lease.Control, g lease.Grant, reserve lease.Cost) {
	t.Helper()
	if err := intend(t, ctl, g, reserve); err != nil {
		t.Fatalf("intend to spend %v: %v", reserve, err)
	}
}

func limited(t *testing.T, ctl lease.Control, items int, limit lease.Cost) lease.JobID {
	t.Helper()
	b, _ := json.Marshal(Params{Items: items}) // it always encodes
	id, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: b, MaxCost: limit})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wantBill(t *testing.T, ctl lease.Control, id lease.JobID, want lease.Bill) {
	t.Helper()
	if got := JobOf(t, ctl, id).Cost; got != want {
		t.Fatalf("bill %+v, want %+v", got, want)
	}
}

// testMoney: reserved and spent money stay below the job's limit, whoever asks and
// whatever ends the lease.
func testMoney(t *testing.T, ctl lease.Control, f *Fixture) {
	id := limited(t, ctl, 5, 100)
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(5)
	wantGrants(t, "claim", gs, 5)
	if !gs[0].Capped {
		t.Fatal("the grant does not say that the job has a limit")
	}
	mustIntend(t, ctl, gs[0], 40)
	mustIntend(t, ctl, gs[0], 40) // its answer was lost
	mustIntend(t, ctl, gs[1], 60)
	wantBill(t, ctl, id, lease.Bill{Max: 100, Reserved: 100})
	if err := intend(t, ctl, gs[2], 1); !errors.Is(err, lease.ErrBudgetHeld) {
		t.Fatalf("intend beyond the limit: %v, want %v", err, lease.ErrBudgetHeld)
	}
	if err := intend(t, ctl, gs[0], 41); !errors.Is(err, lease.ErrBudgetHeld) {
		t.Fatalf("raise beyond the limit: %v, want %v", err, lease.ErrBudgetHeld)
	}
	if err := intend(t, ctl, gs[2], 101); !errors.Is(err, lease.ErrOverBudget) {
		t.Fatalf("intend more than the limit: %v, want %v", err, lease.ErrOverBudget)
	}
	forged := gs[2]
	forged.Token = "x"
	if err := intend(t, ctl, forged, 1); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("intend with a forged token: %v, want %v", err, lease.ErrNotFound)
	}
	r := Done(gs[0], "x")
	r.Cost = 10
	wantVerdict(t, "result", w.Report(r), lease.Accepted)
	wantVerdict(t, "the same again", w.Report(r), lease.Duplicate)
	wantBill(t, ctl, id, lease.Bill{Max: 100, Reserved: 60, Spent: 10})
	f.Restart(t)
	wantBill(t, ctl, id, lease.Bill{Max: 100, Reserved: 60, Spent: 10})
	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: gs[1].Shard, Fence: gs[1].Fence, Reason: "busy", Cost: 20, Delay: time.Hour}}})
	wantBill(t, ctl, id, lease.Bill{Max: 100, Spent: 30})

	r = Done(gs[2], "x")
	r.Cost = 1000 // without an intent nothing is booked
	wantVerdict(t, "result", w.Report(r), lease.Accepted)
	mustIntend(t, ctl, gs[3], 70)
	if err := intend(t, ctl, gs[4], 71); !errors.Is(err, lease.ErrOverBudget) {
		t.Fatalf("intend beyond what is left: %v, want %v", err, lease.ErrOverBudget)
	}
	if err := ctl.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if err := intend(t, ctl, gs[4], 1); !errors.Is(err, lease.ErrFenced) {
		t.Fatalf("intend after a cancel: %v, want %v", err, lease.ErrFenced)
	}
	wantState(t, ctl, id, lease.JobCanceled)
	until(t, "the rows of the cancel", func() bool { j := JobOf(t, ctl, id); return j.Shards.Open() == 0 })
	wantBill(t, ctl, id, lease.Bill{Max: 100, Spent: 100})
}

// testHeldUp: of leases that all wait idly for what the others hold, one is told that
// there is no more, and when it ended the others may go on.
func testHeldUp(t *testing.T, ctl lease.Control, f *Fixture) {
	id := limited(t, ctl, 4, 100)
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(4)
	wantGrants(t, "claim", gs, 4)
	for _, g := range gs[:3] {
		mustIntend(t, ctl, g, 30)
	}
	wait := func(i int, reserve lease.Cost, idle bool, want error) {
		t.Helper()
		if err := intendAs(t, ctl, gs[i], reserve, idle); !errors.Is(err, want) {
			t.Fatalf("intend to spend %v on shard %d, idle %v: %v, want %v", reserve, i, idle, err, want)
		}
	}
	wait(0, 60, true, lease.ErrBudgetHeld)
	wait(1, 60, true, lease.ErrBudgetHeld)
	wait(2, 60, false, lease.ErrBudgetHeld) // it will spend what it holds
	wait(3, 60, true, lease.ErrBudgetHeld)  // it holds nothing
	wait(1, 40, true, nil)                  // there was room for so much
	wait(2, 60, true, lease.ErrBudgetHeld)
	wait(0, 60, true, lease.ErrBudgetHeld)
	wait(1, 60, true, lease.ErrOverBudget)
	wait(1, 60, true, lease.ErrOverBudget)
	wait(0, 60, true, lease.ErrBudgetHeld) // one ends: that will do
	wait(2, 60, true, lease.ErrBudgetHeld)
	r := Done(gs[1], "x")
	r.Cost = 5
	wantVerdict(t, "result", w.Report(r), lease.Accepted)
	wait(0, 60, true, nil)
	wait(2, 60, true, lease.ErrBudgetHeld)
	f.Restart(t)
	wait(0, 90, true, lease.ErrBudgetHeld) // what was waited for is not known any more
	wait(2, 60, true, lease.ErrOverBudget)
	wantBill(t, ctl, id, lease.Bill{Max: 100, Reserved: 90, Spent: 5})
}

// until lets pages pass until something holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 10_000 {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: it does not come", what)
}

// silence lasts longer than a term, while the control plane is awake.
func silence(f *Fixture, other *Worker) {
	for range 12 {
		f.Clock.Advance(lease.Term / 10)
		other.Exchange(lease.Exchange{})
	}
}

// testParked: a shard whose worker fell silent with an intent is nobody else's.
func testParked(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 3})
	w, other := NewWorker(t, ctl, "w1"), NewWorker(t, ctl, "w2")
	gs := w.Claim(3)
	wantGrants(t, "claim", gs, 3)
	for _, g := range gs {
		mustIntend(t, ctl, g, 7)
	}
	silence(f, other)
	wantGrants(t, "claim of what is parked", other.Claim(9), 0)
	if j := JobOf(t, ctl, id); j.Parked != 3 || j.Waits == "" || j.State != lease.JobRunning {
		t.Fatalf("job %+v, want three parked shards and a reason", j)
	}
	f.Restart(t)
	wantGrants(t, "claim after a restart", other.Claim(9), 0)
	silence(f, other)
	wantGrants(t, "claim of what is parked again", other.Claim(9), 0)
	late := Done(gs[0], "x")
	late.Cost = 5
	wantVerdict(t, "a late result", w.Report(late), lease.Accepted)
	wantBill(t, ctl, id, lease.Bill{Reserved: 14, Spent: 5})

	// Its worker starts anew: what it sent is unknown to it as well.
	w.Incarnation, w.Request = 2, 0
	wantGrants(t, "claim of the worker started anew", w.Claim(9), 0)
	if got, err := ctl.Retry(t.Context(), id, lease.Selection{}, 0); err != nil || got.Resent+got.Added > 0 {
		t.Fatalf("retry = %+v, %v, want nothing: it may be paid twice", got, err)
	}
	if got, err := ctl.Retry(t.Context(), id, lease.Selection{Shards: []uint32{gs[1].Shard.Seq}, Resend: true}, 0); err != nil || got.Resent != 1 {
		t.Fatalf("retry of one = %+v, %v, want one sent again", got, err)
	}
	if got, err := ctl.Retry(t.Context(), id, lease.Selection{Resend: true}, 0); err != nil || got.Resent != 1 {
		t.Fatalf("retry = %+v, %v, want the other one sent again", got, err)
	}
	wantBill(t, ctl, id, lease.Bill{Spent: 19})
	again := other.Claim(9)
	wantGrants(t, "claim of what is to be sent again", again, 2)
	wantVerdict(t, "a result too late", w.Report(Done(gs[1], "x")), lease.Stale)
	for _, g := range again {
		mustIntend(t, ctl, g, 3)
		r := Done(g, "x")
		r.Cost = 3
		wantVerdict(t, "result", other.Report(r), lease.Accepted)
	}
	wantState(t, ctl, id, lease.JobDone)
	wantBill(t, ctl, id, lease.Bill{Spent: 25})
}

// testUnknown: what its worker reports as unknown is sent again on demand only.
func testUnknown(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(2)
	mustIntend(t, ctl, gs[0], 9)
	r := Failed(gs[0], lease.Unknown, "the connection broke")
	r.Cost = 9
	wantVerdict(t, "an unknown outcome", w.Report(r), lease.Accepted)
	wantVerdict(t, "a failure", w.Report(Failed(gs[1], lease.Permanent, "no")), lease.Accepted)
	wantState(t, ctl, id, lease.JobFailed)
	wantBill(t, ctl, id, lease.Bill{Spent: 9})
	for _, what := range []lease.Selection{{}, {Items: []uint32{0}}, {Shards: []uint32{gs[0].Shard.Seq}}} {
		got, err := ctl.Retry(t.Context(), id, what, 0)
		if err != nil || got.Unknown != 1 || got.Added > 1 {
			t.Fatalf("retry of %+v = %+v, %v, want one left alone", what, got, err)
		}
	}
	f.Restart(t)
	if got, err := ctl.Retry(t.Context(), id, lease.Selection{Resend: true}, 0); err != nil || got.Added != 1 || got.Unknown != 0 {
		t.Fatalf("retry = %+v, %v, want the one that was left", got, err)
	}
	for _, g := range w.Claim(9) {
		wantVerdict(t, "result", w.Report(Done(g, "x")), lease.Accepted)
	}
	wantState(t, ctl, id, lease.JobDone)
}
