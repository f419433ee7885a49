package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// seasoned is a store with ended jobs to prune, jobs that reuse what those did, and
// open ones. The ids are those that may be pruned.
func seasoned(t *testing.T, e kv.Engine, blobs *leasetest.Blobs, items int) (f *leasetest.Fixture, ids []lease.JobID) {
	f = leasetest.Open(t, e, blobs, leasetest.NewClock())
	ctl := f.Near()
	w := leasetest.NewWorker(t, ctl, "w1")
	do := func(p leasetest.Params, n int) lease.JobID {
		id := leasetest.Submit(t, ctl, p)
		for gs := w.Claim(n); len(gs) > 0; gs = w.Claim(n) {
			for _, g := range gs {
				rep := leasetest.Done(g, fmt.Sprint(g.Shard))
				if g.Shard.Seq == 2 {
					rep = asBlob(t, ctl, rep)
				}
				w.Report(rep)
			}
		}
		return id
	}
	ids = append(ids, do(leasetest.Params{Items: 5, Reuse: true, Then: 2}, 9), do(leasetest.Params{Items: items}, 500))
	do(leasetest.Params{Items: 5, Reuse: true, Then: 2, Distinct: "kept"}, 9)
	ids = append(ids, do(leasetest.Params{Items: 3, Reuse: true, Distinct: "pruned"}, 9))
	leasetest.Submit(t, ctl, leasetest.Params{Items: 6, Then: 2})
	gs := w.Claim(4)
	w.Report(leasetest.Failed(gs[0], lease.Retryable, "again"))
	w.Report(leasetest.Done(gs[1], "x"))
	return f, ids
}

// stopping is a store whose writer finds the disk full after some commits.
func stopping(db *memkv.DB) (left *int) {
	left = new(int)
	*left = 1 << 30
	db.OnCommit = func(int) *memkv.Fault {
		if *left--; *left < 0 {
			return &memkv.Fault{Err: kv.ErrFull}
		}
		return nil
	}
	return left
}

// TestPruneSteps stops a prune after each of its commits: what is there then
// verifies, and goes on to the end when it is opened again.
func TestPruneSteps(t *testing.T) {
	steps := 0
	for done := false; !done; steps++ {
		db := memkv.Open()
		left := stopping(db)
		f, ids := seasoned(t, kvtest.Guard(t, db), leasetest.NewBlobs(), 500)
		f.Stop(t)
		*left = steps
		f.Restart(t)
		err := f.Near().Prune(t.Context(), ids)
		if errors.Is(err, lease.ErrFull) != (steps == 0) {
			t.Fatalf("prune with %d commits left: %v", steps, err)
		}
		quiet(t, f.Near())
		f.Stop(t)
		f.Check(t)
		done = *left >= 0
		*left = 1 << 30
		f.Engine = kvtest.Guard(t, db.Reopen())
		f.Restart(t)
		if err := f.Near().Prune(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		quiet(t, f.Near())
		kept := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 5, Reuse: true, Then: 2, Distinct: "once more"})
		leasetest.NewWorker(t, f.Near(), "w2").Claim(9)
		if j := leasetest.JobOf(t, f.Near(), kept); j.Items.Done > 0 {
			t.Fatalf("after %d steps: %+v reuses what was pruned", steps, j)
		}
		f.Stop(t)
		f.Check(t)
		for _, r := range dump(t, f.Engine) {
			for _, id := range ids {
				if len(r.key) >= 9 && bytes.Equal(r.key[1:9], id8(id)) && r.key[0] != 'o' {
					t.Fatalf("after %d steps: key %q of pruned job %v is left", steps, r.key, id)
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d steps", steps)
	if steps < 10 {
		t.Errorf("%d steps, want one for each commit", steps)
	}
}

func id8(id lease.JobID) []byte {
	return []byte{byte(id >> 56), byte(id >> 48), byte(id >> 40), byte(id >> 32), byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

// quiet runs commands that write nothing until a prune is through, or stuck.
func quiet(t *testing.T, ctl lease.Control) {
	t.Helper()
	for range 100 {
		if _, err := ctl.Exchange(t.Context(), lease.Exchange{}); err != nil && !errors.Is(err, lease.ErrFull) {
			t.Fatal(err)
		}
	}
}

// TestPruneBlobs: of the blobs that pruned jobs brought only those that others
// refer to stay, and the pruned job's values likewise.
func TestPruneBlobs(t *testing.T) {
	blobs := leasetest.NewBlobs()
	f, ids := seasoned(t, memkv.Open(), blobs, 20)
	here := func() (n int) {
		_ = blobs.List(func(lease.Digest, int64, time.Time) bool { n++; return true })
		return n
	}
	before := here()
	if err := f.Near().Prune(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	quiet(t, f.Near())
	f.Stop(t)
	f.Check(t)
	t.Logf("%d blobs, %d after the prune", before, here())
	if n := here(); n != 1 {
		t.Errorf("%d blobs of %d are left, want the one that a kept job reuses", n, before)
	}
}

// TestTamperPruned is TestTamper in the middle of a cut and behind it.
func TestTamperPruned(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 2))
	cutting := 0
	for steps := 1; ; steps++ {
		db := memkv.Open()
		left := stopping(db)
		f, ids := seasoned(t, db, leasetest.NewBlobs(), 20)
		*left = steps
		if err := f.Near().Prune(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		quiet(t, f.Near())
		f.Stop(t)
		done := *left >= 0
		*left = 1 << 30
		kinds := kindsOf(t, f.Near())
		if kinds[lease.EventCarried] > 0 && kinds[lease.EventCheckpoint] == 0 {
			cutting++
		} else if !done {
			continue
		}
		all := dump(t, f.Engine)
		n := tamper(t, rnd, seed, 600, all, nil, f.Blobs)
		t.Logf("seed %d, %d steps, %v, %d rows and records, %d tamperings", seed, steps, kinds, len(all), n)
		if done {
			break
		}
	}
	if cutting == 0 {
		t.Error("no step in the middle of a cut")
	}
}

func kindsOf(t *testing.T, ctl lease.Control) map[lease.EventKind]int {
	kinds := map[lease.EventKind]int{}
	for after := uint64(0); ; {
		events, err := ctl.Events(t.Context(), lease.ShardID{}, after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return kinds
		}
		for _, ev := range events {
			after = ev.Seq
			kinds[ev.Kind]++
		}
	}
}
