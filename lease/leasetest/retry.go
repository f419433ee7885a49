package leasetest

import (
	"errors"
	"slices"
	"testing"

	"macbatch/lease"
)

// retry asks until all of the job was looked at, and sums up.
func retry(t *testing.T, ctl lease.Control, id lease.JobID, what lease.Selection) (sum lease.Retried) {
	t.Helper()
	for after := uint32(0); ; {
		out, err := ctl.Retry(t.Context(), id, what, after)
		if err != nil {
			t.Fatalf("retry %+v above %d: %v", what, after, err)
		}
		sum.Added, sum.Found, sum.Busy, sum.Lost = sum.Added+out.Added, sum.Found+out.Found, sum.Busy+out.Busy, sum.Lost+out.Lost
		if after = out.Next; after == 0 {
			return sum
		}
	}
}

func wantRetried(t *testing.T, what string, got, want lease.Retried) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

func shardsOf(t *testing.T, ctl lease.Control, id lease.JobID) (all []lease.Shard) {
	t.Helper()
	for after := uint32(0); ; {
		page, err := ctl.Shards(t.Context(), id, after, 0, false)
		if err != nil {
			t.Fatalf("shards of %v: %v", id, err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].ID.Seq
	}
}

// testRetry: what failed comes again as new shards; asking twice adds nothing.
func testRetry(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 3})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(3)
	wantVerdict(t, "failure", w.Report(Failed(gs[0], lease.Permanent, "no film")), lease.Accepted)
	wantRetried(t, "retry while others run", retry(t, ctl, id, lease.Selection{}), lease.Retried{Added: 1, Found: 1})
	wantRetried(t, "the same again", retry(t, ctl, id, lease.Selection{}), lease.Retried{})
	wantRetried(t, "the failed shard by its number", retry(t, ctl, id, lease.Selection{Shards: []uint32{1}}), lease.Retried{Found: 1, Busy: 1})
	wantRetried(t, "a leased one by its item", retry(t, ctl, id, lease.Selection{Items: []uint32{1}}), lease.Retried{Found: 1, Busy: 1})
	wantVerdict(t, "other", w.Report(Done(gs[1], "b")), lease.Accepted)
	wantVerdict(t, "other", w.Report(Done(gs[2], "c")), lease.Accepted)
	j := wantState(t, ctl, id, lease.JobRunning)
	if j.Items != (lease.Progress{Total: 3, Done: 2}) || j.Work != (lease.Progress{Total: 30, Done: 20}) || j.Old.Failed != 1 {
		t.Fatalf("items %+v work %+v superseded %+v, want two of three done, one superseded", j.Items, j.Work, j.Old)
	}
	f.Restart(t)
	again := w.Claim(3)
	wantGrants(t, "claim", again, 1)
	if g := again[0]; g.Shard.Seq != 4 || g.Fence <= gs[2].Fence || string(g.Payload) != string(gs[0].Payload) {
		t.Fatalf("granted %+v, want the work of the first shard as the fourth, under a higher fence", g)
	}
	wantVerdict(t, "late result of the failed shard", w.Report(Done(gs[0], "late")), lease.Conflict)
	wantVerdict(t, "result", w.Report(Done(again[0], "a")), lease.Accepted)
	j = wantState(t, ctl, id, lease.JobDone)
	if j.Items != (lease.Progress{Total: 3, Done: 3}) || j.Work != (lease.Progress{Total: 30, Done: 30}) {
		t.Fatalf("items %+v work %+v, want all done", j.Items, j.Work)
	}
	all := shardsOf(t, ctl, id)
	if s := all[0]; s.State != lease.Failed || s.Successor != 4 {
		t.Fatalf("the old shard is %s, superseded by %d, want it failed and superseded by 4", s.State, s.Successor)
	}
	if s := all[3]; s.Generation != 1 || !slices.Equal(s.Supersedes, []uint32{1}) {
		t.Fatalf("the new shard %+v, want generation 1 in place of 1", s)
	}
	if _, err := ctl.Retry(t.Context(), 12345, lease.Selection{}, 0); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("retry of no job: %v, want %v", err, lease.ErrNotFound)
	}
	if _, err := ctl.Retry(t.Context(), id, lease.Selection{Shards: []uint32{99}}, 0); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("retry of no shard: %v, want %v", err, lease.ErrNotFound)
	}
	events, err := ctl.Events(t.Context(), all[3].ID, 0, 1)
	if err != nil || len(events) != 1 || events[0].From != all[0].ID || events[0].Actor != Admin.ID {
		t.Fatalf("events %+v, %v: want one that tells what is superseded, and for whom", events, err)
	}
}

// testRetryChain: what waited for a failed shard comes again with it, and is given
// the results of those beside it.
func testRetryChain(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1, Then: 3})
	w := NewWorker(t, ctl, "w1")
	wantVerdict(t, "first stage", w.Report(Done(w.Claim(1)[0], "a")), lease.Accepted)
	gs := w.Claim(3)
	wantVerdict(t, "part", w.Report(Done(gs[0], "p2")), lease.Accepted)
	wantVerdict(t, "failed part", w.Report(Failed(gs[1], lease.Permanent, "broken")), lease.Accepted)
	wantRetried(t, "retry while a part runs", retry(t, ctl, id, lease.Selection{}), lease.Retried{Found: 2, Busy: 2})
	wantVerdict(t, "last part", w.Report(Done(gs[2], "p4")), lease.Accepted)
	wantState(t, ctl, id, lease.JobFailed)
	for try := 1; ; try++ { // it fails once more
		wantRetried(t, "retry", retry(t, ctl, id, lease.Selection{}), lease.Retried{Added: 2, Found: 1})
		f.Restart(t)
		gs = w.Claim(3)
		wantGrants(t, "claim", gs, 1)
		if try == 2 {
			break
		}
		wantVerdict(t, "failed part", w.Report(Failed(gs[0], lease.Permanent, "broken")), lease.Accepted)
		wantState(t, ctl, id, lease.JobFailed)
	}
	wantVerdict(t, "part", w.Report(Done(gs[0], "p3")), lease.Accepted)
	join := w.Claim(1)
	wantGrants(t, "join", join, 1)
	got := ""
	for _, n := range join[0].Needs {
		got += string(n.Inline)
	}
	if want := `{"text":"p2"}{"text":"p3"}{"text":"p4"}`; got != want {
		t.Fatalf("the join was given %s, want %s", got, want)
	}
	wantVerdict(t, "join", w.Report(Done(join[0], "z")), lease.Accepted)
	j := wantState(t, ctl, id, lease.JobDone)
	if j.Items != (lease.Progress{Total: 1, Done: 1}) || j.Work != (lease.Progress{Total: 3, Done: 3}) || j.Old.Failed != 4 {
		t.Fatalf("items %+v work %+v superseded %+v, want one item done, four superseded", j.Items, j.Work, j.Old)
	}
}

// testRetryProducer: where the sound is gone its producer runs again, and what of
// the parts was done is not done twice.
func testRetryProducer(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2, Then: 2, Sound: true, Reuse: true})
	w := NewWorker(t, ctl, "w1")
	g := w.Claim(1)[0]
	wantVerdict(t, "producer", w.Report(Done(g, "a", w.Sound(g))), lease.Accepted)
	gs := w.Claim(2)
	wantVerdict(t, "part", w.Report(Done(gs[0], "p")), lease.Accepted)
	wantVerdict(t, "failed part", w.Report(Failed(gs[1], lease.Permanent, "broken")), lease.Accepted)
	if here, _ := f.Blobs.Has(SoundOf(g.Shard)); here {
		t.Fatal("the sound is still here")
	}
	wantRetried(t, "retry of the item", retry(t, ctl, id, lease.Selection{Items: []uint32{0}}), lease.Retried{Added: 1, Found: 1})
	wantRetried(t, "retry", retry(t, ctl, id, lease.Selection{}), lease.Retried{})
	f.Restart(t)
	again := w.Claim(1)
	wantGrants(t, "claim", again, 1)
	if string(again[0].Payload) != string(g.Payload) {
		t.Fatalf("granted %s, want the producer's %s", again[0].Payload, g.Payload)
	}
	wantVerdict(t, "producer", w.Report(Done(again[0], "a2", w.Sound(again[0]))), lease.Accepted)
	part := w.Claim(1)
	wantGrants(t, "claim of the failed part", part, 1)
	if string(part[0].Payload) != string(gs[1].Payload) {
		t.Fatalf("granted %s, want the failed part %s; the other has a result", part[0].Payload, gs[1].Payload)
	}
	wantVerdict(t, "part", w.Report(Done(part[0], "q")), lease.Accepted)
	join := w.Claim(1)
	wantGrants(t, "join", join, 1)
	wantVerdict(t, "join", w.Report(Done(join[0], "z")), lease.Accepted)
	j := JobOf(t, ctl, id)
	if j.Items != (lease.Progress{Total: 2, Done: 1}) || j.Work != (lease.Progress{Total: 12, Done: 2}) {
		t.Fatalf("items %+v work %+v, want one of two done", j.Items, j.Work)
	}
}

// testRetryCanceled: a retry takes the cancel back for what it adds, in pages.
func testRetryCanceled(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2500})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(2)
	wantVerdict(t, "before the cancel", w.Report(Done(gs[0], "x")), lease.Accepted)
	if err := ctl.Cancel(t.Context(), id, "not needed"); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	// The rows of the cancel may still be on their way.
	wantRetried(t, "retry of one item", retry(t, ctl, id, lease.Selection{Items: []uint32{1}}), lease.Retried{Added: 1, Found: 1})
	if j := wantState(t, ctl, id, lease.JobRunning); j.Canceled || j.Reason != "" || j.Shards.Open() != 1 {
		t.Fatalf("job %+v, want one shard open and no cancel", j)
	}
	wantVerdict(t, "result of a canceled lease", w.Report(Done(gs[1], "x")), lease.Stale)
	f.Restart(t)
	gs = w.Claim(5)
	wantGrants(t, "claim", gs, 1)
	wantVerdict(t, "result", w.Report(Done(gs[0], "x")), lease.Accepted)
	wantState(t, ctl, id, lease.JobPartial)
	wantRetried(t, "retry of the rest", retry(t, ctl, id, lease.Selection{}), lease.Retried{Added: 2498, Found: 2498})
	for {
		gs := w.Claim(500)
		if len(gs) == 0 {
			break
		}
		var x lease.Exchange
		for _, g := range gs {
			x.Reports = append(x.Reports, Done(g, "x"))
		}
		w.Exchange(x)
	}
	if j := wantState(t, ctl, id, lease.JobDone); j.Items.Done != 2500 || j.Old.Canceled != 2499 {
		t.Fatalf("job %+v, want all items done and 2499 canceled shards superseded", j)
	}
	if err := ctl.Cancel(t.Context(), id, ""); err != nil {
		t.Fatalf("cancel of a job that is done: %v", err)
	}
}

// testRetryDone: what is done is done anew when it is asked for by name, and its
// earlier results do not serve.
func testRetryDone(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 2, Then: 1, Reuse: true})
	w := NewWorker(t, ctl, "w1")
	work := func(text string) (done int) {
		for {
			gs := w.Claim(4)
			if len(gs) == 0 {
				return done
			}
			for _, g := range gs {
				wantVerdict(t, "result", w.Report(Done(g, text)), lease.Accepted)
				done++
			}
		}
	}
	work("old")
	wantRetried(t, "retry of a job that is done", retry(t, ctl, id, lease.Selection{}), lease.Retried{})
	wantRetried(t, "retry of an item that is not there", retry(t, ctl, id, lease.Selection{Items: []uint32{2}}), lease.Retried{})
	wantRetried(t, "retry of an item", retry(t, ctl, id, lease.Selection{Items: []uint32{1}}), lease.Retried{Added: 1, Found: 1})
	if j := wantState(t, ctl, id, lease.JobRunning); j.Items != (lease.Progress{Total: 2, Done: 1}) {
		t.Fatalf("items %+v, want one of two done", j.Items)
	}
	if n := work("new"); n != 3 {
		t.Fatalf("the item took %d attempts, want 3", n)
	}
	wantState(t, ctl, id, lease.JobDone)
	var join lease.Shard
	for _, s := range shardsOf(t, ctl, id) {
		if s.Stage == 2 && s.Successor == 0 {
			join = s
		}
	}
	wantRetried(t, "retry of the join", retry(t, ctl, id, lease.Selection{Shards: []uint32{join.ID.Seq}}), lease.Retried{Added: 1, Found: 1})
	gs := w.Claim(4)
	wantGrants(t, "claim", gs, 1)
	if got := string(gs[0].Needs[0].Inline); got != `{"text":"new"}` {
		t.Fatalf("the join was given %s, want the newest result", got)
	}
	wantVerdict(t, "join", w.Report(Done(gs[0], "z")), lease.Accepted)
	wantState(t, ctl, id, lease.JobDone)
	f.Restart(t)
}

// wantKept demands that a grant carries the result of the shard whose values it keeps.
func wantKept(t *testing.T, what string, g lease.Grant, of *lease.Report) {
	t.Helper()
	switch {
	case of == nil && len(g.Needs) != 0:
		t.Fatalf("%s: granted with the result %s, want none", what, g.Needs[0].Inline)
	case of != nil && (len(g.Needs) != 1 || g.Needs[0].Digest != of.Digest || string(g.Needs[0].Inline) != string(of.Result)):
		t.Fatalf("%s: granted with %+v, want the result %s", what, g.Needs, of.Result)
	}
}

// testRetryList: a shard with failed items comes again whole, with what it got before;
// a list that was canceled while it was cut is cut to its end.
func testRetryList(t *testing.T, ctl lease.Control, f *Fixture) {
	id := SubmitList(t, ctl, 5, ListParams{Items: 2, Reuse: true})
	w := NewWorker(t, ctl, "w1")
	var first lease.Report
	for i, g := range w.Claim(5) {
		wantKept(t, "at first", g, nil)
		r := Outcomes(g, "a", i%2)
		if i == 1 {
			first = r
		}
		wantVerdict(t, "outcomes", w.Report(r), lease.Accepted)
	}
	wantState(t, ctl, id, lease.JobPartial)
	wantRetried(t, "retry", retry(t, ctl, id, lease.Selection{}), lease.Retried{Added: 1, Found: 1})
	gs := w.Claim(5)
	wantGrants(t, "claim", gs, 1)
	if l := gs[0].Lines; l == nil || l.First != 2 || l.Items != 2 {
		t.Fatalf("granted lines %+v, want the items 2 and 3", gs[0].Lines)
	}
	wantKept(t, "retry", gs[0], &first)
	wantVerdict(t, "failure", w.Report(Failed(gs[0], lease.Permanent, "no")), lease.Accepted)
	wantRetried(t, "retry of the retry", retry(t, ctl, id, lease.Selection{Resend: true}), lease.Retried{Added: 1, Found: 1})
	f.Restart(t)
	gs = w.Claim(5)
	wantGrants(t, "claim again", gs, 1)
	wantKept(t, "retry of the retry", gs[0], &first)
	if !gs[0].Resend {
		t.Fatal("the grant does not say that what may have been paid for is paid for again")
	}
	wantVerdict(t, "outcomes", w.Report(Outcomes(gs[0], "b", 0)), lease.Accepted)
	if j := wantState(t, ctl, id, lease.JobDone); j.Items != (lease.Progress{Total: 5, Done: 5}) {
		t.Fatalf("items %+v, want five done", j.Items)
	}
	wantRetried(t, "retry of an item that is done", retry(t, ctl, id, lease.Selection{Items: []uint32{3}}), lease.Retried{Added: 1, Found: 1})
	gs = w.Claim(5)
	wantGrants(t, "claim of what has a result", gs, 1)
	wantKept(t, "what is wanted anew", gs[0], nil)
	wantVerdict(t, "outcomes", w.Report(Outcomes(gs[0], "c", 0)), lease.Accepted)

	id = SubmitList(t, ctl, 6000, ListParams{Items: 2})
	if err := ctl.Cancel(t.Context(), id, "too early"); err != nil {
		t.Fatal(err)
	}
	retry(t, ctl, id, lease.Selection{})
	f.Restart(t)
	for {
		gs := w.Claim(1000)
		if len(gs) == 0 {
			if JobOf(t, ctl, id).Plans == 0 {
				break
			}
			continue // its pages follow
		}
		var x lease.Exchange
		for _, g := range gs {
			x.Reports = append(x.Reports, Outcomes(g, "d", 0))
		}
		w.Exchange(x)
	}
	if j := wantState(t, ctl, id, lease.JobDone); j.Items != (lease.Progress{Total: 6000, Done: 6000}) {
		t.Fatalf("items %+v, want 6000 done", j.Items)
	}
}
