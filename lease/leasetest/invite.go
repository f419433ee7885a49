package leasetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/store"
)

// testInvite: an invitation is good once, for one token, for its time.
func testInvite(t *testing.T, ctl lease.Control, f *Fixture) {
	ctx := t.Context()
	invite := func(i lease.Invitation, want error) {
		t.Helper()
		if _, err := ctl.Invite(ctx, i); !errors.Is(err, want) || want == nil && err != nil {
			t.Fatalf("Invite(%+v) = %v, want %v", i, err, want)
		}
	}
	join := func(secret string, token lease.Digest, want error) {
		t.Helper()
		guest, err := f.Authenticate(secret)
		if err == nil {
			var a lease.Actor
			if a, err = f.As(guest).Join(ctx, token); err == nil && (a.ID != "mac7" || a.Role != lease.WorkerRole || fmt.Sprint(a.Projects) != "[films]") {
				t.Fatalf("Join = %+v, want the worker mac7 of films", a)
			}
		}
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Fatalf("Join = %v, want %v", err, want)
		}
	}
	good := func(token string) bool { _, err := f.Authenticate(token); return err == nil }

	secret, hash := store.NewInvite("mac7")
	i := lease.Invitation{Actor: lease.Actor{ID: "mac7", Role: lease.WorkerRole, Projects: []lease.Project{"films"}}, Secret: hash, For: time.Hour}
	for _, bad := range []func(*lease.Invitation){
		func(i *lease.Invitation) { i.Secret = lease.Digest{} }, func(i *lease.Invitation) { i.For = 0 }, func(i *lease.Invitation) { i.For = -1 },
		func(i *lease.Invitation) { i.For = lease.MaxInvited + 1 }, func(i *lease.Invitation) { i.Role = lease.Guest }, func(i *lease.Invitation) { i.ID = "mac_7" },
	} {
		i := i
		bad(&i)
		invite(i, lease.ErrInvalid)
	}
	stray := i
	stray.Projects = []lease.Project{"nowhere"}
	invite(stray, lease.ErrNotFound)
	again := i
	again.Again = true
	invite(again, lease.ErrNotFound) // there is nobody yet
	invite(i, nil)
	invite(i, nil) // asked for again
	other := i
	_, other.Secret = store.NewInvite("mac7")
	invite(other, lease.ErrNotAllowed) // the name is taken
	if good("mb_mac7_") || good("mbj_mac7_") || good(secret+"x") {
		t.Fatal("somebody is taken for who was invited")
	}
	if _, err := ctl.Join(ctx, lease.Digest{1}); !errors.Is(err, lease.ErrForbidden) {
		t.Fatalf("Join of who was not invited: %v, want %v", err, lease.ErrForbidden)
	}
	join(secret, lease.Digest{}, lease.ErrInvalid)
	join(secret, hash, lease.ErrInvalid) // a secret is no token
	if who := actor(t, ctl, "mac7"); !who.Absent || who.Invited.IsZero() || !who.Former.IsZero() {
		t.Fatalf("who was invited is %+v", who)
	}

	// Of two that race one wins, and may ask again.
	token, mine := store.NewToken("mac7")
	join(secret, mine, nil)
	join(secret, lease.Digest{2}, lease.ErrUnauthorized)
	f.Restart(t)
	join(secret, mine, nil)
	if who := actor(t, ctl, "mac7"); who.Absent || !who.Invited.IsZero() || who.Role != lease.WorkerRole || !good(token) {
		t.Fatalf("who joined is %+v", who)
	}

	// To join again, the former token being good for a while.
	secret, again.Secret = store.NewInvite("mac7")
	invite(again, nil)
	token2, mine2 := store.NewToken("mac7")
	join(secret, mine2, nil)
	if who := actor(t, ctl, "mac7"); who.Former.IsZero() || !good(token) || !good(token2) {
		t.Fatalf("who joined again is %+v", who)
	}
	f.Clock.Advance(lease.JoinAgain)
	if good(token) || !good(token2) || good(secret) {
		t.Fatal("the former token must be good for an hour, as the invitation")
	}
	token3, mine3 := store.NewToken("mac7")
	if err := ctl.RotateActor(ctx, "mac7", mine3, time.Minute); err != nil || !good(token2) || !good(token3) {
		t.Fatalf("rotate with an overlap: %v", err)
	}
	for _, d := range []time.Duration{-1, lease.MaxOverlap + 1} {
		if err := ctl.RotateActor(ctx, "mac7", lease.Digest{9}, d); !errors.Is(err, lease.ErrInvalid) {
			t.Fatalf("an overlap of %v: %v, want %v", d, err, lease.ErrInvalid)
		}
	}
	f.Clock.Advance(time.Minute)
	if good(token2) || !good(token3) {
		t.Fatal("the former token outlives the overlap")
	}

	// Too late, and revoked.
	secret, again.Secret = store.NewInvite("mac7")
	invite(again, nil)
	late := secret
	f.Clock.Advance(time.Hour)
	join(late, lease.Digest{3}, lease.ErrUnauthorized)
	secret, again.Secret = store.NewInvite("mac7")
	invite(again, nil)
	guest, err := f.Authenticate(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := ctl.RevokeActor(ctx, "mac7"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.As(guest).Join(ctx, lease.Digest{4}); !errors.Is(err, lease.ErrUnauthorized) || good(secret) || good(token3) {
		t.Fatalf("Join of who was revoked meanwhile: %v, want %v", err, lease.ErrUnauthorized)
	}
	_, again.Secret = store.NewInvite("mac7")
	invite(again, lease.ErrNotFound)
}

// actor is how an actor stands.
func actor(t *testing.T, ctl lease.Control, id lease.ActorID) lease.Identity {
	t.Helper()
	list, err := ctl.Actors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.ID == id {
			return a
		}
	}
	t.Fatalf("no actor %q", id)
	return lease.Identity{}
}
