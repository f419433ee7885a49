package leasetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"macbatch/lease"
)

// TestControl is the contract of lease.Control. open gives a control bound to
// Admin, with the running store behind it.
func TestControl(t *testing.T, open func(t *testing.T) (lease.Control, *Fixture)) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, lease.Control, *Fixture)
	}{
		{"life of a job", testLife},
		{"first in first out", testOrder},
		{"verdicts", testVerdicts},
		{"invalid results", testInvalid},
		{"blobs", testBlobs},
		{"kept blobs", testKeep},
		{"budget", testBudget},
		{"lapse", testLapse},
		{"repeated claim", testRepeatedClaim},
		{"marks", testMark},
		{"restarted worker", testRestartedWorker},
		{"twin", testTwin},
		{"failures", testFailures},
		{"pipeline", testPipeline},
		{"dependency", testDependency},
		{"reuse", testReuse},
		{"cancel", testCancel},
		{"pause", testPause},
		{"pause that ends", testPauseEnds},
		{"pause of a kind and of all", testPauseKind},
		{"drain", testDrain},
		{"why", testWhy},
		{"why, to others", testWhyScope},
		{"withdrawn", testWithdrawn},
		{"no progress", testNoProgress},
		{"retry", testRetry},
		{"money", testMoney},
		{"held up", testHeldUp},
		{"parked", testParked},
		{"unknown outcome", testUnknown},
		{"retry of a chain", testRetryChain},
		{"retry of a producer", testRetryProducer},
		{"retry of a canceled job", testRetryCanceled},
		{"retry of what is done", testRetryDone},
		{"retry of a list", testRetryList},
		{"census", testCensus},
		{"search", testSearch},
		{"waits", testWaits},
		{"labels", testLabels},
		{"followed events", testFollow},
		{"poison", testPoison},
		{"restart", testRestart},
		{"clock steps", testClockSteps},
		{"stall", testStall},
		{"release", testRelease},
		{"old heartbeat", testOldBeat},
		{"errors", testErrors},
		{"waiting claim", testWaitingClaim},
		{"asked back", testBack},
		{"prune", testPrune},
		{"backup", testBackup},
		{"projects and actors", testRegistry},
		{"list", testList},
		{"list outcomes", testListOutcomes},
		{"list reuse", testListReuse},
		{"long list", testLongList},
		{"canceled list", testCanceledList},
		{"list refused", testListRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctl, f := open(t)
			c.run(t, ctl, f)
		})
	}
}

func wantVerdict(t *testing.T, what string, got lease.Judgement, want lease.Verdict) {
	t.Helper()
	if got.Verdict != want {
		t.Fatalf("%s: verdict %s (%s), want %s", what, got.Verdict, got.Reason, want)
	}
}

func wantGrants(t *testing.T, what string, got []lease.Grant, want int) {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%s: %d grants, want %d", what, len(got), want)
	}
}

func wantState(t *testing.T, ctl lease.Control, id lease.JobID, want lease.JobState) lease.Job {
	t.Helper()
	j := JobOf(t, ctl, id)
	if j.State != want {
		t.Fatalf("job %v is %s (%+v), want %s", id, j.State, j.Shards, want)
	}
	return j
}

func testLife(t *testing.T, ctl lease.Control, _ *Fixture) {
	id := Submit(t, ctl, Params{Items: 2})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(5)
	wantGrants(t, "claim of five", gs, 2)
	if gs[0].Term != lease.Term || gs[0].Fence >= gs[1].Fence || gs[0].Token == "" || gs[0].Token == gs[1].Token {
		t.Fatalf("grants %+v: want a term, rising fences and tokens of their own", gs)
	}
	wantVerdict(t, "first result", w.Report(Done(gs[0], "one")), lease.Accepted)
	wantState(t, ctl, id, lease.JobRunning)
	// One request completes and claims.
	w.Request++
	out := w.Exchange(lease.Exchange{Reports: []lease.Report{Done(gs[1], "two")}, Max: 1})
	wantVerdict(t, "second result", out.Verdicts[0], lease.Accepted)
	wantGrants(t, "claim of an empty queue", out.Grants, 0)
	j := wantState(t, ctl, id, lease.JobDone)
	if j.Items.Done != 2 || j.Items.Total != 2 || j.Work.Done != 20 {
		t.Fatalf("job counts items %+v and work %+v, want 2 done of 2 and 20 done", j.Items, j.Work)
	}
	shards, err := ctl.Shards(t.Context(), id, 0, 10, true)
	if err != nil || len(shards) != 2 || string(shards[0].Result.Inline) != `{"text":"one"}` {
		t.Fatalf("shards = %+v, %v, want two with their results", shards, err)
	}
	events, err := ctl.Events(t.Context(), lease.ShardID{Job: id, Seq: 1}, 0, 10)
	if err != nil {
		t.Fatalf("events: %v", err)
	}
	kinds := ""
	for _, ev := range events {
		kinds += string(ev.Kind) + " "
	}
	if kinds != "queued leased done " {
		t.Fatalf("events of a shard = %q, want queued leased done", kinds)
	}
	for _, of := range []lease.ShardID{{}, {Job: id}, {Job: id, Seq: 1}} {
		if past, err := ctl.Events(t.Context(), of, math.MaxUint64, 10); err != nil || len(past) > 0 {
			t.Fatalf("events of %v behind the last: %v, %v, want none", of, past, err)
		}
	}
	all, err := ctl.Events(t.Context(), lease.ShardID{Job: id}, 0, 100)
	if err != nil || len(all) != 7 {
		t.Fatalf("events of the job = %d, %v, want 7", len(all), err)
	}
	problems, err := ctl.Verify(t.Context())
	if err != nil || len(problems) > 0 {
		t.Fatalf("verify = %v, %v, want no problems", problems, err)
	}
	workers, err := ctl.Workers(t.Context())
	if err != nil || len(workers) != 1 || workers[0].ID != "w1" {
		t.Fatalf("workers = %+v, %v, want w1", workers, err)
	}
}

func testOrder(t *testing.T, ctl lease.Control, _ *Fixture) {
	first := Submit(t, ctl, Params{Items: 3})
	second := Submit(t, ctl, Params{Items: 1})
	elsewhere := Submit(t, ctl, Params{Items: 1, Root: "nas"})
	urgent, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: []byte(`{"items":1}`), Priority: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got []lease.ShardID
	for _, g := range NewWorker(t, ctl, "w1").Claim(10) {
		got = append(got, g.Shard)
	}
	want := []lease.ShardID{{Job: urgent, Seq: 1}, {Job: first, Seq: 1}, {Job: first, Seq: 2}, {Job: first, Seq: 3}, {Job: second, Seq: 1}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("granted %v, want %v", got, want)
	}
	gs := NewWorker(t, ctl, "w2", "nas").Claim(10)
	if len(gs) != 1 || gs[0].Shard.Job != elsewhere {
		t.Fatalf("worker with the root got %v, want a shard of %v", gs, elsewhere)
	}
}

func testVerdicts(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 1})
	w := NewWorker(t, ctl, "w1")
	g := w.Claim(1)[0]
	forged := Done(g, "x")
	forged.Token = "0000"
	wantVerdict(t, "wrong token", w.Report(forged), lease.Denied)
	nowhere := Done(g, "x")
	nowhere.Shard.Seq = 99
	wantVerdict(t, "no such shard", w.Report(nowhere), lease.Denied)
	old := Done(g, "x")
	old.Fence--
	wantVerdict(t, "older fence", w.Report(old), lease.Stale)
	wantVerdict(t, "result", w.Report(Done(g, "x")), lease.Accepted)
	f.Restart(t) // an answer is remembered across restarts
	wantVerdict(t, "the same again", w.Report(Done(g, "x")), lease.Duplicate)
	wantVerdict(t, "another result", w.Report(Done(g, "y")), lease.Conflict)
	events, err := ctl.Events(t.Context(), g.Shard, 0, 100)
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events after replays, %v, want 3", len(events), err)
	}
}

func testInvalid(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1})
	w := NewWorker(t, ctl, "w1")
	for i := range lease.MaxFailures {
		gs := w.Claim(1)
		wantGrants(t, fmt.Sprintf("attempt %d", i+1), gs, 1)
		bad := Bad(gs[0])
		if i == 1 {
			bad = Done(gs[0], "x")
			bad.Bytes++
		}
		wantVerdict(t, "bad result", w.Report(bad), lease.InvalidReport)
		wantVerdict(t, "bad result again", w.Report(bad), lease.Duplicate)
		f.Clock.Advance(10 * time.Minute)
	}
	j := wantState(t, ctl, id, lease.JobFailed)
	if j.Items.Failed != 1 {
		t.Fatalf("items %+v, want one failed", j.Items)
	}
}

func testBlobs(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1, Then: 2, Sound: true})
	w := NewWorker(t, ctl, "w1")
	g := w.Claim(1)[0]
	rep := Done(g, "x", SoundOf(g.Shard))
	v := w.Report(rep)
	wantVerdict(t, "blob not here", v, lease.NeedBlobs)
	if len(v.Missing) != 1 || v.Missing[0] != SoundOf(g.Shard) {
		t.Fatalf("missing %v, want the sound", v.Missing)
	}
	d := w.Sound(g)
	wantVerdict(t, "blob here", w.Report(rep), lease.Accepted)
	r, n, err := ctl.Blob(t.Context(), lease.ShardID{Job: id, Seq: 2}, d)
	if err != nil || n != int64(len(SoundBytes(g.Shard))) {
		t.Fatalf("blob = %d bytes, %v", n, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, g := range w.Claim(2) {
		wantVerdict(t, "planned", w.Report(Done(g, "y")), lease.Accepted)
	}
	if here, _ := f.Blobs.Has(d); here {
		t.Fatal("the sound is still there, though nothing needs it any more")
	}
	g = w.Claim(1)[0]
	wantVerdict(t, "join", w.Report(Done(g, "z")), lease.Accepted)
	wantState(t, ctl, id, lease.JobDone)
}

// testBudget: a fixture's store lets one byte wait.
func testBudget(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2, Then: 1, Sound: true, Bulky: true})
	w := NewWorker(t, ctl, "w1")
	g := w.Claim(1)[0]
	wantVerdict(t, "sound", w.Report(Done(g, "a", w.Sound(g))), lease.Accepted)
	f.Restart(t)
	gs := w.Claim(5)
	if len(gs) != 1 || gs[0].Shard.Seq == 2 {
		t.Fatalf("granted %v while sound waits, want only the shard that consumes it", gs)
	}
	wantVerdict(t, "consumer", w.Report(Done(gs[0], "b")), lease.Accepted)
	gs = w.Claim(5)
	if len(gs) != 2 {
		t.Fatalf("granted %v when no sound waits, want the join and the other bulky shard", gs)
	}
	wantState(t, ctl, id, lease.JobRunning)
}

func testLapse(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1})
	w1, w2 := NewWorker(t, ctl, "w1"), NewWorker(t, ctl, "w2")
	g1 := w1.Claim(1)[0]
	f.beatFor(w1, lease.Term-time.Second)
	wantGrants(t, "claim before the deadline", w2.Claim(1), 0)
	if lost := w1.Beat(lease.Running, g1); len(lost) > 0 {
		t.Fatalf("lost %v, want none", lost)
	}
	f.beatFor(w1, lease.Term-time.Second)
	wantGrants(t, "claim after a renewal", w2.Claim(1), 0)
	f.beatFor(w1, 2*time.Second)
	shards, err := ctl.Shards(t.Context(), id, 0, 1, false)
	if err != nil || !shards[0].Lapsed(f.Clock.Now()) || shards[0].State != lease.Leased {
		t.Fatalf("shard %+v, %v: want it leased and lapsed", shards, err)
	}
	if lost := w1.Beat(lease.Running, g1); len(lost) > 0 {
		t.Fatalf("a heartbeat after the lapse lost %v, want the lease revived", lost)
	}
	wantGrants(t, "claim of a revived shard", w2.Claim(1), 0)
	f.beatFor(w1, lease.Term+time.Second)
	gs := w2.Claim(1)
	wantGrants(t, "claim after the lapse", gs, 1)
	if gs[0].Fence <= g1.Fence {
		t.Fatalf("fence %v after %v, want it higher", gs[0].Fence, g1.Fence)
	}
	if lost := w1.Beat(lease.Running, g1); len(lost) != 1 {
		t.Fatalf("lost %v, want the shard that was taken over", lost)
	}
	wantVerdict(t, "late result of the old holder", w1.Report(Done(g1, "late")), lease.Stale)
	wantVerdict(t, "result of the new holder", w2.Report(Done(gs[0], "new")), lease.Accepted)

	// A lapsed shard that nobody took over is still its holder's.
	Submit(t, ctl, Params{Items: 1})
	g := w1.Claim(1)[0]
	f.beatFor(w1, 2*lease.Term)
	wantVerdict(t, "late result, not taken over", w1.Report(Done(g, "late")), lease.Accepted)
}

// beatFor lets time pass in small steps, in which the control plane is awake.
func (f *Fixture) beatFor(w *Worker, d time.Duration) {
	for step := lease.Heartbeat / 3; d > 0; d -= step {
		f.Clock.Advance(min(d, step))
		w.Exchange(lease.Exchange{}) // any command makes it look at the clock
	}
}

func testRepeatedClaim(t *testing.T, ctl lease.Control, _ *Fixture) {
	Submit(t, ctl, Params{Items: 10})
	w := NewWorker(t, ctl, "w1")
	first := w.Claim(3)
	again := w.Exchange(lease.Exchange{Max: 3}).Grants
	if fmt.Sprint(again) != fmt.Sprint(first) {
		t.Fatalf("the repeated claim got %v, want %v", again, first)
	}
	next := w.Claim(3)
	if next[0].Shard.Seq != 4 {
		t.Fatalf("the next claim got %v, want shard 4 on", next)
	}
	w.Request -= 1
	if _, err := w.Try(lease.Exchange{Max: 1}); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("an older claim: %v, want %v", err, lease.ErrInvalid)
	}
}

func testRestartedWorker(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2})
	w := NewWorker(t, ctl, "w1")
	old := w.Claim(2)
	w.Incarnation, w.Request = 2, 0
	// It delivers what its predecessor finished, and then claims the rest at once.
	wantVerdict(t, "spooled by the older incarnation", w.Report(Done(old[0], "x")), lease.Accepted)
	gs := w.Claim(2)
	wantGrants(t, "first claim of the new incarnation", gs, 1)
	if gs[0].Shard != old[1].Shard {
		t.Fatalf("granted %v, want %v", gs[0].Shard, old[1].Shard)
	}
	wantVerdict(t, "result of the older incarnation", w.Report(Done(old[1], "x")), lease.Stale)
	wantVerdict(t, "result", w.Report(Done(gs[0], "x")), lease.Accepted)
	wantState(t, ctl, id, lease.JobDone)
	w.Incarnation = 1
	if _, err := w.Try(lease.Exchange{Max: 1}); !errors.Is(err, lease.ErrTwin) {
		t.Fatalf("claim of the older incarnation: %v, want %v", err, lease.ErrTwin)
	}
	_ = f
}

func testTwin(t *testing.T, ctl lease.Control, f *Fixture) {
	w := NewWorker(t, ctl, "w1")
	w.Claim(1)
	clone := NewWorker(t, ctl, "w1")
	clone.Machine, clone.Incarnation = "another", 2
	if _, err := clone.Try(lease.Exchange{Max: 1}); !errors.Is(err, lease.ErrTwin) {
		t.Fatalf("claim of a copied worker: %v, want %v", err, lease.ErrTwin)
	}
	f.Clock.Advance(lease.Term + time.Second)
	wantGrants(t, "claim after the original is gone", clone.Claim(1), 0)
}

func testFailures(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(2)
	wantVerdict(t, "permanent failure", w.Report(Failed(gs[0], lease.Permanent, "no film")), lease.Accepted)
	wantVerdict(t, "retryable failure", w.Report(Failed(gs[1], lease.Retryable, "try again")), lease.Accepted)
	wantVerdict(t, "the same failure again", w.Report(Failed(gs[1], lease.Retryable, "try again")), lease.Duplicate)
	f.Clock.Advance(10 * time.Minute)
	for i := 1; i < lease.MaxFailures; i++ {
		g := w.Claim(1)
		wantGrants(t, fmt.Sprintf("attempt %d", i+1), g, 1)
		wantVerdict(t, "failure", w.Report(Failed(g[0], lease.Retryable, fmt.Sprint("failure ", i))), lease.Accepted)
		f.Clock.Advance(10 * time.Minute)
	}
	wantGrants(t, "claim after the last attempt", w.Claim(1), 0)
	j := wantState(t, ctl, id, lease.JobFailed)
	if j.Items.Failed != 2 {
		t.Fatalf("items %+v, want two failed", j.Items)
	}
	shards, err := ctl.Shards(t.Context(), id, 0, 10, false)
	if err != nil || shards[0].Class != lease.Permanent || shards[0].Reason != "no film" || shards[1].Failures != lease.MaxFailures {
		t.Fatalf("shards %+v, %v: want the reasons kept", shards, err)
	}
}

func testPipeline(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2, Then: 3})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(1)
	wantVerdict(t, "first stage", w.Report(Done(gs[0], "a")), lease.Accepted)
	f.Restart(t)
	gs = w.Claim(10)
	wantGrants(t, "claim of all", gs, 4) // three planned ones, before the second item
	if gs[0].Shard.Seq != 3 || gs[3].Shard.Seq != 2 {
		t.Fatalf("granted %v, want the later stages of the first item first", gs)
	}
	for _, g := range gs[:3] {
		wantVerdict(t, "second stage", w.Report(Done(g, fmt.Sprint("part ", g.Shard.Seq))), lease.Accepted)
	}
	join := w.Claim(1)
	wantGrants(t, "join", join, 1)
	if len(join[0].Needs) != 3 || string(join[0].Needs[1].Inline) != `{"text":"part 4"}` {
		t.Fatalf("the join was given %+v, want the three results", join[0].Needs)
	}
	wantVerdict(t, "join", w.Report(Done(join[0], "z")), lease.Accepted)
	j := JobOf(t, ctl, id)
	if j.Items.Done != 1 || j.Items.Total != 2 || j.Work.Total != 13 || j.Work.Done != 3 {
		t.Fatalf("items %+v work %+v, want 1 of 2, and 3 of 13", j.Items, j.Work)
	}
}

func testDependency(t *testing.T, ctl lease.Control, _ *Fixture) {
	id := Submit(t, ctl, Params{Items: 1, Then: 2})
	w := NewWorker(t, ctl, "w1")
	wantVerdict(t, "first stage", w.Report(Done(w.Claim(1)[0], "a")), lease.Accepted)
	gs := w.Claim(2)
	wantVerdict(t, "part", w.Report(Failed(gs[0], lease.Permanent, "broken")), lease.Accepted)
	wantVerdict(t, "other part", w.Report(Done(gs[1], "b")), lease.Accepted)
	j := wantState(t, ctl, id, lease.JobFailed)
	if j.Items.Failed != 1 || j.Shards.Failed != 2 {
		t.Fatalf("items %+v shards %+v, want the join failed with its part", j.Items, j.Shards)
	}
}

func testReuse(t *testing.T, ctl lease.Control, f *Fixture) {
	p := Params{Items: 2, Then: 2, Sound: true, Reuse: true, Distinct: "a"}
	w := NewWorker(t, ctl, "w1")
	work := func() (done int) {
		for {
			gs := w.Claim(4)
			if len(gs) == 0 {
				return done
			}
			for _, g := range gs {
				wantVerdict(t, "result", w.Report(Done(g, "x", w.Sound(g))), lease.Accepted)
				done++
			}
		}
	}
	first := Submit(t, ctl, p)
	if n := work(); n != 8 {
		t.Fatalf("the first job took %d attempts, want 8", n)
	}
	f.Restart(t)
	p.Distinct = "b"
	second := Submit(t, ctl, p)
	if n := work(); n != 2 { // joins are not reusable
		t.Fatalf("the second job took %d attempts, want 2", n)
	}
	j := wantState(t, ctl, second, lease.JobDone)
	if j.Items.Done != 2 || j.Work != JobOf(t, ctl, first).Work {
		t.Fatalf("items %+v work %+v, want as in the first job", j.Items, j.Work)
	}
	shards, err := ctl.Shards(t.Context(), second, 0, 1, true)
	if err != nil || shards[0].From != (lease.ShardID{Job: first, Seq: 1}) || string(shards[0].Result.Inline) != `{"text":"x"}` {
		t.Fatalf("shard %+v, %v: want the first job's result", shards, err)
	}
}

func testCancel(t *testing.T, ctl lease.Control, _ *Fixture) {
	id := Submit(t, ctl, Params{Items: 2500})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(2)
	wantVerdict(t, "before the cancel", w.Report(Done(gs[0], "x")), lease.Accepted)
	if err := ctl.Cancel(t.Context(), id, "not needed"); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if v := w.Report(Done(gs[1], "x")); v.Verdict != lease.Stale {
		t.Fatalf("a result after the cancel: %s, want %s", v.Verdict, lease.Stale)
	}
	wantVerdict(t, "replay of an earlier result", w.Report(Done(gs[0], "x")), lease.Duplicate)
	wantGrants(t, "claim after the cancel", w.Claim(1), 0)
	if lost := w.Beat(lease.Running, gs[1]); len(lost) != 1 {
		t.Fatalf("lost %v, want the canceled shard", lost)
	}
	if err := ctl.Cancel(t.Context(), id, "again"); err != nil {
		t.Fatalf("cancel again: %v", err)
	}
	j := wantState(t, ctl, id, lease.JobCanceled)
	for j.Shards.Open() > 0 { // the rows follow in pages
		j = JobOf(t, ctl, id)
	}
	if j.Reason != "not needed" || j.Shards.Canceled != 2499 || j.Shards.Done != 1 {
		t.Fatalf("job %+v, want 2499 shards canceled", j)
	}
}

func testPoison(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 3})
	w := NewWorker(t, ctl, "w1")
	finished := map[uint32]bool{}
	for life := 1; life <= 40; life++ {
		w.Incarnation, w.Request = uint64(life), 0
		gs := w.Claim(2)
		for _, g := range gs {
			w.Beat(lease.Running, g)
		}
		for _, g := range gs {
			if g.Shard.Seq == 1 { // it kills its worker, and with it whatever runs beside it
				gs = nil
			}
		}
		for _, g := range gs {
			wantVerdict(t, "innocent", w.Report(Done(g, "x")), lease.Accepted)
			finished[g.Shard.Seq] = true
		}
		f.Clock.Advance(time.Second)
	}
	j := wantState(t, ctl, id, lease.JobPartial)
	if len(finished) != 2 || j.Shards.Failed != 1 {
		t.Fatalf("finished %v, shards %+v: want the two innocent ones done and one poison", finished, j.Shards)
	}
	shards, err := ctl.Shards(t.Context(), id, 0, 3, false)
	if err != nil || shards[0].Class != lease.Poison {
		t.Fatalf("first shard %+v, %v: want poison", shards[0], err)
	}
}

func testRestart(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 2})
	w1, w2 := NewWorker(t, ctl, "w1"), NewWorker(t, ctl, "w2")
	gs := w1.Claim(1)
	f.beatFor(w2, lease.Term-time.Second)
	f.Restart(t)
	f.Clock.Advance(2 * time.Second)
	g2 := w2.Claim(5)
	if len(g2) != 1 || g2[0].Shard == gs[0].Shard || g2[0].Fence <= gs[0].Fence {
		t.Fatalf("granted %v after a restart, want only the other shard, under a higher fence", g2)
	}
	f.beatFor(w2, lease.Term)
	wantVerdict(t, "other shard", w2.Report(Done(g2[0], "x")), lease.Accepted)
	wantGrants(t, "claim one term after the restart", w2.Claim(5), 1)
}

func testClockSteps(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 1})
	w1, w2 := NewWorker(t, ctl, "w1"), NewWorker(t, ctl, "w2")
	g := w1.Claim(1)[0]
	for _, d := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour} {
		f.Clock.Step(d)
		wantGrants(t, fmt.Sprintf("claim after the clock stepped by %v", d), w2.Claim(1), 0)
	}
	wantVerdict(t, "result", w1.Report(Done(g, "x")), lease.Accepted)
}

func testStall(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 1})
	w1, w2 := NewWorker(t, ctl, "w1"), NewWorker(t, ctl, "w2")
	w1.Claim(1)
	f.Clock.Advance(time.Hour) // the control plane slept
	wantGrants(t, "claim right after a sleep", w2.Claim(1), 0)
	f.beatFor(w2, lease.Term+time.Second)
	wantGrants(t, "claim a term later", w2.Claim(1), 1)
}

func testRelease(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1})
	w := NewWorker(t, ctl, "w1")
	for range 10 {
		g := w.Claim(1)
		wantGrants(t, "claim", g, 1)
		w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: g[0].Shard, Fence: g[0].Fence, Reason: "root not mounted", Delay: time.Minute}}})
		wantGrants(t, "claim while it rests", w.Claim(1), 0)
		f.Clock.Advance(time.Minute)
		wantVerdict(t, "result after the release", w.Report(Done(g[0], "x")), lease.Stale)
	}
	g := w.Claim(1)
	wantVerdict(t, "result", w.Report(Done(g[0], "x")), lease.Accepted)
	wantState(t, ctl, id, lease.JobDone)
}

// testOldBeat: a heartbeat under a fence that is over renews nothing, though the
// same worker holds the shard again.
func testOldBeat(t *testing.T, ctl lease.Control, f *Fixture) {
	Submit(t, ctl, Params{Items: 1})
	w := NewWorker(t, ctl, "w1")
	old := w.Claim(1)[0]
	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: old.Shard, Fence: old.Fence, Reason: "low disk"}}})
	now := w.Claim(1)
	wantGrants(t, "claim again", now, 1)
	for range lease.Term / (10 * time.Second) {
		f.Clock.Advance(10 * time.Second)
		w.Exchange(lease.Exchange{}) // the control plane is awake
		if lost := w.Beat(lease.Running, old); len(lost) != 1 || lost[0] != old.Shard {
			t.Fatalf("heartbeat under fence %v loses %v, the shard is held under %v", old.Fence, lost, now[0].Fence)
		}
	}
	f.Clock.Advance(time.Second)
	wantGrants(t, "claim by another", NewWorker(t, ctl, "w2").Claim(1), 1)
}

func testErrors(t *testing.T, ctl lease.Control, _ *Fixture) {
	ctx := t.Context()
	if _, err := ctl.Job(ctx, 12345); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("job that is not there: %v, want %v", err, lease.ErrNotFound)
	}
	if err := ctl.Cancel(ctx, 12345, ""); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("cancel of no job: %v, want %v", err, lease.ErrNotFound)
	}
	if _, err := ctl.Submit(ctx, lease.Submission{Kind: "no such kind", Params: []byte("{}")}); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("submit of an unknown kind: %v, want %v", err, lease.ErrInvalid)
	}
	sub := lease.Submission{Kind: "test", Params: []byte(`{"items":1}`), Key: "k"}
	a, err1 := ctl.Submit(ctx, sub)
	b, err2 := ctl.Submit(ctx, sub)
	if err1 != nil || err2 != nil || a != b {
		t.Errorf("submit twice under one key: %v %v, %v %v, want one job", a, b, err1, err2)
	}
	sub.Params = []byte(`{"items":2}`)
	if _, err := ctl.Submit(ctx, sub); !errors.Is(err, lease.ErrKeyReused) {
		t.Errorf("another submission under the key: %v, want %v", err, lease.ErrKeyReused)
	}
	if _, _, err := ctl.Blob(ctx, lease.ShardID{Job: a, Seq: 1}, lease.Digest{1}); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("blob that is not there: %v, want %v", err, lease.ErrNotFound)
	}
}

func testWaitingClaim(t *testing.T, ctl lease.Control, _ *Fixture) {
	w := NewWorker(t, ctl, "w1")
	got := make(chan []lease.Grant)
	go func() {
		w.Request++
		out, _ := w.Try(lease.Exchange{Max: 1, Wait: lease.MaxWait})
		got <- out.Grants
	}()
	Submit(t, ctl, Params{Items: 1})
	wantGrants(t, "a claim that waited", <-got, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ctl.Exchange(ctx, lease.Exchange{Hello: w.Hello, Request: 9, Max: 1, Wait: lease.MaxWait}); err == nil {
		t.Error("a claim whose context ended returned no error")
	}
}

func testRegistry(t *testing.T, ctl lease.Control, f *Fixture) {
	ctx := t.Context()
	must := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	ann := lease.Actor{ID: "ann@home", Role: lease.Submitter, Projects: []lease.Project{"films", lease.DefaultProject}}
	for range 2 { // what is asked for twice is done once
		must("create", ctl.CreateProject(ctx, "films"), nil)
		must("close", ctl.CloseProject(ctx, "films"), nil)
		must("add", ctl.AddActor(ctx, ann, lease.Digest{1}), nil)
		must("unassign", ctl.Unassign(ctx, ann.ID, lease.DefaultProject), nil)
		must("rotate", ctl.RotateActor(ctx, ann.ID, lease.Digest{2}, 0), nil)
		must("add after a rotation", ctl.AddActor(ctx, ann, lease.Digest{1}), lease.ErrNotAllowed)
		must("rotate back", ctl.RotateActor(ctx, ann.ID, lease.Digest{1}, 0), nil)
		must("assign", ctl.Assign(ctx, ann.ID, lease.DefaultProject), nil)
		must("open", ctl.OpenProject(ctx, "films"), nil)
	}
	f.Restart(t)
	ps, err := ctl.Projects(ctx)
	if err != nil || len(ps) != 2 || ps[0].Project != lease.DefaultProject || ps[1].Project != "films" || ps[1].Closed || ps[1].Events != 5 {
		t.Fatalf("projects = %+v, %v, want default and films, open after five events", ps, err)
	}
	who, err := ctl.Actors(ctx)
	if err != nil || len(who) != 1 || who[0].ID != ann.ID || who[0].Role != ann.Role || fmt.Sprint(who[0].Projects) != "[default films]" || who[0].Revoked {
		t.Fatalf("actors = %+v, %v, want ann in both projects", who, err)
	}
	for range 2 {
		must("revoke", ctl.RevokeActor(ctx, ann.ID), nil)
	}
	must("assign a revoked actor", ctl.Assign(ctx, ann.ID, "films"), lease.ErrNotFound)
	must("assign to no project", ctl.Assign(ctx, ann.ID, "nowhere"), lease.ErrNotFound)
	must("rotate nobody", ctl.RotateActor(ctx, "bob", lease.Digest{1}, 0), lease.ErrNotFound)
	must("revoke nobody", ctl.RevokeActor(ctx, "bob"), lease.ErrNotFound)
	must("close nothing", ctl.CloseProject(ctx, "nowhere"), lease.ErrNotFound)
	must("a role that is none", ctl.AddActor(ctx, lease.Actor{ID: "bob", Role: "boss"}, lease.Digest{1}), lease.ErrInvalid)
	must("a name for a token's end", ctl.AddActor(ctx, lease.Actor{ID: "b_b", Role: lease.Reader}, lease.Digest{1}), lease.ErrInvalid)
	must("an actor of no project", ctl.AddActor(ctx, lease.Actor{ID: "bob", Role: lease.Reader, Projects: []lease.Project{"nowhere"}}, lease.Digest{1}), lease.ErrNotFound)
	for _, p := range []lease.Project{"", "..", "-x", "a/b", "a b", "a\n", "a\x00", "\xff", lease.Project(make([]byte, 101))} {
		must(fmt.Sprintf("create %q", p), ctl.CreateProject(ctx, p), lease.ErrInvalid)
	}
	must("create a name of many letters", ctl.CreateProject(ctx, "Фильмы-2.b_c"), nil)
	testInvite(t, ctl, f)
	_, err = ctl.Submit(ctx, lease.Submission{Project: "nowhere", Kind: "test", Params: []byte(`{"items":1}`)})
	must("submit to no project", err, lease.ErrNotFound)
}
