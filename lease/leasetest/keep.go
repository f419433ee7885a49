package leasetest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/store"
)

// testKeep: blobs that belong to a result stay, are read by its shard, go with a
// backup, serve who reuses the result, and are missed by who verifies.
func testKeep(t *testing.T, ctl lease.Control, f *Fixture) {
	p := Params{Items: 1, Keep: true, Reuse: true}
	first := Submit(t, ctl, p)
	w := NewWorker(t, ctl, "w1")
	g := w.Claim(1)[0]
	wantVerdict(t, "what it keeps is not named", w.Report(Done(g, "x")), lease.InvalidReport)
	f.Clock.Advance(time.Hour) // the rest before another attempt
	g = w.Claim(1)[0]
	wantVerdict(t, "what it keeps is not here", w.Report(Done(g, "x", SoundOf(g.Shard))), lease.NeedBlobs)
	d := w.Sound(g)
	wantVerdict(t, "result", w.Report(Done(g, "x", d)), lease.Accepted)
	read := func(ctl lease.Control, id lease.JobID) {
		t.Helper()
		rows, err := ctl.Shards(t.Context(), id, 0, 1, false)
		if err != nil || len(rows) != 1 || !slices.Equal(rows[0].Result.Keeps, []lease.Digest{d}) {
			t.Fatalf("shards of job %v = %+v, %v, want one that keeps the blob", id, rows, err)
		}
		r, n, err := ctl.Blob(t.Context(), rows[0].ID, d)
		if err != nil || n != int64(len(SoundBytes(g.Shard))) {
			t.Fatalf("blob = %d bytes, %v", n, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read(ctl, first)
	f.Restart(t)
	f.Clock.Advance(48 * time.Hour)
	f.Sweep(t.Context())
	read(ctl, first)

	var archive bytes.Buffer
	if err := ctl.Backup(t.Context(), &archive); err != nil {
		t.Fatalf("backup: %v", err)
	}
	copied, told := Restore(t, &archive, f.Clock)
	if told.Blobs != 1 || len(told.Missing) > 0 {
		t.Fatalf("restored %+v, want a blob", told)
	}
	read(copied.Near(), first)

	p.Distinct = "again"
	second := Submit(t, ctl, p)
	if gs := NewWorker(t, ctl, "w1").Claim(1); len(gs) > 0 {
		t.Fatalf("granted %v, want the earlier result reused", gs)
	}
	if err := ctl.Prune(t.Context(), []lease.JobID{first}); err != nil {
		t.Fatalf("prune: %v", err)
	}
	waitCut(t, ctl)
	read(ctl, second)

	f.Stop(t)
	if err := f.Blobs.Remove(d); err != nil {
		t.Fatal(err)
	}
	problems, err := store.Check(f.Engine, f.Blobs)
	if err != nil || len(problems) != 1 || problems[0].Kind != "result_missing" {
		t.Fatalf("verify without the blob = %+v, %v", problems, err)
	}
	if err := f.Blobs.Put(t.Context(), d, int64(len(SoundBytes(g.Shard))), bytes.NewReader(SoundBytes(g.Shard))); err != nil {
		t.Fatal(err)
	}
}
