package store_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// An actor that takes the name of another's worker gets none of its leases, ends
// none, and renews none.
func TestBorrowedWorkerName(t *testing.T) {
	f, ctl := open(t)
	owner := lease.Actor{ID: "owner", Role: lease.WorkerRole, Projects: []lease.Project{lease.DefaultProject}}
	thief := lease.Actor{ID: "thief", Role: lease.WorkerRole, Projects: []lease.Project{"another"}}
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	w := leasetest.NewWorker(t, f.As(owner), "w1")
	g := w.Claim(1)[0]

	x := leasetest.NewWorker(t, f.As(thief), "w1")
	x.Request = w.Request
	if _, err := x.Try(lease.Exchange{Max: 1}); !errors.Is(err, lease.ErrTwin) {
		t.Fatalf("claim in the name of a live worker: %v, want %v", err, lease.ErrTwin)
	}
	f.Restart(t) // now nobody is known to be alive
	x.Ctl = f.As(thief)
	if gs := x.Exchange(lease.Exchange{Max: 1}).Grants; len(gs) > 0 {
		t.Fatalf("a repeated claim of another actor was told %v", gs)
	}
	x.Incarnation = 9
	x.Exchange(lease.Exchange{Max: 1})
	if lost := x.Beat(lease.Running, g); len(lost) != 1 {
		t.Fatalf("lost %v, want the other actor's lease", lost)
	}
	out, err := f.As(owner).Exchange(t.Context(), lease.Exchange{Reports: []lease.Report{leasetest.Done(g, "x")}})
	if err != nil || out.Verdicts[0].Verdict != lease.Accepted {
		t.Fatalf("the owner's result: %+v, %v, want it accepted", out.Verdicts, err)
	}
}

// A name whose worker is gone is another actor's to use, whatever its incarnation.
func TestWorkerNameIsFreeAgain(t *testing.T) {
	f, ctl := open(t)
	w := leasetest.NewWorker(t, f.As(lease.Actor{ID: "one", Role: lease.WorkerRole}), "w1")
	w.Incarnation = 9
	w.Claim(1)
	f.Clock.Advance(lease.Term + time.Second)
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	other := leasetest.NewWorker(t, ctl, "w1")
	if gs := other.Claim(1); len(gs) != 1 {
		t.Fatalf("granted %v, want the name free again", gs)
	}
}

// Names that become parts of keys are bounded: the engine's refusal would end the store.
func TestLongNames(t *testing.T) {
	_, ctl := open(t)
	long := strings.Repeat("x", 40_000)
	_, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: []byte(`{"items":1}`), Project: lease.Project(long), Key: "k"})
	if !errors.Is(err, lease.ErrTooLarge) {
		t.Errorf("submit to a project of 40,000 bytes: %v, want %v", err, lease.ErrTooLarge)
	}
	_, err = ctl.Exchange(t.Context(), lease.Exchange{Hello: lease.Hello{Worker: lease.WorkerID(long)}})
	if !errors.Is(err, lease.ErrTooLarge) {
		t.Errorf("exchange of a worker of 40,000 bytes: %v, want %v", err, lease.ErrTooLarge)
	}
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
}

// A token whose commit failed is not good.
func TestActorNotStored(t *testing.T) {
	db := memkv.Open()
	s, err := store.Open(store.Options{Engine: db, Blobs: leasetest.NewBlobs(), Planner: leasetest.Planner{}})
	if err != nil {
		t.Fatal(err)
	}
	db.OnCommit = func(int) *memkv.Fault { return &memkv.Fault{Err: lease.ErrFull} }
	token, hash := store.NewToken("w")
	if err := s.SetActor(lease.Actor{ID: "w", Role: lease.WorkerRole}, hash); err == nil {
		t.Fatal("SetActor on a full disk returned no error")
	}
	if _, err := s.Authenticate(token); !errors.Is(err, lease.ErrUnauthorized) {
		t.Fatalf("Authenticate = %v, want %v", err, lease.ErrUnauthorized)
	}
}

// A worker reads the lines of the leases it holds, a reader those of its projects'
// jobs, and nobody learns more.
func TestInputScope(t *testing.T) {
	f, ctl := open(t)
	actor := func(id lease.ActorID, role lease.Role, p lease.Project) lease.Control {
		return f.As(lease.Actor{ID: id, Role: role, Projects: []lease.Project{p}})
	}
	id := leasetest.SubmitList(t, ctl, 4, leasetest.ListParams{Items: 2})
	w := leasetest.NewWorker(t, actor("w1", lease.WorkerRole, lease.DefaultProject), "w1")
	g := w.Claim(1)[0]
	whole := lease.ShardID{Job: id}
	next := lease.ShardID{Job: id, Seq: g.Shard.Seq + 1}
	for _, c := range []struct {
		who      string
		ctl      lease.Control
		of       lease.ShardID
		from, to int64
		want     error
	}{
		{"the holder", w.Ctl, g.Shard, g.Lines.From, g.Lines.To, nil},
		{"the holder, of some", w.Ctl, g.Shard, g.Lines.From + 1, g.Lines.To - 1, nil},
		{"the holder, of more", w.Ctl, g.Shard, g.Lines.From, g.Lines.To + 1, lease.ErrInvalid},
		{"the holder, of another shard", w.Ctl, next, g.Lines.To, g.Lines.To + 1, lease.ErrNotFound},
		{"the holder, of all", w.Ctl, whole, 0, 1, lease.ErrNotFound},
		{"another worker", actor("w2", lease.WorkerRole, lease.DefaultProject), g.Shard, g.Lines.From, g.Lines.To, lease.ErrNotFound},
		{"a reader", actor("r1", lease.Reader, lease.DefaultProject), whole, 0, 5, nil},
		{"a submitter", actor("s1", lease.Submitter, lease.DefaultProject), whole, 0, 5, nil},
		{"a reader elsewhere", actor("r2", lease.Reader, "another"), whole, 0, 5, lease.ErrNotFound},
		{"a reader elsewhere, of a shard", actor("r2", lease.Reader, "another"), g.Shard, 0, 5, lease.ErrNotFound},
	} {
		r, err := c.ctl.Input(t.Context(), c.of, c.from, c.to)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.who, err, c.want)
		}
		if err == nil {
			r.Close()
		}
	}
	w.Report(leasetest.Done(g, "x"))
	if _, err := w.Ctl.Input(t.Context(), g.Shard, g.Lines.From, g.Lines.To); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("the holder, once it is done: %v, want %v", err, lease.ErrNotFound)
	}
	if err := ctl.CreateProject(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	b, in := leasetest.Lines(5)
	elsewhere := actor("s2", lease.Submitter, "another")
	leasetest.Upload(t, ctl, b)
	sub := lease.Submission{Project: "another", Kind: "list", Params: []byte(`{}`), Input: in}
	if _, err := elsewhere.Submit(t.Context(), sub); !errors.Is(err, lease.ErrNeedBlob) {
		t.Errorf("a submission of what only another project has: %v, want %v", err, lease.ErrNeedBlob)
	}
	if err := elsewhere.PutBlob(t.Context(), lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: "another"}, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Submit(t.Context(), sub); err != nil {
		t.Errorf("a submission of what it brought: %v", err)
	}
	if _, err := elsewhere.Submit(t.Context(), lease.Submission{Kind: "list", Params: []byte(`{}`), Input: in}); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("a submission to another's project: %v, want %v", err, lease.ErrNotFound)
	}
}
