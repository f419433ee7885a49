package leasetest

import (
	"errors"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// testPrune drops ended jobs and holds that what others need of them stays, that
// late reports are denied and that their ids never come back.
func testPrune(t *testing.T, ctl lease.Control, f *Fixture) {
	w := NewWorker(t, ctl, "w1")
	old := Submit(t, ctl, Params{Items: 2, Reuse: true})
	gs := w.Claim(2)
	w.Report(Done(gs[0], "one"))
	w.Report(Done(gs[1], "two"))
	again := Submit(t, ctl, Params{Items: 3, Reuse: true, Distinct: "again"})
	open := w.Claim(3)
	wantGrants(t, "claim of what is not known", open, 1)

	if err := ctl.Prune(t.Context(), []lease.JobID{old, again}); !errors.Is(err, lease.ErrNotAllowed) {
		t.Fatalf("prune of a job that runs = %v, want ErrNotAllowed", err)
	}
	wantState(t, ctl, old, lease.JobDone)
	for range 2 { // the second finds nothing, and is as good
		if err := ctl.Prune(t.Context(), []lease.JobID{old}); err != nil {
			t.Fatalf("prune: %v", err)
		}
	}
	if _, err := ctl.Job(t.Context(), old); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("pruned job = %v, want ErrNotFound", err)
	}
	wantVerdict(t, "report on a pruned shard", w.Report(Done(gs[0], "one")), lease.Denied)
	f.Restart(t)
	cut := waitCut(t, ctl)
	if cut == 0 {
		t.Fatal("the ledger was not cut")
	}
	shards, err := ctl.Shards(t.Context(), again, 0, 10, true)
	if err != nil || len(shards) != 3 || string(shards[0].Result.Inline) != `{"text":"one"}` || shards[0].From.Job != old {
		t.Fatalf("shards = %+v, %v, want the result that the pruned job left", shards, err)
	}
	events, err := ctl.Events(t.Context(), shards[0].ID, 0, 10)
	if err != nil || len(events) != 1 || events[0].Kind != lease.EventCarried {
		t.Fatalf("events = %+v, %v, want the carried one", events, err)
	}
	wantVerdict(t, "result of a carried lease", w.Report(Done(open[0], "three")), lease.Accepted)
	wantState(t, ctl, again, lease.JobDone)
	if next := Submit(t, ctl, Params{Items: 1}); next <= again {
		t.Fatalf("job %v after %v", next, again)
	}
	// Now nobody needs the value that stayed.
	if err := ctl.Prune(t.Context(), []lease.JobID{again}); err != nil {
		t.Fatalf("prune: %v", err)
	}
	waitCut(t, ctl)
	f.Stop(t)
	err = f.Engine.View(func(r kv.Reader) error {
		r.Scan([]byte("o"), []byte("p"), func(k, _ []byte) bool {
			t.Errorf("value %q is left, of no shard", k)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitCut runs commands until a prune is through and returns the sequence that
// the newest checkpoint sealed.
func waitCut(t *testing.T, ctl lease.Control) (cut uint64) {
	t.Helper()
	for range 200 { // a step of it precedes each, and it takes about twenty
		if _, err := ctl.Exchange(t.Context(), lease.Exchange{}); err != nil {
			t.Fatalf("exchange: %v", err)
		}
	}
	for after := uint64(0); ; {
		events, err := ctl.Events(t.Context(), lease.ShardID{}, after, 0)
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		if len(events) == 0 {
			return cut
		}
		for _, ev := range events {
			if after = ev.Seq; ev.Kind == lease.EventCheckpoint {
				cut = ev.Cut
			}
		}
	}
}
