package store_test

import (
	"errors"
	"testing"

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
