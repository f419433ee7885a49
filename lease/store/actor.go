package store

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// actorRow is an actor as stored: of its token only the hash.
type actorRow struct {
	lease.Actor
	Token lease.Digest `json:"token"`
}

// tokenPrefix begins every token, so that one is known when it is seen.
const tokenPrefix = "mb_"

func (s *Store) loadActors(r kv.Reader) (err error) {
	scan(r, []byte{keyActor}, func(k, v []byte) bool {
		a := &actorRow{}
		if err = json.Unmarshal(v, a); err != nil {
			err = fmt.Errorf("actor %q: row damaged: %w", k[1:], err)
			return false
		}
		s.actors[a.ID] = a
		return true
	})
	return err
}

// NewToken makes a token for an actor: 256 random bits behind the actor's id.
func NewToken(id lease.ActorID) (token string, hash lease.Digest) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token = tokenPrefix + string(id) + "_" + base64.RawURLEncoding.EncodeToString(b[:])
	return token, lease.Digest(sha256.Sum256([]byte(token)))
}

// Authenticate returns the actor a token belongs to, or ErrUnauthorized.
func (s *Store) Authenticate(token string) (lease.Actor, error) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	id, _, ok2 := strings.Cut(rest, "_")
	hash := sha256.Sum256([]byte(token))
	s.mu.Lock()
	a := s.actors[lease.ActorID(id)]
	s.mu.Unlock()
	if !ok || !ok2 || a == nil || subtle.ConstantTimeCompare(hash[:], a.Token[:]) != 1 {
		return lease.Actor{}, lease.ErrUnauthorized
	}
	return a.Actor, nil
}

// SetActor adds an actor, or replaces its role, projects and token.
func (s *Store) SetActor(a lease.Actor, token lease.Digest) error {
	if a.ID == "" || len(a.ID) > maxName || strings.ContainsAny(string(a.ID), "_ \t\r\n") {
		return fmt.Errorf("actor id %q: %w", a.ID, lease.ErrInvalid)
	}
	row := &actorRow{a, token}
	b, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("actor %q: %w", a.ID, err)
	}
	err = s.engine.Update(func(w kv.Writer) error { return w.Put(append([]byte{keyActor}, a.ID...), b) })
	if err != nil {
		return fmt.Errorf("actor %q: %w", a.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors[a.ID] = row
	return nil
}

// Actor returns a stored actor.
func (s *Store) Actor(id lease.ActorID) (lease.Actor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.actors[id]; a != nil {
		return a.Actor, true
	}
	return lease.Actor{}, false
}
