package leasetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"macbatch/lease"
)

// testLabels: what asks for labels is granted to workers that carry them all, with
// what follows from it, and after a restart too.
func testLabels(t *testing.T, ctl lease.Control, f *Fixture) {
	submit := func(p Params, require ...string) (lease.JobID, error) {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: b, Key: p.Distinct, Require: require})
	}
	id, err := submit(Params{Items: 1, Then: 1, Distinct: "job"}, "zone=b", "rack=a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := submit(Params{Items: 1, Distinct: "bad"}, "rack"); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("Submit with the label rack = %v, want ErrInvalid", err)
	}
	if again, err := submit(Params{Items: 1, Then: 1, Distinct: "job"}, "rack=a", "zone=b"); again != id || err != nil {
		t.Fatalf("Submit again = %v, %v, want %v", again, err, id)
	}
	if _, err := submit(Params{Items: 1, Then: 1, Distinct: "job"}, "rack=a"); !errors.Is(err, lease.ErrKeyReused) {
		t.Fatalf("Submit under other labels = %v, want ErrKeyReused", err)
	}
	if j := JobOf(t, ctl, id); !slices.Equal(j.Require, []string{"rack=a", "zone=b"}) {
		t.Fatalf("the job requires %q", j.Require)
	}
	other := NewWorker(t, ctl, "other")
	other.Offer.Labels = []string{"rack=a", "zone=c"}
	none := func() {
		t.Helper()
		if g := other.Claim(10); len(g) > 0 {
			t.Fatalf("a worker with labels %q is granted %+v", other.Offer.Labels, g)
		}
	}
	none()
	if w := JobOf(t, ctl, id).Waits; !strings.Contains(w, "has the labels rack=a,zone=b") {
		t.Fatalf("the job waits: %q", w)
	}
	why, err := ctl.Why(t.Context(), lease.ShardID{Job: id})
	if err != nil || len(why.Workers) != 1 || why.Workers[0].Text != "it has no label zone=b" {
		t.Fatalf("Why = %+v, %v", why, err)
	}
	f.Restart(t)
	none()
	able := NewWorker(t, ctl, "able")
	able.Offer.Labels = []string{"rack=a", "zone=b"}
	for range 3 { // the first, what it planned, and the join
		g := able.Claim(10)
		if len(g) != 1 {
			t.Fatalf("the worker with the labels is granted %d shards, want 1", len(g))
		}
		none()
		wantVerdict(t, "result", able.Report(Done(g[0], "x")), lease.Accepted)
		none()
	}
	if j := JobOf(t, ctl, id); j.State != lease.JobDone {
		t.Fatalf("the job is %s", j.State)
	}
	workers, err := ctl.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(workers, func(w lease.Worker) bool { return w.ID == "able" && slices.Equal(w.Offer.Labels, able.Offer.Labels) }) {
		t.Fatalf("Workers = %+v, want the labels told", workers)
	}
}
