package store_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// sick is a blob store that cannot be read at times.
type sick struct {
	*leasetest.Blobs
	opens atomic.Int32
	fails func(n int32) bool // whether the n-th opening does, from 1 on
}

func (s *sick) Open(d lease.Digest) (io.ReadSeekCloser, int64, error) {
	if s.fails(s.opens.Add(1)) {
		return nil, 0, errors.New("too many open files")
	}
	return s.Blobs.Open(d)
}

// run serves a store until the test ends.
func run(t *testing.T, o store.Options) lease.Control {
	o.Planner = leasetest.Planner{}
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("run store: %v", err)
		}
	})
	return s.As(leasetest.Admin)
}

// asBlob makes the result of a report travel as a blob.
func asBlob(t *testing.T, ctl lease.Control, r lease.Report) lease.Report {
	if err := ctl.PutBlob(t.Context(), lease.Upload{Digest: r.Digest, Size: r.Bytes, Shard: r.Shard, Fence: r.Fence, Token: r.Token}, bytes.NewReader(r.Result)); err != nil {
		t.Fatal(err)
	}
	r.Result, r.Blobs = nil, append(r.Blobs, r.Digest)
	return r
}

// A result that this host cannot read just now is not the worker's fault, and
// not the end of the job whose plan it holds.
func TestUnreadableBlob(t *testing.T) {
	blobs := &sick{Blobs: leasetest.NewBlobs(), fails: func(n int32) bool { return n == 1 || n == 3 }}
	ctl := run(t, store.Options{Engine: memkv.Open(), Blobs: blobs})
	id := leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 300})
	w := leasetest.NewWorker(t, ctl, "w1")
	rep := asBlob(t, ctl, leasetest.Done(w.Claim(1)[0], "x"))
	if v := w.Report(rep); v.Verdict != lease.NeedBlobs || len(v.Missing) > 0 {
		t.Fatalf("unreadable: verdict %s (%s) missing %v, want %s of none", v.Verdict, v.Reason, v.Missing, lease.NeedBlobs)
	}
	if v := w.Report(rep); v.Verdict != lease.Accepted {
		t.Fatalf("readable again: verdict %s (%s), want %s", v.Verdict, v.Reason, lease.Accepted)
	}
	j := leasetest.JobOf(t, ctl, id)
	for ; j.Plans > 0; j = leasetest.JobOf(t, ctl, id) {
		w.Exchange(lease.Exchange{})
	}
	if j.State != lease.JobRunning || j.Shards.Ready != 300 {
		t.Fatalf("job %+v, want 300 shards ready", j)
	}
}

// A result in the report itself is bounded: grants carry those that they wait for.
func TestInlineResultTooLarge(t *testing.T) {
	ctl := run(t, store.Options{Engine: memkv.Open(), Blobs: leasetest.NewBlobs()})
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	w := leasetest.NewWorker(t, ctl, "w1")
	if v := w.Report(leasetest.Done(w.Claim(1)[0], strings.Repeat("x", lease.InlineResult))); v.Verdict != lease.InvalidReport {
		t.Fatalf("verdict %s, want %s", v.Verdict, lease.InvalidReport)
	}
}

// Pages that a full disk refuses are tried again at leisure, and succeed once there is room.
func TestFullWhilePaging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memkv.Open()
		var full atomic.Bool
		var refused atomic.Int32
		accepting := false
		db.OnCommit = func(int) *memkv.Fault {
			if accepting { // this one still has room, the page after it has not
				accepting = false
				full.Store(true)
			} else if full.Load() && refused.Add(1) < 1000 {
				return &memkv.Fault{Err: kv.ErrFull}
			}
			return nil
		}
		ctl := run(t, store.Options{Engine: db, Blobs: leasetest.NewBlobs()})
		id := leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 300})
		w := leasetest.NewWorker(t, ctl, "w1")
		g := w.Claim(1)[0]
		accepting = true
		w.Report(leasetest.Done(g, "x"))
		time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble
		if n := refused.Load(); n == 0 || n > 11 {
			t.Errorf("%d commits refused within 10 s, want about one a second", n)
		}
		full.Store(false)
		time.Sleep(3 * time.Second) //nolint:forbidigo // in a bubble
		if j := leasetest.JobOf(t, ctl, id); j.Plans > 0 || j.Shards.Ready != 300 {
			t.Errorf("job %+v, want its plan added once there was room", j)
		}
	})
}
