package leasetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
)

// testList: an input is asked for, taken once, and granted as ranges of lines.
func testList(t *testing.T, ctl lease.Control, f *Fixture) {
	b, in := Lines(10)
	sub := lease.Submission{Kind: "list", Params: []byte(`{"items":4}`), Input: in}
	if _, err := ctl.Submit(t.Context(), sub); !errors.Is(err, lease.ErrNeedBlob) {
		t.Fatalf("submit without the input: %v, want %v", err, lease.ErrNeedBlob)
	}
	Upload(t, ctl, b)
	id, err := ctl.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	f.Restart(t)
	if again, err := ctl.Submit(t.Context(), sub); err != nil || again != id {
		t.Fatalf("submit of the same again = %v, %v, want %v", again, err, id)
	}
	other := sub
	other.Params = []byte(`{"items":5}`)
	if id2, err := ctl.Submit(t.Context(), other); err != nil || id2 == id {
		t.Fatalf("submit with other parameters = %v, %v, want another job", id2, err)
	} else if err := ctl.Cancel(t.Context(), id2, "enough"); err != nil {
		t.Fatal(err)
	} else if id3, err := ctl.Submit(t.Context(), other); err != nil || id3 == id2 {
		t.Fatalf("submit of what was canceled = %v, %v, want another job", id3, err)
	}
	if j := JobOf(t, ctl, id); j.Input != in || j.Items.Total != 10 || j.Shards.Ready != 3 {
		t.Fatalf("job %+v, want the input, and ten items in three shards", j)
	}

	w := NewWorker(t, ctl, "w1")
	gs := w.Exchange(lease.Exchange{Max: 5, Job: id}).Grants
	wantGrants(t, "claim of all", gs, 3)
	at, item := int64(0), uint32(0)
	for _, g := range gs {
		l := g.Lines
		if l == nil || l.Input != in.Digest || l.From != at || l.First != item || string(g.Payload) != `{"items":4}` || g.Work != uint64(l.Items) {
			t.Fatalf("grant %+v of %+v, want the lines from byte %d, item %d on, and the parameters", g, l, at, item)
		}
		r, err := ctl.Input(t.Context(), g.Shard, l.From, l.To)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, b[l.From:l.To]) || lease.DigestOf(got) != l.Digest || strings.Count(string(got), "\n") != int(l.Items) {
			t.Fatalf("lines %+v are %q", l, got)
		}
		at, item = l.To, item+l.Items
	}
	if at != in.Bytes || item != 10 {
		t.Fatalf("the shards end at byte %d and item %d, want %d and 10", at, item, in.Bytes)
	}
	whole := lease.ShardID{Job: id}
	if _, err := ctl.Input(t.Context(), whole, 0, in.Bytes+1); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("more than the input: %v, want %v", err, lease.ErrInvalid)
	}
	if _, err := ctl.Input(t.Context(), gs[1].Shard, 0, 3); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("another shard's lines: %v, want %v", err, lease.ErrInvalid)
	}
	plain := Submit(t, ctl, Params{Items: 1})
	if _, err := ctl.Input(t.Context(), lease.ShardID{Job: plain}, 0, 0); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("the input of a job without one: %v, want %v", err, lease.ErrNotFound)
	}
	if _, err := ctl.Input(t.Context(), lease.ShardID{Job: 12345}, 0, 0); !errors.Is(err, lease.ErrNotFound) {
		t.Fatalf("the input of no job: %v, want %v", err, lease.ErrNotFound)
	}
}

// testListOutcomes: an item that failed costs no other.
func testListOutcomes(t *testing.T, ctl lease.Control, f *Fixture) {
	id := SubmitList(t, ctl, 10, ListParams{Items: 4})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(5)
	wantGrants(t, "claim of all", gs, 3)
	short := gs[0]
	short.Lines = &lease.Lines{Items: 3}
	wantVerdict(t, "an outcome missing", w.Report(Outcomes(short, "x", 0)), lease.InvalidReport)
	wantVerdict(t, "two of four failed", w.Report(Outcomes(gs[1], "x", 2)), lease.Accepted)
	wantVerdict(t, "the same again", w.Report(Outcomes(gs[1], "x", 2)), lease.Duplicate)
	wantVerdict(t, "the last shard fails", w.Report(Failed(gs[2], lease.Permanent, "no")), lease.Accepted)
	f.Restart(t)
	f.Clock.Advance(10 * time.Second) // the back-off
	gs = w.Claim(1)
	wantGrants(t, "the first shard again", gs, 1)
	wantVerdict(t, "all of it", w.Report(Outcomes(gs[0], "x", 0)), lease.Accepted)
	j := wantState(t, ctl, id, lease.JobPartial)
	if j.Items.Total != 10 || j.Items.Done != 6 || j.Items.Failed != 4 {
		t.Fatalf("items %+v, want 6 done and 4 failed of 10", j.Items)
	}
	shards, err := ctl.Shards(t.Context(), id, 0, 5, true)
	if err != nil || len(shards) != 3 || shards[1].Result.Failed != 2 || string(shards[1].Result.Inline) != `["","","x","x"]` {
		t.Fatalf("shards %+v, %v, want the outcomes of the second", shards, err)
	}

	all := SubmitList(t, ctl, 3, ListParams{})
	for _, g := range w.Claim(5) {
		wantVerdict(t, "its only item failed", w.Report(Outcomes(g, "x", 1)), lease.Accepted)
	}
	wantState(t, ctl, all, lease.JobFailed)
	// A job that failed is submitted anew.
	if again := SubmitList(t, ctl, 3, ListParams{}); again == all {
		t.Fatalf("submit of what failed = %v again", again)
	}
}

// testListReuse: equal lines under equal parameters are worked on once, unless one failed.
func testListReuse(t *testing.T, ctl lease.Control, _ *Fixture) {
	SubmitList(t, ctl, 8, ListParams{Items: 2, Reuse: true})
	w := NewWorker(t, ctl, "w1")
	for i, g := range w.Claim(9) {
		wantVerdict(t, "result", w.Report(Outcomes(g, "x", i%2)), lease.Accepted)
	}
	longer := SubmitList(t, ctl, 10, ListParams{Items: 2, Reuse: true, Distinct: "longer"})
	gs := w.Claim(9)
	wantGrants(t, "claim of what is new or had failed", gs, 3)
	for _, g := range gs {
		wantVerdict(t, "result", w.Report(Outcomes(g, "y", 0)), lease.Accepted)
	}
	if j := wantState(t, ctl, longer, lease.JobDone); j.Items.Done != 10 {
		t.Fatalf("items %+v, want ten done", j.Items)
	}
}

// testLongList: nothing of a list that needs pages is granted before it is whole,
// and a restart goes on where it stopped.
func testLongList(t *testing.T, ctl lease.Control, f *Fixture) {
	const n = 7321
	id := SubmitList(t, ctl, n, ListParams{})
	w := NewWorker(t, ctl, "w1")
	for range 3 {
		f.Restart(t)
		out := w.Exchange(lease.Exchange{Max: 1})
		if j := JobOf(t, ctl, id); len(out.Grants) > 0 && j.Items.Total != n {
			t.Fatalf("granted %v of a job that is not whole: %+v", out.Grants, j)
		} else if j.State != lease.JobRunning {
			t.Fatalf("job %+v, want it running", j)
		}
		w.Request++
	}
	for JobOf(t, ctl, id).Plans > 0 {
	}
	seen := map[uint32]bool{}
	for {
		gs := w.Claim(1000)
		if len(gs) == 0 {
			break
		}
		var x lease.Exchange
		for _, g := range gs {
			seen[g.Lines.First] = true
			x.Reports = append(x.Reports, Outcomes(g, fmt.Sprint(g.Lines.First), 0))
		}
		for _, v := range w.Exchange(x).Verdicts {
			wantVerdict(t, "result", v, lease.Accepted)
		}
	}
	if j := JobOf(t, ctl, id); j.Shards.Leased > 0 { // of a claim before the last restart
		w.Incarnation, w.Request = 2, 0
		for _, g := range w.Claim(10) {
			seen[g.Lines.First] = true
			wantVerdict(t, "result", w.Report(Outcomes(g, "z", 0)), lease.Accepted)
		}
	}
	if j := wantState(t, ctl, id, lease.JobDone); j.Items.Done != n || len(seen) != n || !seen[0] || !seen[n-1] {
		t.Fatalf("items %+v, %d of them granted, want items 0 to %d", j.Items, len(seen), n-1)
	}
}

// testCanceledList: a cancel while the input is cut ends that too.
func testCanceledList(t *testing.T, ctl lease.Control, f *Fixture) {
	id := SubmitList(t, ctl, 20_000, ListParams{})
	if err := ctl.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	f.Restart(t)
	w := NewWorker(t, ctl, "w1")
	wantGrants(t, "claim after the cancel", w.Claim(5), 0)
	j := wantState(t, ctl, id, lease.JobCanceled)
	for j.Plans > 0 || j.Shards.Open() > 0 {
		j = JobOf(t, ctl, id)
	}
	if j.Shards.Canceled == 0 || uint64(j.Shards.Canceled) != j.Items.Total {
		t.Fatalf("job %+v, want all that was cut canceled", j)
	}
	if problems, err := ctl.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Fatalf("verify = %v, %v, want no problems", problems, err)
	}
}

// testListRefused: what is wrong with an input is told at once, and nothing queued.
func testListRefused(t *testing.T, ctl lease.Control, _ *Fixture) {
	for text, want := range map[string]string{
		"":                                       "empty",
		"a\n\nb\n":                               "line 2",
		"a\nb":                                   "line 2",
		strings.Repeat("a\n", 999) + "b":         "line 1000",
		"a\n" + strings.Repeat("x", 1001) + "\n": "line 2",
		"a\n" + strings.Repeat("x", 600_000) + "\n": "line 2",
	} {
		b := []byte(text)
		Upload(t, ctl, b)
		_, err := ctl.Submit(t.Context(), lease.Submission{Kind: "list", Params: []byte(`{}`), Input: lease.Input{Digest: lease.DigestOf(b), Bytes: int64(len(b))}})
		if !errors.Is(err, lease.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("submit of %.20q: %v, want %v that says %q", text, err, lease.ErrInvalid, want)
		}
	}
	b, in := Lines(3)
	Upload(t, ctl, b)
	for _, sub := range []lease.Submission{
		{Kind: "list", Params: []byte(`{}`)},
		{Kind: "test", Params: []byte(`{"items":1}`), Input: in},
		{Kind: "list", Params: []byte(`{}`), Input: lease.Input{Digest: in.Digest, Bytes: in.Bytes + 1}},
		{Kind: "list", Params: []byte(`{}`), Input: in, Key: "a\x00b"},
	} {
		if _, err := ctl.Submit(t.Context(), sub); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("submit of %+v: %v, want %v", sub, err, lease.ErrInvalid)
		}
	}
	sub := lease.Submission{Kind: "list", Params: []byte(`{}`), Input: in, Key: "k"}
	a, err := ctl.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	b, in = Lines(4)
	Upload(t, ctl, b)
	sub.Input = in
	if _, err := ctl.Submit(t.Context(), sub); !errors.Is(err, lease.ErrKeyReused) {
		t.Errorf("another input under the key: %v, want %v", err, lease.ErrKeyReused)
	}
	if jobs, err := ctl.Jobs(t.Context(), 0, 10); err != nil || len(jobs) != 1 || jobs[0].ID != a {
		t.Errorf("jobs %+v, %v, want one", jobs, err)
	}
}
