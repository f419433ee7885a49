package store

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"macbatch/lease"
)

// actorRow is an actor as stored: of its secrets only the hashes. A row is never
// changed but replaced: what reads it needs no lock.
type actorRow struct {
	lease.Identity               // Invited and Former are the ends of invite and former, be they past or not
	token          lease.Digest  // zero: it has not joined yet
	former         lease.Digest  // the token before this one
	invite         lease.Digest  // secret of its newest invitation
	joined         lease.Digest  // the token that this invitation was good for; zero: it is open
	used           *atomic.Int64 // when its token was last shown, in ms; in memory only
}

func actorKey(id lease.ActorID) []byte { return append([]byte{keyActor}, id...) }

func encodeActor(a *actorRow) []byte {
	var e encoder
	e.byte(rowVersion)
	e.string(string(a.Role))
	e.b = append(e.b, a.token[:]...)
	e.uint(uint64(a.Created.UnixMilli()))
	e.bool(a.Revoked)
	e.uint(uint64(len(a.Projects)))
	for _, p := range a.Projects {
		e.string(string(p))
	}
	e.uint(uint64(a.Events))
	e.uint(a.Last)
	e.digest(a.former)
	e.digest(a.invite)
	e.digest(a.joined)
	e.uint(millis(a.Former))
	e.uint(millis(a.Invited))
	return e.b
}

// millis is an instant as rows keep it: none is 0.
func millis(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMilli())
}

func instant(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// decodeActor reads a row, or one of the first form, which was JSON and had no events.
func decodeActor(id lease.ActorID, b []byte) (*actorRow, error) {
	a := &actorRow{used: new(atomic.Int64)}
	a.ID = id
	if len(b) > 0 && b[0] == '{' {
		var old struct {
			lease.Actor
			Token lease.Digest `json:"token"`
		}
		if err := json.Unmarshal(b, &old); err != nil || old.ID != id {
			return nil, fmt.Errorf("actor %q: row damaged: %w", id, errors.Join(err, errShort))
		}
		a.Actor, a.token, a.Created = old.Actor, old.Token, time.UnixMilli(0).UTC()
		return a, nil
	}
	d := decoder{b: b}
	version := d.version()
	a.Role = lease.Role(d.string())
	copy(a.token[:], d.take(32))
	a.Created, a.Revoked = time.UnixMilli(int64(d.uint())).UTC(), d.bool()
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		a.Projects = append(a.Projects, lease.Project(d.string()))
	}
	a.Events, a.Last = d.uint32(), d.uint()
	if version >= 3 {
		a.former, a.invite, a.joined = d.digest(), d.digest(), d.digest()
		a.Former, a.Invited = instant(d.uint()), instant(d.uint())
	}
	a.Absent = a.token.IsZero()
	if err := d.done(); err != nil {
		return nil, fmt.Errorf("actor %q: row damaged: %w", id, err)
	}
	return a, nil
}

// tellActor adds an event of an actor and saves the row it leaves.
func (t *tx) tellActor(a actorRow, ev lease.Event) *actorRow {
	t.carryActor(&a)
	ev.Subject, ev.N, ev.Prev = a.ID, a.Events+1, a.Last
	i := t.append(ev)
	a.Events, a.Last = ev.N, t.events[i].Seq
	key, row := actorKey(a.ID), encodeActor(&a)
	t.events[i].Sum = sum(key, row)
	t.put(key, row)
	t.s.scope.Store(t.s.scope.Load().with(&a, nil))
	return &a
}

// assign makes an actor's projects those named, an event for each that changes.
func (t *tx) assign(a *actorRow, by lease.ActorID, projects []lease.Project) *actorRow {
	for _, p := range a.Projects {
		if slices.Contains(projects, p) {
			continue
		}
		row := *a
		row.Projects = slices.DeleteFunc(slices.Clone(a.Projects), func(q lease.Project) bool { return q == p })
		a = t.tellActor(row, lease.Event{Kind: lease.EventUnassigned, Actor: by, Project: p})
	}
	for _, p := range projects {
		if slices.Contains(a.Projects, p) {
			continue
		}
		row := *a
		row.Projects = append(slices.Clip(a.Projects), p)
		a = t.tellActor(row, lease.Event{Kind: lease.EventAssigned, Actor: by, Project: p})
	}
	return a
}

// What every token begins with, and every secret of an invitation, so that one is
// known when it is seen.
const (
	tokenPrefix  = "mb_"
	invitePrefix = "mbj_"
)

// NewToken makes a token for an actor: 256 random bits behind the actor's id.
func NewToken(id lease.ActorID) (token string, hash lease.Digest) { return newSecret(tokenPrefix, id) }

// NewInvite makes the secret of an invitation to be an actor.
func NewInvite(id lease.ActorID) (secret string, hash lease.Digest) {
	return newSecret(invitePrefix, id)
}

func newSecret(prefix string, id lease.ActorID) (secret string, hash lease.Digest) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	secret = prefix + string(id) + "_" + base64.RawURLEncoding.EncodeToString(b[:])
	return secret, lease.Digest(sha256.Sum256([]byte(secret)))
}

// Authenticate returns the actor a token belongs to, or ErrUnauthorized. The
// secret of an invitation belongs to a guest of the actor's name, as long as it is
// good.
func (s *Store) Authenticate(token string) (lease.Actor, error) {
	hash, now := sha256.Sum256([]byte(token)), s.now()
	is := func(d lease.Digest) bool { return !d.IsZero() && subtle.ConstantTimeCompare(hash[:], d[:]) == 1 }
	if a := s.named(token, invitePrefix); a != nil && is(a.invite) && now.Before(a.Invited) {
		return lease.Actor{ID: a.ID, Role: lease.Guest}, nil
	}
	a := s.named(token, tokenPrefix)
	if a == nil || !is(a.token) && !(is(a.former) && now.Before(a.Former)) {
		return lease.Actor{}, lease.ErrUnauthorized
	}
	a.used.Store(now.UnixMilli())
	return a.Actor, nil
}

// named is the actor that a secret names, unless there is none or it was revoked.
func (s *Store) named(secret, prefix string) *actorRow {
	rest, ok := strings.CutPrefix(secret, prefix)
	id, _, ok2 := strings.Cut(rest, "_")
	if a := s.scope.Load().actors[lease.ActorID(id)]; ok && ok2 && a != nil && !a.Revoked {
		return a
	}
	return nil
}

// SetActor adds an actor, or replaces its role, projects and token. It is for
// whoever starts the control plane: it must not be called once Run was.
func (s *Store) SetActor(a lease.Actor, token lease.Digest) error {
	if a.ID == "" || len(a.ID) > lease.MaxScopeName || strings.ContainsAny(string(a.ID), "_ \t\r\n") {
		return fmt.Errorf("actor id %q: %w", a.ID, lease.ErrInvalid)
	}
	before := s.scope.Load()
	c := &command{done: make(chan error, 1), run: func(t *tx) error {
		row, kind := actorRow{Identity: lease.Identity{Created: t.stamp()}, used: new(atomic.Int64)}, lease.EventActorAdded
		if old := before.actors[a.ID]; old != nil {
			row, kind = *old, lease.EventActorRotated
		}
		row.ID, row.Role, row.Revoked, row.token, row.Absent = a.ID, a.Role, false, token, false
		row.former, row.invite, row.joined = lease.Digest{}, lease.Digest{}, lease.Digest{}
		t.assign(t.tellActor(row, lease.Event{Kind: kind, Reason: string(a.Role)}), "", a.Projects)
		return nil
	}}
	err := s.commit(c)
	if err = cmp.Or(err, <-c.done); err != nil {
		s.scope.Store(before)
		return fmt.Errorf("actor %q: %w", a.ID, err)
	}
	return nil
}

// Actor returns a stored actor that was not revoked.
func (s *Store) Actor(id lease.ActorID) (lease.Actor, bool) {
	if a := s.scope.Load().actors[id]; a != nil && !a.Revoked {
		return a.Actor, true
	}
	return lease.Actor{}, false
}
