package store_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/blob"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

var listItems = flag.Int("items", 30_000, "items of the long lists on a real disk")

// TestLists runs long lists on the real engine and blobs: one shard for each item,
// and packed. It prints how long they took to be whole and to be canceled.
func TestLists(t *testing.T) {
	for name, params := range map[string]string{"one by one": `{}`, "packed": `{"items":256}`} {
		t.Run(name, func(t *testing.T) { longList(t, params, *listItems) })
	}
}

func longList(t *testing.T, params string, n int) {
	dir := t.TempDir()
	engine, err := boltkv.Open(filepath.Join(dir, "store"), boltkv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	blobs, err := blob.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(store.Options{Engine: engine, Blobs: blobs, Planner: leasetest.Planner{}, Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ctl := s.As(leasetest.Admin)
	b, in := leasetest.Lines(n)
	leasetest.Upload(t, ctl, b)

	heap := heapSize()
	begun := time.Now()
	id, err := ctl.Submit(ctx, lease.Submission{Kind: "list", Params: []byte(params), Input: in})
	if err != nil {
		t.Fatal(err)
	}
	answered := time.Since(begun)
	w := leasetest.NewWorker(t, ctl, "w")
	var held []lease.Grant
	for w.Request++; len(held) == 0; { // nothing is granted before it is whole
		held = w.Exchange(lease.Exchange{Max: 3, Wait: lease.MaxWait}).Grants
	}
	whole := time.Since(begun)
	j := leasetest.JobOf(t, ctl, id)
	if j.Items.Total != uint64(n) {
		t.Fatalf("job %+v, want %d items", j, n)
	}
	heap = heapSize() - heap

	begun = time.Now()
	if err := ctl.Cancel(ctx, id, "enough"); err != nil {
		t.Fatal(err)
	}
	canceled := time.Since(begun)
	if v := w.Report(leasetest.Done(held[0], "late")); v.Verdict != lease.Stale {
		t.Fatalf("a result after the cancel: %s, want %s", v.Verdict, lease.Stale)
	}
	if gs := w.Claim(10); len(gs) > 0 {
		t.Fatalf("granted %v after the cancel", gs)
	}
	if canceled > time.Second {
		t.Errorf("the cancel was answered after %v", canceled)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; j.Shards.Open() > 0; <-tick.C {
		j = leasetest.JobOf(t, ctl, id)
	}
	t.Logf("%d items in %d shards: submit answered in %v, whole in %v, %d MB of heap, cancel answered in %v, rows followed in %v",
		n, j.Shards.Canceled, answered, whole, heap>>20, canceled, time.Since(begun))
	if j.Shards.Done > 0 {
		t.Fatalf("job %+v, want nothing done", j)
	}
}

func heapSize() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
