package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// An entry of the reuse index that points to other work hands on nothing.
func TestReuseOfOtherWork(t *testing.T) {
	db := memkv.Open()
	f := leasetest.Open(t, db, leasetest.NewBlobs(), leasetest.NewClock())
	leasetest.Submit(t, f.Near(), leasetest.Params{Items: 2, Reuse: true})
	w := leasetest.NewWorker(t, f.Near(), "w1")
	for _, g := range w.Claim(2) {
		w.Report(leasetest.Done(g, g.Shard.String()))
	}
	swap := func() {
		f.Stop(t)
		if err := db.Update(func(w kv.Writer) error {
			var keys, values [][]byte
			w.Scan([]byte{'u'}, []byte{'u' + 1}, func(k, v []byte) bool {
				keys, values = append(keys, k), append(values, v)
				return true
			})
			if len(keys) != 2 {
				t.Fatalf("%d entries, want one for each item", len(keys))
			}
			return errors.Join(w.Put(keys[0], values[1]), w.Put(keys[1], values[0]))
		}); err != nil {
			t.Fatal(err)
		}
	}
	swap()
	f.Restart(t)
	again := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 2, Reuse: true, Distinct: "again"})
	gs := leasetest.NewWorker(t, f.Near(), "w2").Claim(2)
	if j := leasetest.JobOf(t, f.Near(), again); j.Items.Done > 0 || len(gs) != 2 {
		t.Fatalf("%d shards are to be done and %d items are, though no entry points to their work", len(gs), j.Items.Done)
	}
	swap() // back: else verify would tell of it
}

// Of twins one is granted; the other takes its result, or its place when it fails,
// is given back, canceled or lapses.
func TestTwins(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(t *testing.T, f *leasetest.Fixture, w *leasetest.Worker, first lease.JobID, g lease.Grant)
		reused bool
	}{
		"done": {func(t *testing.T, f *leasetest.Fixture, w *leasetest.Worker, _ lease.JobID, g lease.Grant) {
			w.Report(leasetest.Done(g, "x"))
		}, true},
		"failed": {func(t *testing.T, f *leasetest.Fixture, w *leasetest.Worker, _ lease.JobID, g lease.Grant) {
			w.Report(leasetest.Failed(g, lease.Permanent, "x"))
		}, false},
		"given back": {func(t *testing.T, f *leasetest.Fixture, w *leasetest.Worker, _ lease.JobID, g lease.Grant) {
			w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: g.Shard, Fence: g.Fence, Reason: "x", Delay: time.Hour}}})
		}, false},
		"canceled": {func(t *testing.T, f *leasetest.Fixture, w *leasetest.Worker, first lease.JobID, g lease.Grant) {
			if err := f.Near().Cancel(t.Context(), first, "x"); err != nil {
				t.Fatal(err)
			}
			for open := true; open; { // the rows follow
				j := leasetest.JobOf(t, f.Near(), first)
				open = j.Shards.Open() > 0
			}
		}, false},
		"lapsed, its job paused": {func(t *testing.T, f *leasetest.Fixture, w *leasetest.Worker, first lease.JobID, g lease.Grant) {
			if err := f.Near().Pause(t.Context(), lease.Target{Job: first}, "x", 0); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				f.Clock.Advance(3 * time.Second) // less than what it takes for a stall
				w.Exchange(lease.Exchange{})     // any command makes it look at the clock
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
			first := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 1, Reuse: true})
			second := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 1, Reuse: true, Distinct: "second"})
			w, other := leasetest.NewWorker(t, f.Near(), "w1"), leasetest.NewWorker(t, f.Near(), "w2")
			gs := w.Claim(2)
			if len(gs) != 1 || gs[0].Shard.Job != first || len(other.Claim(2)) != 0 {
				t.Fatalf("granted %v, want one of two twins", gs)
			}
			if why := leasetest.JobOf(t, f.Near(), second).Waits; !strings.Contains(why, "the same work") {
				t.Fatalf("the twin waits because %q", why)
			}
			c.end(t, f, w, first, gs[0])
			gs = other.Claim(2)
			done := leasetest.JobOf(t, f.Near(), second).Items.Done == 1
			if done != c.reused || !c.reused && (len(gs) != 1 || gs[0].Shard.Job != second) {
				t.Fatalf("then granted %v, the twin is done: %v", gs, done)
			}
		})
	}
}
