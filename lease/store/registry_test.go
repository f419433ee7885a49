package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// add adds an actor and returns it.
func add(t testing.TB, ctl lease.Control, id lease.ActorID, role lease.Role, projects ...lease.Project) lease.Actor {
	t.Helper()
	a := lease.Actor{ID: id, Role: role, Projects: projects}
	_, hash := store.NewToken(id)
	if err := ctl.AddActor(t.Context(), a, hash); err != nil {
		t.Fatal(err)
	}
	return a
}

// project creates a project and submits a job of two shards to it.
func project(t testing.TB, ctl lease.Control, p lease.Project) lease.JobID {
	t.Helper()
	if err := ctl.CreateProject(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return submitTo(t, ctl, p, leasetest.Params{Items: 2})
}

func submitTo(t testing.TB, ctl lease.Control, p lease.Project, params leasetest.Params) lease.JobID {
	t.Helper()
	b, _ := json.Marshal(params) // it always encodes
	id, err := ctl.Submit(t.Context(), lease.Submission{Project: p, Kind: "test", Params: b})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// wait is a claim in flight.
func wait(w *leasetest.Worker) chan error {
	ended := make(chan error, 1)
	w.Request++
	go func() {
		_, err := w.Try(lease.Exchange{Max: 1, Wait: lease.MaxWait})
		ended <- err
	}()
	return ended
}

// A revoked actor's waiting claim ends, its reports are not heard, and others are
// granted what it held, all at once; nothing of it counts against the shards.
func TestRevokedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctl := open(t)
		id := project(t, ctl, "films")
		mac := leasetest.NewWorker(t, f.As(add(t, ctl, "mac", lease.WorkerRole, "films")), "mac")
		other := leasetest.NewWorker(t, f.As(add(t, ctl, "other", lease.WorkerRole, "films")), "other")
		gs := mac.Claim(2)
		mac.Beat(lease.Running, gs...)
		polls, theirs := wait(mac), wait(other)
		synctest.Wait()
		if err := ctl.RevokeActor(t.Context(), "mac"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-polls:
			if !errors.Is(err, lease.ErrUnauthorized) {
				t.Errorf("the waiting claim ended with %v, want %v", err, lease.ErrUnauthorized)
			}
		default:
			t.Error("the waiting claim goes on")
		}
		select {
		case err := <-theirs:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("another worker was not woken for what lapsed")
		}
		if _, err := mac.Try(lease.Exchange{Reports: []lease.Report{leasetest.Done(gs[0], "x")}}); !errors.Is(err, lease.ErrUnauthorized) {
			t.Errorf("report: %v, want %v", err, lease.ErrUnauthorized)
		}
		if _, err := mac.Ctl.Heartbeat(t.Context(), lease.Beat{Hello: mac.Hello}); !errors.Is(err, lease.ErrUnauthorized) {
			t.Errorf("heartbeat: %v, want %v", err, lease.ErrUnauthorized)
		}
		if got := other.Claim(1); len(got) != 1 {
			t.Errorf("granted %v, want the second shard of the revoked actor", got)
		}
		shards, err := ctl.Shards(t.Context(), id, 0, 9, false)
		for _, s := range shards {
			if s.Lapses != 0 || s.Holder.Actor != "other" {
				t.Errorf("shard %+v, want it held by the other without a counted lapse", s)
			}
		}
		if err != nil || len(shards) != 2 {
			t.Errorf("%d shards, %v", len(shards), err)
		}
		f.Restart(t)
		if _, err := f.As(lease.Actor{ID: "mac", Role: lease.Admin}).Jobs(t.Context(), 0, 1); !errors.Is(err, lease.ErrUnauthorized) {
			t.Errorf("after a restart: %v, want %v", err, lease.ErrUnauthorized)
		}
		if err := ctl.AddActor(t.Context(), lease.Actor{ID: "mac", Role: lease.Reader}, lease.Digest{1}); !errors.Is(err, lease.ErrNotAllowed) {
			t.Errorf("the name given again: %v, want %v", err, lease.ErrNotAllowed)
		}
	})
}

// An unassigned actor loses what it holds there, and only that.
func TestUnassignedAtOnce(t *testing.T) {
	f, ctl := open(t)
	here, there := project(t, ctl, "here"), project(t, ctl, "there")
	a := add(t, ctl, "mac", lease.WorkerRole, "here", "there")
	w := leasetest.NewWorker(t, f.As(a), "mac")
	gs := w.Claim(4)
	if len(gs) != 4 {
		t.Fatalf("granted %v, want four", gs)
	}
	if err := ctl.Unassign(t.Context(), "mac", "there"); err != nil {
		t.Fatal(err)
	}
	// The very same claim again, which was answered already, is not told them again.
	for _, g := range w.Exchange(lease.Exchange{Max: 4}).Grants {
		if g.Shard.Job == there {
			t.Errorf("the repeated claim was told %v", g.Shard)
		}
	}
	lost := w.Beat(lease.Running, gs...)
	if len(lost) != 2 || lost[0].Job != there || lost[1].Job != there {
		t.Errorf("lost %v, want the two of %v", lost, there)
	}
	for _, g := range gs {
		want := lease.Accepted
		if g.Shard.Job == there {
			want = lease.Denied
		}
		if v := w.Report(leasetest.Done(g, "x")); v.Verdict != want {
			t.Errorf("report on %v: %s, want %s", g.Shard, v.Verdict, want)
		}
	}
	if _, _, err := w.Ctl.Blob(t.Context(), lease.ShardID{Job: here, Seq: 1}, lease.Digest{1}); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("blob: %v", err)
	}
	other := leasetest.NewWorker(t, f.As(add(t, ctl, "other", lease.WorkerRole, "there")), "other")
	if gs := other.Claim(4); len(gs) != 2 {
		t.Errorf("granted %v, want the two that lapsed", gs)
	}
	if err := ctl.Unassign(t.Context(), "mac", "here"); err != nil {
		t.Fatal(err)
	}
	submitTo(t, ctl, "here", leasetest.Params{Items: 1})
	if gs := w.Claim(4); len(gs) != 0 {
		t.Errorf("an actor of no project was granted %v", gs)
	}
	if err := ctl.Assign(t.Context(), "mac", "here"); err != nil {
		t.Fatal(err)
	}
	if gs := w.Claim(4); len(gs) != 1 {
		t.Errorf("granted %v after it was assigned again, want one", gs)
	}
}

// A closed project takes no jobs and grants nothing, not to an admin either; what
// is leased is completed. Opening wakes those who wait.
func TestClosedProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctl := open(t)
		id := project(t, ctl, "films")
		w := leasetest.NewWorker(t, f.As(add(t, ctl, "mac", lease.WorkerRole, "films")), "mac")
		g := w.Claim(1)[0]
		if err := ctl.CloseProject(t.Context(), "films"); err != nil {
			t.Fatal(err)
		}
		f.Restart(t)
		ctl, w.Ctl = f.Near(), f.As(lease.Actor{ID: "mac"})
		if _, err := ctl.Submit(t.Context(), lease.Submission{Project: "films", Kind: "test", Params: []byte(`{"items":1}`)}); !errors.Is(err, lease.ErrNotAllowed) {
			t.Errorf("submit: %v, want %v", err, lease.ErrNotAllowed)
		}
		if gs := leasetest.NewWorker(t, ctl, "admin's").Claim(5); len(gs) != 0 {
			t.Errorf("granted %v to the admin", gs)
		}
		if lost := w.Beat(lease.Running, g); len(lost) != 0 {
			t.Errorf("lost %v, want the lease kept", lost)
		}
		if v := w.Report(leasetest.Done(g, "x")); v.Verdict != lease.Accepted {
			t.Errorf("report: %s, want it accepted", v.Verdict)
		}
		leasetest.Submit(t, ctl, leasetest.Params{Items: 1}) // elsewhere, work goes on
		if gs := leasetest.NewWorker(t, ctl, "admin's").Claim(5); len(gs) != 1 {
			t.Errorf("granted %v of the default project, want one", gs)
		}
		polls := wait(w)
		synctest.Wait()
		select {
		case err := <-polls:
			t.Errorf("the claim did not wait: %v", err)
		default:
		}
		if err := ctl.OpenProject(t.Context(), "films"); err != nil {
			t.Fatal(err)
		}
		if err := <-polls; err != nil {
			t.Error(err)
		}
		if j := leasetest.JobOf(t, ctl, id); j.Shards.Leased != 1 {
			t.Errorf("job %+v, want its second shard leased", j)
		}
	})
}

// Bytes that are here for one project are missing in another: they are taken
// only from who has them, and no result can be made of their digest alone.
func TestDigestIsNoRight(t *testing.T) {
	f, ctl := open(t)
	project(t, ctl, "theirs")
	project(t, ctl, "ours")
	them := leasetest.NewWorker(t, f.As(add(t, ctl, "them", lease.WorkerRole, "theirs")), "them")
	us := leasetest.NewWorker(t, f.As(add(t, ctl, "us", lease.WorkerRole, "ours")), "us")
	secret := asBlob(t, them.Ctl, leasetest.Done(them.Claim(1)[0], strings.Repeat("secret ", 20)))
	if v := them.Report(secret); v.Verdict != lease.Accepted {
		t.Fatalf("theirs: %s", v.Verdict)
	}
	gs := us.Claim(2)
	claimed := leasetest.Done(gs[0], "x")
	claimed.Digest, claimed.Bytes, claimed.Result = secret.Digest, secret.Bytes, nil
	for _, blobs := range [][]lease.Digest{nil, {secret.Digest}} {
		claimed.Blobs = blobs
		if v := us.Report(claimed); v.Verdict != lease.NeedBlobs || !slices.Equal(v.Missing, []lease.Digest{secret.Digest}) {
			t.Errorf("a result by its digest alone, named as %v: %s %v, want it missing", blobs, v.Verdict, v.Missing)
		}
	}
	u := leasetest.Under(gs[0], secret.Digest, int(secret.Bytes))
	for _, body := range []string{"", "x", strings.Repeat("x", int(secret.Bytes)), strings.Repeat("x", 1000)} {
		if err := us.Ctl.PutBlob(t.Context(), u, strings.NewReader(body)); !errors.Is(err, lease.ErrDigest) {
			t.Errorf("upload of other bytes: %v, want %v", err, lease.ErrDigest)
		}
	}
	if v := us.Report(claimed); v.Verdict != lease.NeedBlobs {
		t.Errorf("after false uploads: %s, want %s", v.Verdict, lease.NeedBlobs)
	}
	if _, _, err := us.Ctl.Blob(t.Context(), secret.Shard, secret.Digest); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("blob of theirs: %v, want %v", err, lease.ErrNotFound)
	}
	if _, _, err := us.Ctl.Blob(t.Context(), gs[0].Shard, secret.Digest); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("their blob through a shard of ours: %v, want %v", err, lease.ErrNotFound)
	}
	ours := asBlob(t, us.Ctl, leasetest.Done(gs[0], strings.Repeat("secret ", 20))) // the same, worked out here
	if v := us.Report(ours); v.Verdict != lease.Accepted {
		t.Errorf("ours: %s (%s), want it accepted", v.Verdict, v.Reason)
	}
}

// A blob is uploaded under a lease with its token, and read through a shard that
// refers to it: by readers of the project, and by the shard's holder.
func TestBlobThroughShard(t *testing.T) {
	f, ctl := open(t)
	if err := ctl.CreateProject(t.Context(), "films"); err != nil {
		t.Fatal(err)
	}
	id := submitTo(t, ctl, "films", leasetest.Params{Items: 1, Then: 2, Sound: true})
	w := leasetest.NewWorker(t, f.As(add(t, ctl, "mac", lease.WorkerRole, "films")), "mac")
	other := f.As(add(t, ctl, "other", lease.WorkerRole, "films"))
	stranger := f.As(add(t, ctl, "stranger", lease.WorkerRole, lease.DefaultProject))
	reader := f.As(add(t, ctl, "reader", lease.Reader, "films"))
	blind := f.As(add(t, ctl, "blind", lease.Reader, lease.DefaultProject))
	g := w.Claim(1)[0]
	d := leasetest.SoundOf(g.Shard)
	b := leasetest.SoundBytes(g.Shard)
	u := leasetest.Under(g, d, len(b))
	forged, older := u, u
	forged.Token, older.Fence = "0000", u.Fence-1
	for _, c := range []struct {
		what string
		ctl  lease.Control
		u    lease.Upload
		want error
	}{
		{"a stranger's", stranger, u, lease.ErrNotFound},
		{"a forged token's", w.Ctl, forged, lease.ErrNotFound},
		{"an older fence's, whose token it is not", w.Ctl, older, lease.ErrNotFound},
		{"a reader's", reader, u, lease.ErrForbidden},
		{"a worker's for a project", w.Ctl, lease.Upload{Digest: d, Size: u.Size, Project: "films"}, lease.ErrForbidden},
		{"another worker's with the token", other, u, nil},
	} {
		if err := c.ctl.PutBlob(t.Context(), c.u, bytes.NewReader(b)); !errors.Is(err, c.want) {
			t.Errorf("upload of %s: %v, want %v", c.what, err, c.want)
		}
	}
	if v := w.Report(leasetest.Done(g, "x", d)); v.Verdict != lease.Accepted {
		t.Fatalf("verdict %s, want accepted: the sound is here", v.Verdict)
	}
	if err := w.Ctl.PutBlob(t.Context(), u, bytes.NewReader(b)); !errors.Is(err, lease.ErrFenced) {
		t.Errorf("upload under a lease that is over: %v, want %v", err, lease.ErrFenced)
	}
	mine := w.Claim(1)[0].Shard
	theirs := lease.ShardID{Job: id, Seq: 5 - mine.Seq} // 2 and 3 need the sound
	for _, c := range []struct {
		what string
		ctl  lease.Control
		of   lease.ShardID
		want error
	}{
		{"reader", reader, mine, nil},
		{"reader through the shard that delivered it", reader, g.Shard, lease.ErrNotFound},
		{"reader of another project", blind, mine, lease.ErrNotFound},
		{"holder", w.Ctl, mine, nil},
		{"holder through a shard it does not hold", w.Ctl, theirs, lease.ErrNotFound},
		{"worker that holds nothing", other, mine, lease.ErrNotFound},
		{"stranger", stranger, mine, lease.ErrNotFound},
	} {
		r, _, err := c.ctl.Blob(t.Context(), c.of, d)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if err == nil {
			if got, _ := io.ReadAll(r); !bytes.Equal(got, b) {
				t.Errorf("%s read %q", c.what, got)
			}
		}
	}
	// A submitter brings the input of a job to come.
	sub := f.As(add(t, ctl, "sub", lease.Submitter, "films"))
	if err := sub.PutBlob(t.Context(), lease.Upload{Digest: lease.DigestOf([]byte("in")), Size: 2, Project: "films"}, strings.NewReader("in")); err != nil {
		t.Errorf("upload for a project: %v", err)
	}
	if err := sub.PutBlob(t.Context(), lease.Upload{Digest: lease.DigestOf([]byte("in")), Size: 2, Project: "default"}, strings.NewReader("in")); !errors.Is(err, lease.ErrNotFound) {
		t.Errorf("upload for another project: %v, want %v", err, lease.ErrNotFound)
	}
}

// Under a lease that somebody else holds now nothing is uploaded any more, though
// the token is the one that belongs to it.
func TestUploadUnderOldFence(t *testing.T) {
	f, ctl := open(t)
	leasetest.Submit(t, ctl, leasetest.Params{Items: 1})
	old := leasetest.NewWorker(t, ctl, "old").Claim(1)[0]
	f.Clock.Advance(lease.Term / 2)
	other := leasetest.NewWorker(t, ctl, "other")
	other.Claim(1) // a look at the clock, which was not stopped for long
	for range 20 {
		f.Clock.Advance(10 * time.Second)
		other.Exchange(lease.Exchange{})
	}
	if gs := other.Claim(1); len(gs) != 1 {
		t.Fatalf("granted %v, want what lapsed", gs)
	}
	err := ctl.PutBlob(t.Context(), leasetest.Under(old, lease.DigestOf([]byte("x")), 1), strings.NewReader("x"))
	if !errors.Is(err, lease.ErrFenced) {
		t.Errorf("upload: %v, want %v", err, lease.ErrFenced)
	}
}

// While the control plane is up, what was uploaded and never reported goes after a
// day; results, inputs of open shards and fresh uploads stay.
func TestSweep(t *testing.T) {
	clock := leasetest.NewClock()
	blobs := aged{leasetest.NewBlobs()}
	s, err := store.Open(store.Options{Engine: memkv.Open(), Blobs: blobs, Planner: leasetest.Planner{}, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	ctl := s.As(leasetest.Admin)
	leasetest.Submit(t, ctl, leasetest.Params{Items: 2, Then: 1, Sound: true})
	w := leasetest.NewWorker(t, ctl, "w")
	gs := w.Claim(2)
	result := asBlob(t, ctl, leasetest.Done(gs[0], "kept", w.Sound(gs[0])))
	if v := w.Report(result); v.Verdict != lease.Accepted {
		t.Fatalf("verdict %s", v.Verdict)
	}
	lost := asBlob(t, ctl, leasetest.Done(gs[1], "never reported"))
	clock.Advance(25 * time.Hour)
	fresh := asBlob(t, ctl, leasetest.Done(gs[1], "fresh"))
	s.Sweep(t.Context())
	for _, c := range []struct {
		what string
		d    lease.Digest
		want bool
	}{{"a result", result.Digest, true}, {"an input", leasetest.SoundOf(gs[0].Shard), true}, {"a fresh upload", fresh.Digest, true}, {"an old upload", lost.Digest, false}} {
		if here, _ := blobs.Has(c.d); here != c.want {
			t.Errorf("%s is here: %v, want %v", c.what, here, c.want)
		}
	}
	if v := w.Report(lost); v.Verdict != lease.NeedBlobs {
		t.Errorf("report of what was swept: %s, want %s", v.Verdict, lease.NeedBlobs)
	}
}

// A store from before actors and projects had events gets them when it is opened.
func TestAdopt(t *testing.T) {
	f, ctl := open(t)
	token, hash := store.NewToken("old")
	project(t, ctl, "films")
	f.Stop(t)
	err := f.Engine.Update(func(w kv.Writer) error {
		row, _ := json.Marshal(map[string]any{"id": "old", "role": "worker", "projects": []string{"films"}, "token": hash}) // it always encodes
		id := bytes.Clone(w.Get([]byte("m")))
		id[0] = 1
		return errors.Join(w.Put([]byte("aold"), row), w.Put([]byte("m"), id))
	})
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := store.Check(f.Engine, f.Blobs); !errors.Is(err, store.ErrOlder) {
		t.Fatalf("verify = %v, %v, want ErrOlder", problems, err)
	}
	f.Restart(t)
	a, err := f.Authenticate(token)
	if err != nil || a.Role != lease.WorkerRole || !a.Sees("films") || a.Sees(lease.DefaultProject) {
		t.Fatalf("Authenticate = %+v, %v, want the worker of films", a, err)
	}
}

// Only who has the token is an actor, and only as long as it is its token.
func TestTokens(t *testing.T) {
	f, ctl := open(t)
	token, hash := store.NewToken("ann")
	if err := ctl.AddActor(t.Context(), lease.Actor{ID: "ann", Role: lease.Reader}, hash); err != nil {
		t.Fatal(err)
	}
	good := func() bool { _, err := f.Authenticate(token); return err == nil }
	if !good() {
		t.Fatal("the token is not known")
	}
	if who, err := ctl.Actors(t.Context()); err != nil || len(who) != 1 || who[0].Used.IsZero() || who[0].Created.IsZero() {
		t.Fatalf("Actors = %+v, %v, want ann, with the time of use", who, err)
	}
	f.Restart(t)
	if !good() {
		t.Fatal("the token is not known after a restart")
	}
	for _, bad := range []string{"", "mb_", "mb_ann", "mb_ann_", token + "x", token[:len(token)-1], strings.Replace(token, "ann", "bob", 1), strings.ToUpper(token)} {
		if _, err := f.Authenticate(bad); !errors.Is(err, lease.ErrUnauthorized) {
			t.Errorf("Authenticate(%q) = %v", bad, err)
		}
	}
	old := token
	token, hash = store.NewToken("ann")
	if err := ctl.RotateActor(t.Context(), "ann", hash, 0); err != nil || !good() {
		t.Errorf("the new token is not known: %v", err)
	}
	if _, err := f.Authenticate(old); err == nil {
		t.Error("the old token is still good")
	}
	if err := ctl.RevokeActor(t.Context(), "ann"); err != nil || good() {
		t.Errorf("the token of a revoked actor is good: %v", err)
	}
}

// What a full disk refused did not happen in memory either.
func TestFullDiskChangesNoScope(t *testing.T) {
	db := memkv.Open()
	ctl := run(t, store.Options{Engine: db, Blobs: leasetest.NewBlobs()})
	full := true
	db.OnCommit = func(int) *memkv.Fault {
		if full {
			full = false
			return &memkv.Fault{Err: kv.ErrFull}
		}
		return nil
	}
	if err := ctl.AddActor(t.Context(), lease.Actor{ID: "ann", Role: lease.Reader}, lease.Digest{1}); !errors.Is(err, lease.ErrFull) {
		t.Fatalf("AddActor = %v, want %v", err, lease.ErrFull)
	}
	if who, err := ctl.Actors(t.Context()); err != nil || len(who) != 0 {
		t.Errorf("Actors = %+v, %v, want nobody", who, err)
	}
	if err := ctl.AddActor(t.Context(), lease.Actor{ID: "ann", Role: lease.Reader}, lease.Digest{1}); err != nil {
		t.Errorf("AddActor once there is room: %v", err)
	}
	full = true
	if err := ctl.CreateProject(t.Context(), "films"); !errors.Is(err, lease.ErrFull) {
		t.Fatalf("CreateProject = %v, want %v", err, lease.ErrFull)
	}
	if ps, err := ctl.Projects(t.Context()); err != nil || len(ps) != 1 {
		t.Errorf("Projects = %+v, %v, want the default one alone", ps, err)
	}
}

// A cut of the ledger carries projects and actors, also those that change while it
// is being made; what came before is gone, and verify goes on from there.
func TestCutCarriesScope(t *testing.T) {
	f, ctl := open(t)
	id := project(t, ctl, "films")
	add(t, ctl, "ann", lease.Reader, "films")
	add(t, ctl, "still", lease.Reader, "films")
	w := leasetest.NewWorker(t, ctl, "w")
	for _, g := range w.Claim(9) {
		w.Report(leasetest.Done(g, "x"))
	}
	var hammers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		hammers.Go(func() {
			for ctx.Err() == nil {
				_ = ctl.Unassign(ctx, "ann", "films")
				_ = ctl.CloseProject(ctx, "films")
				_ = ctl.Assign(ctx, "ann", "films")
				_ = ctl.OpenProject(ctx, "films") // only that they change something counts
			}
		})
	}
	if err := ctl.Prune(t.Context(), []lease.JobID{id}); err != nil {
		t.Fatal(err)
	}
	first := func() uint64 {
		events, err := ctl.Events(t.Context(), lease.ShardID{}, 0, 1)
		if err != nil || len(events) != 1 {
			t.Fatalf("events = %v, %v", events, err)
		}
		return events[0].Seq
	}
	for i := 0; first() == 1; i++ {
		if i > 100_000 {
			t.Fatal("the ledger is not cut")
		}
	}
	stop()
	hammers.Wait()
	if err := errors.Join(ctl.Assign(t.Context(), "ann", "films"), ctl.OpenProject(t.Context(), "films")); err != nil {
		t.Fatal(err)
	}
	f.Restart(t)
	who, err := ctl.Actors(t.Context())
	if err != nil || len(who) != 2 || len(who[0].Projects) != 1 || len(who[1].Projects) != 1 {
		t.Fatalf("actors = %+v, %v, want both in films", who, err)
	}
	if problems, err := ctl.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("verify = %v, %v", problems, err)
	}
}

// TestJoinRace: of many that join by one invitation at once, one wins; all that
// repeat it with its token are answered alike.
func TestJoinRace(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	secret, hash := store.NewInvite("mac")
	if _, err := f.Near().Invite(t.Context(), lease.Invitation{Actor: lease.Actor{ID: "mac", Role: lease.WorkerRole}, Secret: hash, For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	guest, err := f.Authenticate(secret)
	if err != nil {
		t.Fatal(err)
	}
	const racers, tries = 8, 3
	var group sync.WaitGroup
	errs := make([][tries]error, racers)
	for i := range racers {
		for k := range tries {
			group.Go(func() { _, errs[i][k] = f.As(guest).Join(t.Context(), lease.Digest{byte(i + 1)}) })
		}
	}
	group.Wait()
	won := 0
	for i := range errs {
		for _, err := range errs[i] {
			if (err == nil) != (errs[i][0] == nil) || err != nil && !errors.Is(err, lease.ErrUnauthorized) {
				t.Fatalf("racer %d: %v", i, errs[i])
			}
		}
		if errs[i][0] == nil {
			won++
		}
	}
	if won != 1 {
		t.Fatalf("%d of %d racers joined, want one", won, racers)
	}
}
