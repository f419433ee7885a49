package leasetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
)

// whyTold is the sentence about a worker, or with "" about the shard itself.
func whyTold(t *testing.T, ctl lease.Control, of lease.ShardID, worker lease.WorkerID) string {
	t.Helper()
	out, err := ctl.Why(t.Context(), of)
	if err != nil {
		t.Fatalf("why %v: %v", of, err)
	}
	for _, w := range out.Workers {
		if w.Worker == worker {
			return w.Text
		}
	}
	if worker != "" {
		t.Fatalf("why %v: %+v tells nothing of %s", of, out, worker)
	}
	return out.Text
}

// wantWhy checks a part of a sentence about a shard.
func wantWhy(t *testing.T, ctl lease.Control, of lease.ShardID, worker lease.WorkerID, text string) {
	t.Helper()
	if got := whyTold(t, ctl, of, worker); !strings.Contains(got, text) {
		t.Fatalf("why %v, of worker %q: %q, want %q", of, worker, got, text)
	}
}

// testWhy: each thing that keeps a shard from running is told as it is.
func testWhy(t *testing.T, ctl lease.Control, f *Fixture) {
	first := Submit(t, ctl, Params{Items: 3, Root: "nas"})
	id := Submit(t, ctl, Params{Items: 1, Root: "nas", Then: 1})
	of := lease.ShardID{Job: id, Seq: 1}
	wantWhy(t, ctl, of, "", "it is ready")
	w := NewWorker(t, ctl, "w1")
	w.Offer.Kinds = []lease.Kind{"another"}
	w.Beat(lease.Running)
	wantWhy(t, ctl, of, "w1", "it does not do work")
	w.Offer.Kinds = []lease.Kind{Work}
	w.Beat(lease.Running)
	wantWhy(t, ctl, of, "w1", `it has no root "nas"`)
	w.Offer.Roots = []string{"nas"}
	w.Beat(lease.Running)
	wantWhy(t, ctl, of, "w1", "3 older shards that it can do are before it")
	for _, c := range []struct {
		of   lease.Target
		text string
	}{
		{lease.Target{Job: id}, "its job is paused by admin: too hot"}, {lease.Target{Kind: Work}, "the kind work is paused by admin: too hot"},
		{lease.Target{All: true}, "everything is paused by admin: too hot, for 1h0m0s more"},
	} {
		pause(t, ctl, c.of, time.Hour)
		wantWhy(t, ctl, of, "", c.text)
		wantWhy(t, ctl, of, "w1", "nothing of it is granted")
		resume(t, ctl, c.of)
	}
	pause(t, ctl, lease.Target{Worker: "w1"}, 0)
	wantWhy(t, ctl, of, "w1", "it is drained by admin: too hot")
	resume(t, ctl, lease.Target{Worker: "w1"})

	gs := w.Claim(3)
	wantWhy(t, ctl, gs[0].Shard, "", "not begun as far as is known")
	wantWhy(t, ctl, gs[0].Shard, "w1", "it has it")
	w.Beat(lease.Running, gs...)
	wantWhy(t, ctl, gs[0].Shard, "", "it runs")
	wantWhy(t, ctl, of, "w1", "it is the next one there, once a slot is free")
	v := NewWorker(t, ctl, "w2", "nas")
	v.Beat(lease.Running)
	wantWhy(t, ctl, gs[0].Shard, "w2", "worker w1 has it")
	wantWhy(t, ctl, of, "w2", "the worker does not ask for work")
	v.Request++
	v.Exchange(lease.Exchange{Job: first, Max: 1})
	wantWhy(t, ctl, of, "w2", "it works on job "+first.String()+" only")

	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: gs[0].Shard, Fence: gs[0].Fence, Reason: "the source is still growing", Delay: time.Minute}}})
	wantWhy(t, ctl, gs[0].Shard, "", "it rests for 1m0s more: the source is still growing")
	wantWhy(t, ctl, gs[0].Shard, "w1", "it could, but the shard rests")
	wantVerdict(t, "failure", w.Report(Failed(gs[1], lease.Retryable, "no sound")), lease.Accepted)
	wantWhy(t, ctl, gs[1].Shard, "", "no sound; it failed 1 times of 5")
	wantVerdict(t, "failure for good", w.Report(Failed(gs[2], lease.Permanent, "no film")), lease.Accepted)
	wantWhy(t, ctl, gs[2].Shard, "", "it is failed: no film")
	if out, err := ctl.Why(t.Context(), gs[2].Shard); err != nil || len(out.Workers) > 0 {
		t.Fatalf("why of what ended: %+v, %v, want nothing of workers", out, err)
	}
	if out, err := ctl.Why(t.Context(), lease.ShardID{Job: first}); err != nil || out.Shard.Job != first || out.State != lease.Ready || len(out.Workers) != 2 {
		t.Fatalf("why of a job: %+v, %v, want its first shard that rests", out, err)
	}

	g := w.Claim(1)[0]
	if g.Shard != of {
		t.Fatalf("granted %v, want %v", g.Shard, of)
	}
	w.Beat(lease.Running, g)
	f.Clock.Advance(lease.Term + 10*time.Second)
	wantWhy(t, ctl, of, "", "its worker w1 went silent 10s ago: the next that claims it takes it over")
	wantWhy(t, ctl, of, "w1", "it is silent, for 1m40s now")
	w.Beat(lease.Running, g)
	wantVerdict(t, "result", w.Report(Done(g, "x")), lease.Accepted)
	wantWhy(t, ctl, of, "", "it is done")
	if err := ctl.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	if out, err := ctl.Why(t.Context(), lease.ShardID{Job: id}); err != nil || !strings.Contains(out.Text, "it is canceled: enough") {
		t.Fatalf("why of a canceled job: %+v, %v", out, err)
	}
	for _, none := range []lease.ShardID{{Job: 12345}, {Job: id, Seq: 999}} {
		if _, err := ctl.Why(t.Context(), none); !errors.Is(err, lease.ErrNotFound) {
			t.Fatalf("why of %v, which is not there: %v, want %v", none, err, lease.ErrNotFound)
		}
	}
}

// testWhyScope: who may not see a project is told nothing of it, and nothing of
// workers that are none of his.
func testWhyScope(t *testing.T, ctl lease.Control, f *Fixture) {
	for _, p := range []lease.Project{"ours", "theirs"} {
		if err := ctl.CreateProject(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	add := func(id lease.ActorID, role lease.Role, p ...lease.Project) lease.Control {
		t.Helper()
		a := lease.Actor{ID: id, Role: role, Projects: p}
		if err := ctl.AddActor(t.Context(), a, lease.DigestOf([]byte(id))); err != nil {
			t.Fatal(err)
		}
		return f.As(a)
	}
	ours, theirs := add("ann", lease.Reader, "ours"), add("eve", lease.Reader, "theirs")
	submit := func(p lease.Project) lease.ShardID {
		t.Helper()
		id, err := ctl.Submit(t.Context(), lease.Submission{Project: p, Kind: "test", Params: []byte(`{"items":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		return lease.ShardID{Job: id, Seq: 1}
	}
	submit("theirs")
	of := submit("ours")
	NewWorker(t, add("mac-of-theirs", lease.WorkerRole, "theirs"), "w1").Beat(lease.Running)
	NewWorker(t, add("mac-of-both", lease.WorkerRole, "ours", "theirs"), "w2").Beat(lease.Running)
	if _, err := theirs.Why(t.Context(), of); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("why, asked by a stranger: %v, want %v", err, lease.ErrNotFound)
	}
	out, err := ours.Why(t.Context(), of)
	if err != nil || len(out.Workers) != 1 || out.Workers[0].Worker != "w2" || out.Workers[0].Text != "its turn has not come there" {
		t.Fatalf("why = %+v, %v, want nothing of a worker and a job that are none of hers", out, err)
	}
	wantWhy(t, ctl, of, "w1", `its actor "mac-of-theirs" is not assigned to the project "ours"`)
	if err := ctl.RevokeActor(t.Context(), "mac-of-both"); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, ctl, of, "w2", "its credential was revoked")
	if err := ctl.CloseProject(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, ctl, of, "", `the project "ours" is closed`)
}

// testWithdrawn: what a worker lacks for now is told by its heartbeats, and is the
// reason that is given for what it does not do.
func testWithdrawn(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1, Root: "nas"})
	of := lease.ShardID{Job: id, Seq: 1}
	w := NewWorker(t, ctl, "w1")
	beat := func(lacks ...lease.Withdrawal) error {
		_, err := ctl.Heartbeat(t.Context(), lease.Beat{Hello: w.Hello, Withdrawn: lacks})
		return err
	}
	for _, c := range []struct {
		lacks lease.Withdrawal
		text  string
	}{
		{lease.Withdrawal{Root: "nas", Reason: "it is empty"}, `its root "nas" is away: it is empty`},
		{lease.Withdrawal{Kind: Work, Reason: "no ffmpeg"}, "it does no work: no ffmpeg"},
		{lease.Withdrawal{Reason: "disk low"}, "it takes no work: disk low"},
	} {
		w.Offer.Kinds, w.Offer.Roots = []lease.Kind{Work}, []string{"nas"}
		if c.lacks.Kind != "" {
			w.Offer.Kinds = nil
		}
		if c.lacks.Root != "" {
			w.Offer.Roots = nil
		}
		c.lacks.Age, c.lacks.Again = time.Minute, time.Minute
		if err := beat(c.lacks); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(20 * time.Second)
		wantWhy(t, ctl, of, "w1", c.text+", for 1m20s now, looked at again in 40s")
		if got := JobOf(t, ctl, id).Waits; got != "of worker w1: "+c.text {
			t.Fatalf("the job waits: %q, want %q of worker w1", got, c.text)
		}
		list, err := ctl.Workers(t.Context())
		c.lacks.Age, c.lacks.Again = 80*time.Second, 40*time.Second
		if err != nil || len(list) != 1 || len(list[0].Withdrawn) != 1 || list[0].Withdrawn[0] != c.lacks {
			t.Fatalf("workers %+v, %v, want %+v withdrawn", list, err, c.lacks)
		}
	}
	v := NewWorker(t, ctl, "w2", "nas")
	v.Beat(lease.Running)
	pause(t, ctl, lease.Target{Worker: "w2"}, 0)
	u := NewWorker(t, ctl, "w3", "nas")
	u.Beat(lease.Running)
	pause(t, ctl, lease.Target{Worker: "w3"}, 0)
	if got := JobOf(t, ctl, id).Waits; got != "of 2 workers: it is drained by admin: too hot" {
		t.Fatalf("the job waits: %q, want the commonest reason", got)
	}
	w.Offer.Kinds = []lease.Kind{Work}
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	wantGrants(t, "claim with everything there again", w.Claim(1), 1)
	if err := beat(make([]lease.Withdrawal, lease.MaxWithdrawn+1)...); !errors.Is(err, lease.ErrTooLarge) {
		t.Fatalf("heartbeat with too many: %v, want %v", err, lease.ErrTooLarge)
	}
}
