package store_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// gate is an engine whose commits can be held back, so that a test decides what
// waits while one is under way. It is used within a bubble.
type gate struct {
	*memkv.DB
	after atomic.Int64 // commits beyond this number wait
	open  chan struct{}
}

func newGate() *gate {
	g := &gate{DB: memkv.Open(), open: make(chan struct{})}
	g.after.Store(1 << 40)
	g.OnCommit = func(n int) *memkv.Fault {
		if int64(n) > g.after.Load() {
			<-g.open
		}
		return nil
	}
	return g
}

// hold lets n more commits through and holds the next one.
func (g *gate) hold(n int) { g.after.Store(int64(g.Commits() + n)) }

// Commands that share a commit see what those before them did: of two reports
// on one lease the first counts.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, blobs := newGate(), leasetest.NewBlobs()
		ctl := run(t, store.Options{Engine: g, Blobs: blobs})
		w := leasetest.NewWorker(t, ctl, "w")
		leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
		gr := w.Claim(1)[0]
		g.hold(0)
		go leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Distinct: "other"})
		synctest.Wait() // its commit is held; what comes now shares the next one
		var verdicts [2]lease.Verdict
		for i, text := range []string{"a", "b"} {
			go func() { verdicts[i] = w.Report(leasetest.Done(gr, text)).Verdict }()
			synctest.Wait()
		}
		close(g.open)
		synctest.Wait()
		first, second := verdicts[0], verdicts[1]
		if first != lease.Accepted || second != lease.Conflict {
			t.Fatalf("two reports in one commit: %s, %s, want accepted, conflict", first, second)
		}
		if problems, err := store.Check(g, blobs); err != nil || len(problems) > 0 {
			t.Fatalf("verify: %v %v", problems, err)
		}
	})
}

// Once a cancel was answered nothing of the job turns done, also what its pages
// have not come to yet.
func TestCancelHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 2500
		g, blobs := newGate(), leasetest.NewBlobs()
		ctl := run(t, store.Options{Engine: g, Blobs: blobs})
		w := leasetest.NewWorker(t, ctl, "w")
		id := leasetest.Submit(t, ctl, leasetest.Params{Items: shards})
		var last lease.Grant
		for last.Shard.Seq < shards {
			grants := w.Claim(lease.MaxGrants)
			if len(grants) == 0 {
				t.Fatalf("no grant after %v", last.Shard)
			}
			last = grants[len(grants)-1]
		}
		g.hold(1)
		if err := ctl.Cancel(t.Context(), id, "enough"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the first page is held
		verdict := make(chan lease.Verdict, 1)
		go func() { verdict <- w.Report(leasetest.Done(last, "late")).Verdict }()
		synctest.Wait() // it shares the commit of the second page; its shard is on the third
		close(g.open)
		if got := <-verdict; got != lease.Stale {
			t.Fatalf("report after the cancel: %s, want stale", got)
		}
		if problems, err := store.Check(g, blobs); err != nil || len(problems) > 0 {
			t.Fatalf("verify: %v %v", problems, err)
		}
	})
}

// Fences and ids carry the epoch of the store: one that was set back and raised
// its epoch never gives out an old one again.
func TestEpoch(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	id := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 1})
	gr := leasetest.NewWorker(t, f.Near(), "w").Claim(1)[0]
	epoch := uint64(f.Clock.Now().Unix() / 60)
	if uint64(id)>>32 != epoch || uint64(gr.Fence)>>32 != epoch {
		t.Fatalf("job %v, fence %v: want both in epoch %d", id, gr.Fence, epoch)
	}
}
