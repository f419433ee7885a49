package leasetest

import (
	"reflect"
	"testing"

	"macbatch/lease"
)

// testCensus counts by hand what a small life came to.
func testCensus(t *testing.T, ctl lease.Control, f *Fixture) {
	if err := ctl.CreateProject(t.Context(), "hidden"); err != nil {
		t.Fatal(err)
	}
	hidden, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: []byte(`{"items":1}`), Project: "hidden"})
	if err != nil {
		t.Fatal(err)
	}
	id := Submit(t, ctl, Params{Items: 4, Reuse: true})
	w := NewWorker(t, ctl, "w1")
	gs := w.Exchange(lease.Exchange{Max: 3, Job: id}).Grants
	wantVerdict(t, "result", w.Report(Done(gs[0], "a")), lease.Accepted)
	wantVerdict(t, "failure", w.Report(Failed(gs[1], lease.Permanent, "broken")), lease.Accepted)
	retry(t, ctl, id, lease.Selection{})
	list := SubmitList(t, ctl, 3, ListParams{Items: 3})
	w.Request++
	gs = w.Exchange(lease.Exchange{Max: 1, Job: list}).Grants
	wantVerdict(t, "outcomes", w.Report(Outcomes(gs[0], "x", 1)), lease.Accepted)
	again := Submit(t, ctl, Params{Items: 1, Reuse: true, Distinct: "again"})
	w.Request++
	w.Exchange(lease.Exchange{Max: 1, Job: again}) // takes the earlier result
	pause(t, ctl, lease.Target{Job: id}, 0)
	pause(t, ctl, lease.Target{Kind: "another"}, 0)
	f.Clock.Advance(lease.Term) // without a look at the clock: the lease lapsed

	got, err := ctl.Census(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Pauses) != 2 || got.Pauses[0].Job != id || got.Pauses[1].Kind != "another" {
		t.Fatalf("pauses %+v, want the job's and the kind's", got.Pauses)
	}
	if got.At.IsZero() || got.Store.Events == 0 || got.Store.Commits == 0 || got.Store.Blobs != 1 || got.Store.BlobBytes == 0 {
		t.Fatalf("at %v, store %+v, want when, and how much there is", got.At, got.Store)
	}
	jobs := []lease.JobCount{
		{Kind: "list", Jobs: map[lease.JobState]int{lease.JobPartial: 1}, Items: lease.Progress{Total: 3, Done: 2, Failed: 1}, Work: lease.Progress{Total: 3, Done: 3}},
		{Kind: "test", Jobs: map[lease.JobState]int{lease.JobRunning: 1, lease.JobPaused: 1, lease.JobDone: 1}, Items: lease.Progress{Total: 6, Done: 2}, Work: lease.Progress{Total: 60, Done: 20}, Reused: 1},
	}
	if !reflect.DeepEqual(got.Jobs, jobs) {
		t.Fatalf("jobs %+v, want %+v", got.Jobs, jobs)
	}
	shards := []lease.ShardCount{{Kind: Work, Counts: lease.Counts{Ready: 3, Leased: 1, Done: 3, Failed: 1}, Lapsed: 1, Old: 1}}
	if !reflect.DeepEqual(got.Shards, shards) {
		t.Fatalf("shards %+v, want %+v", got.Shards, shards)
	}
	if leases := []lease.LeaseCount{{Worker: "w1", Leases: 1, Lapsed: 1}}; !reflect.DeepEqual(got.Leases, leases) {
		t.Fatalf("leases %+v, want %+v", got.Leases, leases)
	}
	if makers := []lease.MakerCount{{Kind: Work, Maker: lease.Maker{Engine: "tester", Model: "m1", Server: "here"}, Results: 1}}; !reflect.DeepEqual(got.Makers, makers) {
		t.Fatalf("makers %+v, want %+v", got.Makers, makers)
	}

	// An actor counts what is in its projects.
	reader := lease.Actor{ID: "r", Role: lease.Reader, Projects: []lease.Project{"hidden"}}
	got, err = f.As(reader).Census(t.Context())
	if err != nil || len(got.Jobs) != 1 || got.Jobs[0].Jobs[lease.JobRunning] != 1 || got.Jobs[0].Items.Total != 1 || got.Store != (lease.StoreFigures{}) ||
		len(got.Leases)+len(got.Makers) > 0 || len(got.Pauses) != 1 {
		t.Fatalf("census for a reader of the project of %v: %+v, %v, want that job and what is paused for all", hidden, got, err)
	}
}
