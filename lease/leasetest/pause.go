package leasetest

import (
	"errors"
	"testing"
	"time"

	"macbatch/lease"
)

func pause(t *testing.T, ctl lease.Control, of lease.Target, d time.Duration) {
	t.Helper()
	if err := ctl.Pause(t.Context(), of, "too hot", d); err != nil {
		t.Fatalf("pause %v: %v", of, err)
	}
}

func resume(t *testing.T, ctl lease.Control, of lease.Target) {
	t.Helper()
	if err := ctl.Resume(t.Context(), of, "cool again"); err != nil {
		t.Fatalf("resume %v: %v", of, err)
	}
}

func testPause(t *testing.T, ctl lease.Control, f *Fixture) {
	id, other := Submit(t, ctl, Params{Items: 4}), Submit(t, ctl, Params{Items: 1})
	of := lease.Target{Job: id}
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(2)
	pause(t, ctl, of, 0)
	j := wantState(t, ctl, id, lease.JobPaused)
	if j.Pause.Actor != Admin.ID || j.Pause.Reason != "too hot" || j.Pause.Job != id || j.Pause.Since.IsZero() {
		t.Fatalf("pause %+v, want who and why", j.Pause)
	}
	next := w.Claim(5)
	if len(next) != 1 || next[0].Shard.Job != other {
		t.Fatalf("granted %v while paused, want only the other job's shard", next)
	}
	if lost := w.Beat(lease.Running, append(gs, next...)...); len(lost) > 0 {
		t.Fatalf("a pause took leases away: %v", lost)
	}
	wantVerdict(t, "result of a lease from before", w.Report(Done(gs[0], "x")), lease.Accepted)
	wantVerdict(t, "failure of one", w.Report(Failed(gs[1], lease.Retryable, "again")), lease.Accepted)
	f.Restart(t)
	f.Clock.Advance(time.Hour) // also what rested stays
	wantGrants(t, "claim after a restart", w.Claim(5), 0)
	wantState(t, ctl, id, lease.JobPaused)

	resume(t, ctl, of)
	resume(t, ctl, of) // of what is not paused: nothing
	wantState(t, ctl, id, lease.JobRunning)
	gs = w.Claim(5)
	wantGrants(t, "claim after the end of the pause", gs, 3)
	for _, g := range gs {
		wantVerdict(t, "result", w.Report(Done(g, "x")), lease.Accepted)
	}
	wantState(t, ctl, id, lease.JobDone)
	if err := ctl.Pause(t.Context(), of, "", 0); !errors.Is(err, lease.ErrNotAllowed) {
		t.Fatalf("pause of a job that is done: %v, want %v", err, lease.ErrNotAllowed)
	}
	if err := ctl.Pause(t.Context(), lease.Target{Job: 12345}, "", 0); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("pause of no job: %v, want %v", err, lease.ErrNotFound)
	}
	if err := ctl.Pause(t.Context(), lease.Target{Job: id, All: true}, "", 0); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("pause of two targets: %v, want %v", err, lease.ErrInvalid)
	}
	for _, k := range []lease.Kind{"no such", "a\x00b", "-k"} {
		if err := ctl.Pause(t.Context(), lease.Target{Kind: k}, "", 0); !errors.Is(err, lease.ErrInvalid) {
			t.Fatalf("pause of kind %q: %v, want %v", k, err, lease.ErrInvalid)
		}
	}
	if err := ctl.Resume(t.Context(), lease.Target{}, ""); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("resume of nothing: %v, want %v", err, lease.ErrInvalid)
	}
	events, err := ctl.Events(t.Context(), lease.ShardID{Job: id}, 0, 100)
	kinds := map[lease.EventKind]lease.Event{}
	for _, ev := range events {
		kinds[ev.Kind] = ev
	}
	if p, r := kinds[lease.EventPaused], kinds[lease.EventResumed]; err != nil || p.Actor != Admin.ID || p.Reason != "too hot" || r.Reason != "cool again" {
		t.Fatalf("events %+v, %v: want who paused and resumed it, and why", events, err)
	}

	// A canceled job is canceled, paused or not.
	pause(t, ctl, lease.Target{Job: Submit(t, ctl, Params{Items: 1})}, time.Minute)
	last, err := ctl.Jobs(t.Context(), 0, 1)
	if err != nil || len(last) != 1 {
		t.Fatalf("jobs: %v, %v", last, err)
	}
	if err := ctl.Cancel(t.Context(), last[0].ID, "enough"); err != nil {
		t.Fatalf("cancel of a paused job: %v", err)
	}
	if j := wantState(t, ctl, last[0].ID, lease.JobCanceled); !j.Pause.IsZero() {
		t.Fatalf("canceled job is still paused: %+v", j.Pause)
	}
}

// testPauseEnds: the end is judged by the time the control plane was up, and a
// restart begins it afresh.
func testPauseEnds(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2})
	w := NewWorker(t, ctl, "w1")
	pause(t, ctl, lease.Target{Job: id}, time.Hour)
	f.Clock.Advance(time.Hour - time.Second)
	wantGrants(t, "claim before the end", w.Claim(1), 0)
	f.Restart(t)
	f.Clock.Advance(time.Hour - time.Second)
	wantGrants(t, "claim before the end, after a restart", w.Claim(1), 0)
	f.Clock.Advance(time.Second)
	wantGrants(t, "claim after the end", w.Claim(1), 1)
	if j := wantState(t, ctl, id, lease.JobRunning); !j.Pause.IsZero() {
		t.Fatalf("pause %+v is over, but there", j.Pause)
	}
	f.Restart(t)
	wantGrants(t, "claim after the end and a restart", w.Claim(1), 1)
}

func testPauseKind(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 4})
	w := NewWorker(t, ctl, "w1")
	for _, of := range []lease.Target{{Kind: Work}, {All: true}} {
		pause(t, ctl, of, 0)
		wantGrants(t, "claim", w.Claim(1), 0)
		f.Restart(t)
		wantGrants(t, "claim after a restart", w.Claim(1), 0)
		pause(t, ctl, of, time.Minute) // another duration, in place of the first
		f.Clock.Advance(time.Minute)
		wantGrants(t, "claim after the end", w.Claim(1), 1)
	}
	pause(t, ctl, lease.Target{Kind: "another"}, 0)
	wantGrants(t, "claim while another kind is paused", w.Claim(1), 1)
	resume(t, ctl, lease.Target{Kind: "another"})
	boss := lease.Actor{ID: "boss", Role: lease.Submitter, Projects: []lease.Project{lease.DefaultProject}}
	for _, of := range []lease.Target{{Kind: Work}, {All: true}} {
		if err := f.As(boss).Pause(t.Context(), of, "", 0); !errors.Is(err, lease.ErrForbidden) {
			t.Fatalf("pause of %v by a submitter: %v, want %v", of, err, lease.ErrForbidden)
		}
	}
}
