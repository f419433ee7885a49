package store_test

import (
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// suspect makes the first shard of a job one to be leased alone: its worker died
// of it three times.
func suspect(t *testing.T, ctl lease.Control) *leasetest.Worker {
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	w := leasetest.NewWorker(t, ctl, "w1")
	for range lease.SuspectLapses {
		gs := w.Claim(1)
		if len(gs) != 1 {
			t.Fatalf("%d grants, want 1", len(gs))
		}
		w.Beat(lease.Running, gs...)
		w.Incarnation, w.Request = w.Incarnation+1, 0
	}
	w.Exchange(lease.Exchange{Max: 1, PerKind: map[lease.Kind]int{}}) // its leases end
	return w
}

// awake lets time pass without a stall of the control plane.
func awake(f *leasetest.Fixture, d time.Duration, each func()) {
	for ; d > 0; d -= lease.Heartbeat / 3 {
		f.Clock.Advance(lease.Heartbeat / 3)
		each()
	}
}

func deliver(w *leasetest.Worker) func() {
	return func() { w.Exchange(lease.Exchange{}) }
}

// The only worker never learns that it was granted a suspect: it gets it again.
func TestSuspectWhoseGrantWasLost(t *testing.T) {
	f, ctl := open(t)
	w := suspect(t, ctl)
	lost := w.Claim(1)
	if len(lost) != 1 {
		t.Fatalf("%d grants of the suspect, want 1", len(lost))
	}
	awake(f, lease.Term+lease.Heartbeat, deliver(w))
	if gs := w.Claim(1); len(gs) != 1 || gs[0].Fence <= lost[0].Fence {
		t.Fatalf("granted %v after the lapse, want the suspect under a higher fence", gs)
	}
}

// A lapsed lease of other work, its grant lost too, does not keep the worker from a suspect.
func TestSuspectBesideALapsedLease(t *testing.T) {
	f, ctl := open(t)
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Root: "nas"})
	w := suspect(t, ctl)
	w.Offer.Roots = []string{"nas"}
	gs := w.Claim(1)
	if len(gs) != 1 || gs[0].Shard.Seq != 1 {
		t.Fatalf("granted %v, want the suspect alone", gs)
	}
	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: gs[0].Shard, Fence: gs[0].Fence, Delay: time.Minute}}})
	if lost := w.Claim(1); len(lost) != 1 {
		t.Fatalf("granted %v while the suspect rests, want the other shard", lost)
	}
	awake(f, lease.Term+lease.Heartbeat, deliver(w))
	for range 2 {
		gs := w.Claim(1)
		if len(gs) != 1 {
			t.Fatalf("granted %v, want one of two", gs)
		}
		w.Report(leasetest.Done(gs[0], "x"))
	}
}

// A worker that was being drained for a suspect lives on but claims no more: an
// idle one takes the suspect at once, a busy one is drained in its place.
func TestSuspectOfAWorkerThatClaimsNoMore(t *testing.T) {
	f, ctl := open(t)
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	busy, other := leasetest.NewWorker(t, ctl, "busy"), leasetest.NewWorker(t, ctl, "other")
	own := busy.Claim(1)
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	others := other.Claim(1)
	w := suspect(t, ctl)
	if gs := busy.Claim(1); len(gs) != 0 {
		t.Fatalf("a worker that is busy was granted %v, want it drained for the suspect", gs)
	}
	leasetest.Submit(t, ctl, leasetest.Params{Items: 3})
	if gs := other.Claim(1); len(gs) != 1 {
		t.Fatalf("granted %v, want other work for the worker that is not drained", gs)
	} else {
		others = append(others, gs...)
	}
	awake(f, 2*lease.Term, func() {
		busy.Beat(lease.Running, own...)
		other.Beat(lease.Running, others...)
	})
	if gs := other.Claim(1); len(gs) != 0 {
		t.Fatalf("granted %v, want this one drained now", gs)
	}
	w.Worker, w.Machine = "idle", "another"
	if gs := w.Claim(1); len(gs) != 1 {
		t.Fatalf("granted %v, want the suspect for the idle worker", gs)
	}
}

// A shard that kills its worker before the first heartbeat ends as poison too,
// and what is granted beside it does not.
func TestPoisonBeforeTheFirstHeartbeat(t *testing.T) {
	f, ctl := open(t)
	id := leasetest.Submit(t, ctl, leasetest.Params{Items: 3})
	w := leasetest.NewWorker(t, ctl, "w1")
	for range 4 * lease.PoisonLapses {
		gs := w.Claim(2)
		deadly := false
		for _, g := range gs {
			deadly = deadly || g.Shard.Seq == 1
		}
		for _, g := range gs {
			if !deadly {
				w.Report(leasetest.Done(g, "x"))
			}
		}
		w.Incarnation, w.Request = w.Incarnation+1, 0
		f.Clock.Advance(time.Second)
	}
	if j := leasetest.JobOf(t, ctl, id); j.State != lease.JobPartial || j.Shards.Done != 2 {
		t.Fatalf("job %s with %+v, want one shard of three failed", j.State, j.Shards)
	}
}
