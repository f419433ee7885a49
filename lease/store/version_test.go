package store_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// The file was written by the first version, whose rows had version 1: a library
// job that ended with one film of two done, one that runs, and one canceled.
const firstVersion = "testdata/rows-v1.db.gz"

// The file was written by the last version of schema 2: what lived makes, and of two
// canceled jobs of one key the newer one pruned.
const secondVersion = "testdata/rows-v2.db.gz"

func unpack(t *testing.T, name string) *boltkv.DB {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := boltkv.Open(path, boltkv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// versions counts the rows of jobs and shards by their version.
func versions(t *testing.T, e kv.Engine) map[byte]int {
	n := map[byte]int{}
	for _, r := range dump(t, e) {
		if len(r.key) > 0 && (r.key[0] == 'j' || r.key[0] == 's') {
			n[r.value[0]]++
		}
	}
	return n
}

// TestFirstVersion: a store of the first version verifies, goes on, is restored
// from its backup, and ends with rows of this version.
func TestFirstVersion(t *testing.T) {
	db := unpack(t, firstVersion)
	blobs := leasetest.NewBlobs()
	if problems, err := store.Check(db, blobs); !errors.Is(err, store.ErrOlder) {
		t.Fatalf("verify: %v, %v, want ErrOlder", problems, err)
	}
	before := versions(t, db)
	if before[1] < 6 || before[2] > 0 {
		t.Fatalf("rows by version: %v, want them all of version 1", before)
	}
	f := leasetest.Open(t, db, blobs, leasetest.NewClock())
	f.Check(t)
	if n := schema(t, db); n != 3 {
		t.Fatalf("schema %d after the start, want 3: an older version must refuse it", n)
	}
	ctl := f.Near()
	jobs, err := ctl.Jobs(t.Context(), 0, 0)
	if err != nil || len(jobs) != 3 {
		t.Fatalf("jobs %+v, %v, want 3", jobs, err)
	}
	canceled, running, partial := jobs[0], jobs[1], jobs[2]
	if canceled.State != lease.JobCanceled || running.State != lease.JobRunning || partial.State != lease.JobPartial || partial.Items.Total != 2 {
		t.Fatalf("jobs %+v", jobs)
	}
	shards, err := ctl.Shards(t.Context(), partial.ID, 0, 0, true)
	if err != nil || len(shards) < 4 {
		t.Fatalf("shards %+v, %v", shards, err)
	}
	fence := lease.Fence(0)
	for _, s := range shards {
		fence = max(fence, s.Fence)
	}
	w := leasetest.NewWorker(t, ctl, "w1", "elsewhere")
	w.Offer.Kinds = []lease.Kind{"scan"}
	gs := w.Exchange(lease.Exchange{Max: 1, PerKind: map[lease.Kind]int{"scan": 1}}).Grants
	if len(gs) != 1 || gs[0].Fence <= fence || gs[0].Shard.Job != running.ID {
		t.Fatalf("grants %+v, want the scan that waited, with a fence above %v", gs, fence)
	}
	f.Restart(t)
	f.Check(t)
	if n := versions(t, db); n[1] >= before[1] || n[6] == 0 {
		t.Fatalf("rows by version: %v after %v, want what changed in version 6", n, before)
	}
	if err := ctl.Prune(t.Context(), []lease.JobID{canceled.ID}); err != nil {
		t.Fatal(err)
	}
	quiet(t, ctl)
	f.Check(t)
	if n := versions(t, db); n[1] > 0 {
		t.Fatalf("rows by version: %v behind the cut, want them all of version 6", n)
	}
	if next := leasetest.Submit(t, ctl, leasetest.Params{Items: 1}); next <= canceled.ID {
		t.Fatalf("job %v after %v", next, canceled.ID)
	}
}

// TestSecondVersion: a store of schema 2 verifies once it was opened, knows its keys,
// and keeps when a job ended as well as that is known.
func TestSecondVersion(t *testing.T) {
	db, blobs := unpack(t, secondVersion), leasetest.NewBlobs()
	b, in := leasetest.Lines(7)
	if err := blobs.Put(t.Context(), in.Digest, in.Bytes, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if problems, err := store.Check(db, blobs); !errors.Is(err, store.ErrOlder) {
		t.Fatalf("verify: %v, %v, want ErrOlder", problems, err)
	}
	f := leasetest.Open(t, db, blobs, leasetest.NewClock())
	f.Check(t)
	ctl := f.Near()
	jobs, err := ctl.Jobs(t.Context(), 0, 0)
	if err != nil || len(jobs) != 8 {
		t.Fatalf("%d jobs, %v, want 8", len(jobs), err)
	}
	for _, j := range jobs {
		if want := j.Submitted; j.State.Terminal() && !j.Ended.Equal(want) || !j.State.Terminal() && !j.Ended.IsZero() {
			t.Errorf("job %v is %s, submitted %v, ended %v", j.ID, j.State, j.Submitted, j.Ended)
		}
	}
	id, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: []byte(`{"items":2}`), Key: "mine"})
	if err != nil || id == jobs[0].ID {
		t.Fatalf("submit under the key of a canceled job = %v, %v", id, err)
	}
	if err := ctl.Prune(t.Context(), []lease.JobID{jobs[0].ID}); err != nil {
		t.Fatal(err)
	}
	quiet(t, ctl)
	f.Restart(t)
	f.Check(t)
	if n := versions(t, db); n[2]+n[3] > 0 {
		t.Fatalf("rows by version: %v behind the cut, want them all of version 6", n)
	}
}

// The file was written by a version whose rows had version 2: the worker mac of
// films, whose token was rotated, and gone, a reader that was revoked.
const (
	secondActors = "testdata/actors-v2.db.gz"
	secondToken  = "mb_mac_PXTioX4TxOJZAuMViGM_9XmMvlFTeM7FbXg0AvshOGk"
)

// TestSecondActors: actors of that version are good, may be invited again, and
// the store verifies before and after.
func TestSecondActors(t *testing.T) {
	f := leasetest.Open(t, unpack(t, secondActors), leasetest.NewBlobs(), leasetest.NewClock())
	f.Check(t)
	who, err := f.Near().Actors(t.Context())
	if err != nil || len(who) != 3 || who[1].ID != "gone" || !who[1].Revoked || who[2].ID != "mac" || who[2].Absent || !who[2].Invited.IsZero() {
		t.Fatalf("actors %+v, %v", who, err)
	}
	if a, err := f.Authenticate(secondToken); err != nil || a.ID != "mac" || a.Role != lease.WorkerRole {
		t.Fatalf("its token is that of %+v, %v", a, err)
	}
	if err := joinAgain(t, f, "mac"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Authenticate(secondToken); err != nil {
		t.Fatalf("its former token after it joined again: %v", err)
	}
	f.Restart(t)
	f.Check(t)
}

func schema(t *testing.T, e kv.Engine) (n byte) {
	err := e.View(func(r kv.Reader) error {
		n = r.Get([]byte("m"))[0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMigrationFails: whatever becomes of the commit that brings an older store up
// to date, the store is of one schema or the other, and the next start goes on.
func TestMigrationFails(t *testing.T) {
	for old, name := range map[byte]string{1: firstVersion, 2: secondVersion} {
		t.Run(fmt.Sprint(old), func(t *testing.T) { migrationFails(t, old, unpack(t, name)) })
	}
}

func migrationFails(t *testing.T, old byte, before kv.Engine) {
	b, in := leasetest.Lines(7)
	for name, fault := range map[string]*memkv.Fault{
		"full": {Err: kv.ErrFull}, "lost": {Err: kv.ErrUnknownOutcome}, "done, unknown": {Err: kv.ErrUnknownOutcome, Applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			db, blobs := leasetest.Copy(t, before), leasetest.NewBlobs()
			if err := blobs.Put(t.Context(), in.Digest, in.Bytes, bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
			before := dump(t, db)
			db.OnCommit = func(int) *memkv.Fault { return fault }
			for range 2 {
				o := store.Options{Engine: db, Blobs: blobs, Planner: leasetest.Planner{}}
				if _, err := store.Open(o); err == nil && !fault.Applied {
					t.Fatal("open = nil, want the fault")
				}
				db.OnCommit = nil
				db = db.Reopen()
				if n := schema(t, db); fault.Applied != (n == 3) || !fault.Applied && n != old {
					t.Fatalf("schema %d", n)
				}
				if !fault.Applied && !slices.EqualFunc(dump(t, db), before, func(a, b record) bool {
					return bytes.Equal(a.key, b.key) && a.seq == b.seq && bytes.Equal(a.value, b.value)
				}) {
					t.Fatal("the store changed")
				}
				db.OnCommit = func(int) *memkv.Fault { return fault }
			}
			db.OnCommit = nil
			f := leasetest.Open(t, db, blobs, leasetest.NewClock())
			f.Check(t)
			if n := schema(t, db); n != 3 {
				t.Fatalf("schema %d, want 3", n)
			}
			commits := db.Commits()
			f.Restart(t)
			if db.Commits() != commits {
				t.Fatal("a start of a store that is up to date wrote something")
			}
		})
	}
}

// TestMigratePlans: plans that were under way in the former form go on.
func TestMigratePlans(t *testing.T) {
	h := haltable(t)
	ctl := h.Near()
	w := leasetest.NewWorker(t, ctl, "w1")
	id := leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 2000})
	g := w.Claim(1)[0]
	h.left.Store(2)
	w.Report(leasetest.Done(g, "a"))
	<-h.halted
	h.Stop(t)
	h.left.Store(1 << 40)
	found := 0
	err := h.Engine.Update(func(w kv.Writer) (err error) {
		w.Scan([]byte("p"), []byte("q"), func(k, v []byte) bool {
			found++
			err = w.Put(bytes.Clone(k), bytes.Clone(v[:8]))
			return false
		})
		return errors.Join(err, w.Put([]byte("m"), append([]byte{1}, w.Get([]byte("m"))[1:]...)))
	})
	if err != nil || found != 1 {
		t.Fatalf("%d marks, %v", found, err)
	}
	h.Restart(t)
	for leasetest.JobOf(t, ctl, id).Plans > 0 {
	}
	if j := leasetest.JobOf(t, ctl, id); j.Canceled || j.Shards.Open() != 2001 {
		t.Fatalf("job %+v, want all shards of the plan", j)
	}
}

// TestNewerStore: what a newer version wrote is refused by name, and left alone.
func TestNewerStore(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	leasetest.Submit(t, f.Near(), leasetest.Params{Items: 1})
	f.Stop(t)
	all := dump(t, f.Engine)
	for i, r := range all {
		if len(r.key) == 0 || r.key[0] != 'm' && r.key[0] != 'h' && r.key[0] != 'j' && r.key[0] != 's' {
			continue
		}
		newer := append([]record(nil), all...)
		newer[i].value = append([]byte{99}, r.value[1:]...)
		e := rebuild(t, newer)
		if r.key[0] == 'm' {
			if err := store.Backup(t.Context(), e, f.Blobs, time.Now(), io.Discard); !errors.Is(err, store.ErrNewer) {
				t.Errorf("backup of schema 99 = %v, want ErrNewer", err)
			}
		}
		if _, err := store.Open(store.Options{Engine: e, Blobs: f.Blobs, Planner: leasetest.Planner{}}); !errors.Is(err, store.ErrNewer) {
			t.Errorf("open with %q of version 99 = %v, want ErrNewer", r.key[:1], err)
		}
		newer[i].value = r.value[:0]
		if _, err := store.Open(store.Options{Engine: rebuild(t, newer), Blobs: f.Blobs, Planner: leasetest.Planner{}}); err == nil || errors.Is(err, store.ErrNewer) {
			t.Errorf("open with %q emptied = %v, want it called damaged", r.key[:1], err)
		}
	}
}
