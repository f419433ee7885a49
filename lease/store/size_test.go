package store_test

import (
	"flag"
	"path/filepath"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

var sizeShards = flag.Int("size", 4_000, "shards to drain where a store's size is measured")

// weigh tells how many bytes of keys, rows and events an engine holds.
func weigh(t *testing.T, e kv.Engine) (n int64) {
	t.Helper()
	for _, r := range dump(t, e) {
		n += int64(len(r.key) + len(r.value))
	}
	return n
}

// TestSize: after a drain, a prune and a compaction a store takes no more than
// three times the room of what it holds.
func TestSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := boltkv.Open(path, boltkv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	told := func(when string, size int64, e kv.Engine) float64 {
		n := weigh(t, e)
		t.Logf("%-9s %4d bytes a shard in the file, %4d of them live: %.2fx", when, size/int64(*sizeShards), n/int64(*sizeShards), float64(size)/float64(n))
		return float64(size) / float64(n)
	}
	size := func() int64 {
		t.Helper()
		n, err := db.Size()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	blobs := leasetest.NewBlobs()
	t.Run("life", func(t *testing.T) {
		f := leasetest.Open(t, db, blobs, leasetest.NewClock())
		ctl := f.Near()
		w := leasetest.NewWorker(t, ctl, "w1")
		var jobs []lease.JobID
		for i := range 2 {
			id := leasetest.SubmitList(t, ctl, *sizeShards/2+i, leasetest.ListParams{Items: 1})
			jobs = append(jobs, id)
			for leasetest.JobOf(t, ctl, id).Plans > 0 {
			}
			drainAll(t, w)
			if j := leasetest.JobOf(t, ctl, id); j.State != lease.JobDone {
				t.Fatalf("job %+v, want it done", j)
			}
		}
		told("drained", size(), db)
		if err := ctl.Prune(t.Context(), jobs[:1]); err != nil {
			t.Fatal(err)
		}
		for was := int64(0); was != weigh(t, db); { // until nothing more goes
			was = weigh(t, db)
			quiet(t, ctl)
		}
		told("pruned", size(), db)
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := boltkv.Compact(path, boltkv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if db, err = boltkv.Open(path, boltkv.Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if ratio := told("compacted", after, db); ratio > 3 || after >= before {
		t.Errorf("%d bytes, %d before: %.2f times what is live, want at most 3", after, before, ratio)
	}
	if problems, err := store.Check(db, blobs); err != nil || len(problems) > 0 {
		t.Errorf("verify: %v, %v", problems, err)
	}
}

// drainAll does all the work there is, in full batches.
func drainAll(t *testing.T, w *leasetest.Worker) {
	t.Helper()
	for reports := []lease.Report(nil); ; {
		w.Request++
		out := w.Exchange(lease.Exchange{Reports: reports, Max: lease.MaxGrants})
		reports = reports[:0]
		for _, g := range out.Grants {
			reports = append(reports, leasetest.Outcomes(g, "done", 0))
		}
		if len(reports) == 0 {
			return
		}
	}
}
