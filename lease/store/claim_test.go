package store_test

import (
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// Grants carry the results they wait for: an answer holds as many as a client
// can read, and the rest comes with the next claim.
func TestGrantsAreBounded(t *testing.T) {
	_, ctl := open(t)
	const items, parts = 6, 50
	id := leasetest.Submit(t, ctl, leasetest.Params{Items: items, Then: parts})
	w := leasetest.NewWorker(t, ctl, "w1")
	for _, g := range w.Claim(items) {
		w.Report(leasetest.Done(g, "x"))
	}
	for _, g := range w.Claim(items * parts) {
		w.Report(leasetest.Done(g, strings.Repeat("x", lease.InlineResult-100)))
	}
	for joins := 0; joins < items; {
		gs := w.Claim(items)
		size := 0
		for _, g := range gs {
			for _, n := range g.Needs {
				size += len(n.Inline)
			}
		}
		if len(gs) == 0 || size > 8<<20 {
			t.Fatalf("%d grants with %d bytes of results, want some of at most 8 MiB", len(gs), size)
		}
		for _, g := range gs {
			w.Report(leasetest.Done(g, "x"))
			joins++
		}
	}
	if j := leasetest.JobOf(t, ctl, id); j.State != lease.JobDone {
		t.Fatalf("job is %s, want it done", j.State)
	}
}

// Sound that nobody consumes, of a job for which no worker is there, rests that
// job's bulky work and no other's.
func TestBudgetOfAnotherJob(t *testing.T) {
	_, ctl := open(t) // lets one byte wait
	stuck := leasetest.Submit(t, ctl, leasetest.Params{Items: 2, Then: 1, Sound: true, Bulky: true})
	other := leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Bulky: true})
	w := leasetest.NewWorker(t, ctl, "w1")
	g := w.Claim(1)[0]
	w.Report(leasetest.Done(g, "x", w.Sound(g)))
	claim := func(job lease.JobID) []lease.Grant {
		w.Request++
		return w.Exchange(lease.Exchange{Max: 1, Job: job}).Grants
	}
	if gs := claim(other); len(gs) != 1 {
		t.Fatalf("granted %v of a job of which nothing waits, want its shard", gs)
	}
	if gs := claim(stuck); len(gs) != 1 || gs[0].Shard.Seq == 2 {
		t.Fatalf("granted %v of the job whose sound waits, want what consumes it", gs)
	}
	if gs := claim(stuck); len(gs) != 0 {
		t.Fatalf("granted %v while its sound waits, want none", gs)
	}
}
