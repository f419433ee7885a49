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
