package store_test

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// until asks for a job until it is as wanted. Each look comes with a command: what
// rests until the next one goes on.
func until(t *testing.T, ctl lease.Control, id lease.JobID, want func(lease.Job) bool) lease.Job {
	t.Helper()
	for {
		if _, err := ctl.Exchange(t.Context(), lease.Exchange{}); err != nil {
			t.Fatal(err)
		}
		if j := leasetest.JobOf(t, ctl, id); want(j) {
			return j
		}
	}
}

// An input that this host cannot read just now is read later.
func TestUnreadableInput(t *testing.T) {
	blobs := &sick{Blobs: leasetest.NewBlobs(), fails: func(n int32) bool { return n == 2 || n == 3 || n == 5 }}
	ctl := run(t, store.Options{Engine: memkv.Open(), Blobs: blobs})
	id := leasetest.SubmitList(t, ctl, 3000, leasetest.ListParams{})
	if j := until(t, ctl, id, func(j lease.Job) bool { return j.Plans == 0 }); j.Shards.Ready != 3000 {
		t.Fatalf("job %+v, want 3000 shards ready", j)
	}
	if n := blobs.opens.Load(); n != 7 {
		t.Fatalf("the input was opened %d times, want a look, three pages and three failures", n)
	}
}

// losing has a blob once.
type losing struct {
	*leasetest.Blobs
	opened atomic.Bool
}

func (l *losing) Open(d lease.Digest) (io.ReadSeekCloser, int64, error) {
	if l.opened.Swap(true) {
		return nil, 0, fs.ErrNotExist
	}
	return l.Blobs.Open(d)
}

// An input that is gone ends its job, and the job says so.
func TestLostInput(t *testing.T) {
	ctl := run(t, store.Options{Engine: memkv.Open(), Blobs: &losing{Blobs: leasetest.NewBlobs()}})
	id := leasetest.SubmitList(t, ctl, 3000, leasetest.ListParams{})
	j := until(t, ctl, id, func(j lease.Job) bool { return j.State.Terminal() && j.Shards.Open() == 0 })
	if j.State != lease.JobCanceled || j.Shards.Canceled != 256 || !strings.Contains(j.Reason, j.Input.Digest.String()) {
		t.Fatalf("job %+v, want it canceled with its first page, for its blob", j)
	}
}

// The plan of a result that travelled as a blob is made anew after a restart, later
// when the blob cannot be read just then, and goes on where it stopped.
func TestPlanAfterRestart(t *testing.T) {
	db, blobs := memkv.Open(), leasetest.NewBlobs()
	var full atomic.Bool
	accepting := false
	db.OnCommit = func(int) *memkv.Fault {
		if accepting { // this one still has room, the page after it has not
			accepting = false
			full.Store(true)
		} else if full.Load() {
			return &memkv.Fault{Err: kv.ErrFull}
		}
		return nil
	}
	f := leasetest.Open(t, db, blobs, leasetest.NewClock())
	id := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 1, Then: 1500})
	w := leasetest.NewWorker(t, f.Near(), "w1")
	rep := asBlob(t, f.Near(), leasetest.Done(w.Claim(1)[0], "x"))
	accepting = true
	if v := w.Report(rep); v.Verdict != lease.Accepted {
		t.Fatalf("verdict %s (%s), want %s", v.Verdict, v.Reason, lease.Accepted)
	}
	f.Stop(t)
	db.OnCommit = nil
	ill := &sick{Blobs: blobs, fails: func(n int32) bool { return n == 1 }}
	s, err := store.Open(store.Options{Engine: db, Blobs: ill, Planner: leasetest.Planner{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	j := until(t, s.As(leasetest.Admin), id, func(j lease.Job) bool { return j.Plans == 0 })
	if j.Shards.Ready != 1500 || ill.opens.Load() != 2 {
		t.Errorf("job %+v after %d looks at its plan, want 1500 shards ready after two", j, ill.opens.Load())
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// The mark of a list that is not whole is checked like a row.
func TestTamperedMark(t *testing.T) {
	db := memkv.Open()
	f := leasetest.Open(t, db, leasetest.NewBlobs(), leasetest.NewClock())
	b, in := leasetest.Lines(3000)
	leasetest.Upload(t, f.Near(), b)
	var full atomic.Bool
	db.OnCommit = func(int) *memkv.Fault { // the submission's commit has room, no page after it
		if full.Swap(true) {
			return &memkv.Fault{Err: kv.ErrFull}
		}
		return nil
	}
	if _, err := f.Near().Submit(t.Context(), lease.Submission{Kind: "list", Params: []byte(`{}`), Input: in}); err != nil {
		t.Fatal(err)
	}
	f.Stop(t)
	all, marks := dump(t, f.Engine), 0
	for i, r := range all {
		if r.key == nil || r.key[0] != 'p' {
			continue
		}
		marks++
		for at := range r.value {
			broken := append([]record(nil), all...)
			broken[i].value = append([]byte(nil), r.value...)
			broken[i].value[at] ^= 1
			if problems, err := store.Check(rebuild(t, broken), f.Blobs); err == nil && len(problems) == 0 {
				t.Errorf("byte %d of a mark changed: not noticed", at)
			}
		}
	}
	if marks != 1 {
		t.Fatalf("%d marks, want one", marks)
	}
}

// aged has blobs that nobody asked for in years.
type aged struct{ *leasetest.Blobs }

func (a aged) List(fn func(d lease.Digest, size int64, received time.Time) bool) error {
	return a.Blobs.List(func(d lease.Digest, size int64, _ time.Time) bool { return fn(d, size, time.Unix(0, 0)) })
}

// An input stays for as long as its job does, however old, and
// whatever became of it.
func TestInputStays(t *testing.T) {
	f, ctl := open(t)
	b, in := leasetest.Lines(1)
	leasetest.Upload(t, ctl, b)
	if _, err := ctl.Submit(t.Context(), lease.Submission{Kind: "list", Params: []byte(`{}`), Input: in}); err != nil {
		t.Fatal(err)
	}
	leasetest.Upload(t, ctl, []byte("nobody's"))
	w := leasetest.NewWorker(t, ctl, "w1")
	w.Report(leasetest.Done(w.Claim(1)[0], "x"))
	f.Stop(t)
	if _, err := store.Open(store.Options{Engine: f.Engine, Blobs: aged{f.Blobs}, Planner: leasetest.Planner{}}); err != nil {
		t.Fatal(err)
	}
	if here, _ := f.Blobs.Has(in.Digest); !here {
		t.Error("the input of a job is gone")
	}
	if here, _ := f.Blobs.Has(lease.DigestOf([]byte("nobody's"))); here {
		t.Error("a blob that nothing refers to is still there")
	}
}

// The input of a job is as much part of the store as its rows.
func TestInputIsVerified(t *testing.T) {
	f, ctl := open(t)
	w := leasetest.NewWorker(t, ctl, "w1")
	id := leasetest.SubmitList(t, ctl, 4, leasetest.ListParams{})
	for _, g := range w.Claim(4) {
		w.Report(leasetest.Done(g, "x"))
	}
	f.Restart(t)
	d := leasetest.JobOf(t, ctl, id).Input.Digest
	if here, _ := f.Blobs.Has(d); !here {
		t.Fatal("the input went with the last shard that needed it, though its job is there")
	}
	r, n, err := f.Blobs.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Blobs.Remove(d); err != nil {
		t.Fatal(err)
	}
	problems, err := store.Check(f.Engine, f.Blobs)
	if err != nil || len(problems) != 1 || problems[0].Kind != "input_missing" || problems[0].Subject != id.String() {
		t.Fatalf("verify without the input: %v, %v, want input_missing", problems, err)
	}
	if err := f.Blobs.Put(t.Context(), d, n, r); err != nil {
		t.Fatal(err)
	}
}
