package leasetest

import (
	"context"
	"errors"
	"testing"

	"macbatch/lease"
)

// testFollow: who waits is told of the next event of what it follows, and only of that.
func testFollow(t *testing.T, ctl lease.Control, f *Fixture) {
	id, other := Submit(t, ctl, Params{Items: 1}), Submit(t, ctl, Params{Items: 3})
	kinds := func(of lease.ShardID, after uint64) (kinds []lease.EventKind, last uint64) {
		t.Helper()
		events, err := ctl.Follow(t.Context(), of, after, 0, lease.MaxWait)
		if err != nil {
			t.Fatalf("follow %v above %d: %v", of, after, err)
		}
		for _, ev := range events {
			if ev.Job != of.Job || of.Seq != 0 && ev.Shard != of.Seq || ev.Seq <= after {
				t.Fatalf("follow %v above %d tells of %+v", of, after, ev)
			}
			kinds, last = append(kinds, ev.Kind), ev.Seq
		}
		return kinds, last
	}
	job, shard := lease.ShardID{Job: id}, lease.ShardID{Job: id, Seq: 1}
	got, last := kinds(job, 0)
	if len(got) != 2 || got[0] != lease.EventSubmitted || got[1] != lease.EventQueued {
		t.Fatalf("the job so far: %v, want submitted and queued", got)
	}
	if got, _ := kinds(shard, 0); len(got) != 1 {
		t.Fatalf("the shard so far: %v, want one event", got)
	}
	if events, err := ctl.Follow(t.Context(), job, last, 0, 1); err != nil || len(events) > 0 {
		t.Fatalf("follow for a nanosecond: %v, %v, want nothing", events, err)
	}
	w := NewWorker(t, ctl, "w1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, of := range []lease.ShardID{job, shard} {
		told := make(chan []lease.Event)
		go func() {
			events, err := ctl.Follow(ctx, of, last, 0, lease.MaxWait)
			if err != nil {
				t.Errorf("follow %v: %v", of, err)
			}
			told <- events
		}()
		w.Request++
		gs := w.Exchange(lease.Exchange{Max: 1, Job: other}).Grants // nothing of it
		wantGrants(t, "claim of another job", gs, 1)
		w.Request++
		gs = w.Exchange(lease.Exchange{Max: 1, Job: id}).Grants
		wantGrants(t, "claim", gs, 1)
		if events := <-told; len(events) != 1 || events[0].Kind != lease.EventLeased || events[0].ShardID() != shard {
			t.Fatalf("follow %v: %+v, want the grant", of, events)
		}
		w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: gs[0].Shard, Fence: gs[0].Fence, Reason: "away"}}})
		_, last = kinds(shard, last)
	}
	cancel()
	if _, err := ctl.Follow(ctx, job, last, 0, lease.MaxWait); err == nil {
		t.Error("a follower whose context ended got no error")
	}
	if _, err := ctl.Follow(t.Context(), lease.ShardID{Job: 12345}, 0, 0, lease.MaxWait); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("follow no job: %v, want %v", err, lease.ErrNotFound)
	}
	f.Restart(t)
	if _, err := ctl.Follow(t.Context(), job, 0, 0, lease.MaxWait); err != nil {
		t.Errorf("follow after a restart: %v", err)
	}
}
