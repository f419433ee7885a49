package leasetest

import (
	"bytes"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/store"
)

// testBackup restores a backup beside the store that lives on: what that one did
// since is the lost future of the other.
func testBackup(t *testing.T, ctl lease.Control, f *Fixture) {
	w := NewWorker(t, ctl, "w1")
	id := Submit(t, ctl, Params{Items: 4})
	gs := w.Claim(3)
	big := Done(gs[0], strings.Repeat("long ", 100))
	if err := ctl.PutBlob(t.Context(), Under(gs[0], big.Digest, int(big.Bytes)), bytes.NewReader(big.Result)); err != nil {
		t.Fatal(err)
	}
	big.Result, big.Blobs = nil, []lease.Digest{big.Digest}
	wantVerdict(t, "result as a blob", w.Report(big), lease.Accepted)
	var archive bytes.Buffer
	if err := ctl.Backup(t.Context(), &archive); err != nil {
		t.Fatalf("backup: %v", err)
	}
	lost := w.Claim(1)[0]
	f.Clock.Advance(2 * lease.Term)
	lapsed := NewWorker(t, ctl, "w2").Claim(3)

	g, told := Restore(t, &archive, f.Clock)
	if told.Fenced != 2 || told.Blobs != 1 || len(told.Missing) > 0 {
		t.Fatalf("restored %+v, want 2 leases fenced off and a blob", told)
	}
	again := g.Near()
	if j := JobOf(t, again, id); j.Shards.Done != 1 || j.Shards.Ready != 3 {
		t.Fatalf("job %+v, want one done and three ready", j)
	}
	// What was granted before the backup is fenced off, what was granted after it
	// was never heard of.
	for _, gr := range append(lapsed, gs[1], lost) {
		w := NewWorker(t, again, "w1")
		wantVerdict(t, "report of the lost future", w.Report(Done(gr, "late")), lease.Stale)
	}
	highest := lease.Fence(0)
	for _, gr := range append(lapsed, lost) {
		highest = max(highest, gr.Fence)
	}
	w = NewWorker(t, again, "w1")
	for _, gr := range w.Claim(5) {
		if gr.Fence <= highest {
			t.Fatalf("fence %v after the restore, %v before", gr.Fence, highest)
		}
		wantVerdict(t, "result after the restore", w.Report(Done(gr, "new")), lease.Accepted)
	}
	wantState(t, again, id, lease.JobDone)
	if next := Submit(t, again, Params{Items: 1}); next <= id {
		t.Fatalf("job %v after %v", next, id)
	}
}

// Restore runs the store that a backup holds, over a new engine.
func Restore(t testing.TB, archive *bytes.Buffer, clock *Clock) (*Fixture, store.Restored) {
	t.Helper()
	if _, err := store.CheckBackup(bytes.NewReader(archive.Bytes())); err != nil {
		t.Fatalf("check backup: %v", err)
	}
	e, blobs := memkv.Open(), NewBlobs()
	told, err := store.Restore(t.Context(), bytes.NewReader(archive.Bytes()), e, blobs, clock.Now)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	problems, err := store.Check(e, blobs)
	if err != nil || len(problems) > 0 {
		t.Fatalf("verify what was restored: %v, %v", problems, err)
	}
	return Open(t, e, blobs, clock), told
}
