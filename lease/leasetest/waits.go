package leasetest

import (
	"strings"
	"testing"
	"time"

	"macbatch/lease"
)

// testWaits: a job that stands still says why.
func testWaits(t *testing.T, ctl lease.Control, f *Fixture) {
	id := Submit(t, ctl, Params{Items: 1, Root: "nas"})
	want := func(text string) {
		t.Helper()
		if got := JobOf(t, ctl, id).Waits; !strings.Contains(got, text) || text == "" && got != "" {
			t.Fatalf("the job waits: %q, want %q", got, text)
		}
	}
	want("no worker is there")
	w := NewWorker(t, ctl, "w1")
	w.Offer.Kinds = []lease.Kind{"another"}
	w.Claim(1)
	want("no worker does work")
	w.Offer.Kinds = []lease.Kind{Work}
	w.Claim(1)
	want(`no worker that does work has the root "nas"`)
	for _, c := range []struct {
		of   lease.Target
		text string
	}{{lease.Target{Job: id}, "it is paused"}, {lease.Target{Kind: Work}, "the kind work is paused"}, {lease.Target{All: true}, "everything is paused"}} {
		pause(t, ctl, c.of, 0)
		want(c.text)
		resume(t, ctl, c.of)
	}
	w.Offer.Roots = []string{"nas"}
	w.Beat(lease.Running)
	want("its turn has not come")
	g := w.Claim(1)[0]
	want("")
	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: g.Shard, Fence: g.Fence, Reason: "away", Delay: time.Minute}}})
	want("rests after a failure or release, the first for 1m0s more: away")
	f.Clock.Advance(time.Minute)
	wantVerdict(t, "result", w.Report(Done(w.Claim(1)[0], "x")), lease.Accepted)
	want("")
}
