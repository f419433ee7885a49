package store_test

import (
	"errors"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// TestCensusPages: shards that are read in several pages are counted once each.
func TestCensusPages(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	leasetest.Submit(t, ctl, leasetest.Params{Items: 15_000})
	leasetest.Submit(t, ctl, leasetest.Params{Items: 7_000, Distinct: "more"})
	leasetest.NewWorker(t, ctl, "w").Claim(3)
	c, err := ctl.Census(t.Context())
	if err != nil || len(c.Shards) != 1 || c.Shards[0].Ready != 21_997 || c.Shards[0].Leased != 3 {
		t.Fatalf("census %+v, %v, want 21,997 shards ready and 3 leased", c.Shards, err)
	}
}

// TestRetryLongList: a list job that was canceled while its input was being cut goes
// on where it stopped, also when finding that place takes several pages.
func TestRetryLongList(t *testing.T) {
	const n = 30_000
	h := haltable(t)
	ctl := h.Near()
	h.left.Store(24)
	id := leasetest.SubmitList(t, ctl, n, leasetest.ListParams{Items: 1})
	<-h.halted
	if err := ctl.Cancel(t.Context(), id, "enough"); !errors.Is(err, lease.ErrFull) {
		t.Fatalf("cancel on a full disk = %v", err)
	}
	h.left.Store(1 << 40)
	if err := ctl.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	j := leasetest.JobOf(t, ctl, id)
	for j.Shards.Open() > 0 || j.Plans > 0 {
		j = leasetest.JobOf(t, ctl, id)
	}
	if j.Items.Total < 20_000 || j.Items.Total == n {
		t.Fatalf("%d of %d items are in shards, want some", j.Items.Total, n)
	}
	out, err := ctl.Retry(t.Context(), id, lease.Selection{}, 0)
	if err != nil || out.Added == 0 {
		t.Fatalf("retry = %+v, %v", out, err)
	}
	for j = leasetest.JobOf(t, ctl, id); j.Plans > 0; {
		j = leasetest.JobOf(t, ctl, id)
	}
	if j.Items.Total != n {
		t.Errorf("%d items, want %d", j.Items.Total, n)
	}
	h.Stop(t)
	h.Check(t)
}

// TestNoIdentity: what has rows and no identity is damaged or foreign, not new.
func TestNoIdentity(t *testing.T) {
	f := lived(t)
	e := rebuild(t, dump(t, f.Engine))
	if err := e.Update(func(w kv.Writer) error { return w.Delete([]byte("m")) }); err != nil {
		t.Fatal(err)
	}
	before := len(dump(t, e))
	if _, err := store.Open(store.Options{Engine: e, Blobs: f.Blobs, Planner: leasetest.Planner{}}); err == nil {
		t.Error("a store without an identity was opened")
	}
	if after := len(dump(t, e)); after != before {
		t.Errorf("%d rows and records, %d before", after, before)
	}
}
