package store_test

import (
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

func open(t *testing.T) (*leasetest.Fixture, lease.Control) {
	f := leasetest.Open(t, kvtest.Guard(t, memkv.Open()), leasetest.NewBlobs(), leasetest.NewClock())
	return f, f.Near()
}

// A blob that a plan in pages is going to need is not dropped when the last
// shard that needs it now ends, even in the commit that accepted the plan.
func TestPagedPlanKeepsBlobs(t *testing.T) {
	f, ctl := open(t)
	w := leasetest.NewWorker(t, ctl, "w1")
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 1, Sound: true})
	g := w.Claim(1)[0]
	sound := w.Sound(g)
	w.Report(leasetest.Done(g, "a", sound))
	last := w.Claim(1)[0] // needs the sound
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 300, Sound: true})
	g = w.Claim(1)[0]
	out := w.Exchange(lease.Exchange{Reports: []lease.Report{leasetest.Done(g, "b", sound), leasetest.Done(last, "c")}})
	if out.Verdicts[0].Verdict != lease.Accepted || out.Verdicts[1].Verdict != lease.Accepted {
		t.Fatalf("verdicts %+v, want both accepted", out.Verdicts)
	}
	for leasetest.JobOf(t, ctl, g.Shard.Job).Plans > 0 {
	}
	if here, _ := f.Blobs.Has(sound); !here {
		t.Fatal("the sound was dropped before the shards that need it were added")
	}
	if err := ctl.Cancel(t.Context(), g.Shard.Job, "enough"); err != nil {
		t.Fatal(err)
	}
	for j := leasetest.JobOf(t, ctl, g.Shard.Job); j.Shards.Open() > 0; j = leasetest.JobOf(t, ctl, g.Shard.Job) {
	}
	f.Stop(t) // the blob goes after the commit that ended the last shard
	if here, _ := f.Blobs.Has(sound); here {
		t.Fatal("the sound is still there, though nothing needs it")
	}
}

// A result is not accepted on the word of a report that does not name the blobs it speaks of.
func TestUnnamedBlobs(t *testing.T) {
	_, ctl := open(t)
	w := leasetest.NewWorker(t, ctl, "w1")
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 1, Sound: true})
	g := w.Claim(1)[0]
	if v := w.Report(leasetest.Done(g, "x")); v.Verdict != lease.InvalidReport {
		t.Fatalf("verdict %s, want %s", v.Verdict, lease.InvalidReport)
	}
}
