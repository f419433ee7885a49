package leasetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
)

// testDrain: a worker that is drained keeps and delivers what it has, and is
// granted nothing; it is told, and everybody sees who drained it and why.
func testDrain(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 6})
	w, other := NewWorker(t, ctl, "w1"), NewWorker(t, ctl, "w2")
	of := lease.Target{Worker: "w1"}
	gs := w.Claim(2)
	pause(t, ctl, of, 0)
	wantGrants(t, "claim of a drained worker", w.Claim(1), 0)
	wantGrants(t, "claim of another one", other.Claim(1), 1)
	if lost := w.Beat(lease.Running, gs...); len(lost) > 0 {
		t.Fatalf("lost %v: a drained worker keeps what it has", lost)
	}
	drained := func(want bool) lease.Worker {
		t.Helper()
		out, err := ctl.Heartbeat(t.Context(), lease.Beat{Hello: w.Hello})
		if p := out.Drain; err != nil || p.IsZero() == want || want && (p.Worker != "w1" || p.Actor != Admin.ID || p.Reason != "too hot" || p.Since.IsZero()) {
			t.Fatalf("heartbeat tells %+v, %v, want drained %v, by whom and why", p, err, want)
		}
		list, err := ctl.Workers(t.Context())
		if err != nil || len(list) == 0 || list[0].ID != "w1" || list[0].Drain != out.Drain || list[1].Drain != (lease.Pause{}) {
			t.Fatalf("workers %+v, %v, want w1 drained %v and no other", list, err, want)
		}
		return list[0]
	}
	drained(true)
	wantVerdict(t, "result of a drained worker", w.Report(Done(gs[0], "x")), lease.Accepted)
	f.Restart(t)
	list, err := ctl.Workers(t.Context())
	if err != nil || len(list) != 1 || list[0].Drain.IsZero() || !list[0].Away || !list[0].Seen.IsZero() {
		t.Fatalf("workers after a restart %+v, %v, want the drained one, not seen", list, err)
	}
	other.Beat(lease.Running)
	w.Incarnation++ // it was restarted: the mark is of the worker, not of the process
	wantVerdict(t, "result of a lease from before", w.Report(Done(gs[1], "x")), lease.Accepted)
	wantGrants(t, "claim after restarts", w.Claim(1), 0)
	drained(true)

	resume(t, ctl, of)
	resume(t, ctl, of)
	drained(false)
	wantGrants(t, "claim after it was resumed", w.Claim(1), 1)
	pause(t, ctl, of, time.Minute)
	other.Claim(5)
	f.Clock.Advance(time.Minute)
	other.Beat(lease.Running)
	drained(false)
	if problems, err := ctl.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Fatalf("verify: %v, %v", problems, err)
	}
	kinds := map[lease.EventKind]lease.Event{}
	events, err := ctl.Events(t.Context(), lease.ShardID{}, 0, 1000)
	for _, ev := range events {
		kinds[ev.Kind] = ev
	}
	if p, r := kinds[lease.EventPaused], kinds[lease.EventResumed]; err != nil || p.Target() != of || r.Target() != of || p.For != time.Minute {
		t.Fatalf("events %+v and %+v, %v, want a pause of the worker and its end", p, r, err)
	}
	if j := JobOf(t, ctl, id); !j.Pause.IsZero() {
		t.Fatalf("the job is paused: %+v", j.Pause)
	}
	boss := lease.Actor{ID: "boss", Role: lease.Submitter, Projects: []lease.Project{lease.DefaultProject}}
	if err := f.As(boss).Pause(t.Context(), of, "", 0); !errors.Is(err, lease.ErrForbidden) {
		t.Fatalf("drain by a submitter: %v, want %v", err, lease.ErrForbidden)
	}
	if err := ctl.Pause(t.Context(), lease.Target{Worker: lease.WorkerID(strings.Repeat("w", 201))}, "", 0); !errors.Is(err, lease.ErrTooLarge) {
		t.Fatalf("drain of a long name: %v, want %v", err, lease.ErrTooLarge)
	}
}

// testNoProgress: a lease that runs without a sign of progress is not renewed for
// ever; one that gives signs is, and so is one that waits or whose report does.
func testNoProgress(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 4})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(4)
	phases := []lease.Phase{lease.Running, lease.Running, lease.Waiting, lease.Spooled}
	beat := func(signs uint64) {
		t.Helper()
		b := lease.Beat{Hello: w.Hello}
		for i, g := range gs {
			b.Leases = append(b.Leases, lease.LeaseBeat{Shard: g.Shard, Fence: g.Fence, Phase: phases[i]})
		}
		b.Leases[1].Signs = signs
		if out, err := ctl.Heartbeat(t.Context(), b); err != nil || len(out.Lost) > 0 {
			t.Fatalf("heartbeat %d: %v lost, %v", signs, out.Lost, err)
		}
	}
	end := lease.StallLimit(gs[0].Work) + 2*lease.Term
	for n, up := uint64(0), time.Duration(0); up < end; up += 10 * time.Second {
		beat(n / 4)
		n++
		f.Clock.Advance(10 * time.Second)
		w.Exchange(lease.Exchange{}) // the control plane is awake
	}
	other := NewWorker(t, ctl, "w2")
	taken := other.Claim(4)
	if len(taken) != 1 || taken[0].Shard != gs[0].Shard {
		t.Fatalf("another worker was granted %v, want %v alone: it gave no sign of progress", taken, gs[0].Shard)
	}
	wantVerdict(t, "its result after all", w.Report(Done(gs[0], "x")), lease.Stale)
	wantVerdict(t, "the result of one that went on", w.Report(Done(gs[1], "x")), lease.Accepted)
}
