package store

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"macbatch/lease"
)

// withToken is the row with another token. The one it replaces stays good for
// overlap, but no longer than it would have been without.
func (a *actorRow) withToken(token lease.Digest, now time.Time, overlap time.Duration) actorRow {
	row := *a
	row.token, row.Absent = token, false
	row.former, row.Former = lease.Digest{}, time.Time{}
	if overlap > 0 && !a.token.IsZero() {
		row.former, row.Former = a.token, now.Add(overlap)
	}
	return row
}

// Invite implements lease.Registry. How the control plane is reached is for who
// serves it to say.
func (c *control) Invite(ctx context.Context, i lease.Invitation) (lease.Reach, error) {
	return lease.Reach{}, c.change(ctx, fmt.Sprintf("invite actor %q", i.ID), func(t *tx) error {
		if i.Secret.IsZero() || i.For <= 0 || i.For > lease.MaxInvited {
			return fmt.Errorf("no secret, or for %v, which is not up to %v: %w", i.For, lease.MaxInvited, lease.ErrInvalid)
		}
		old := t.s.scope.Load().actors[i.ID]
		known := old != nil && old.Events > 0
		switch {
		case known && !old.Revoked && old.invite == i.Secret:
			return nil // asked for again
		case i.Again && (!known || old.Revoked):
			return lease.ErrNotFound
		case known && !i.Again:
			return fmt.Errorf("the name was given before: %w", lease.ErrNotAllowed)
		}
		ev := lease.Event{Kind: lease.EventActorInvited, Actor: c.actor.ID}
		row := actorRow{Identity: lease.Identity{Actor: lease.Actor{ID: i.ID, Role: i.Role}, Created: t.stamp(), Absent: true}, used: new(atomic.Int64)}
		if known {
			row, i.Projects = *old, old.Projects
			if row.token == i.Secret || row.former == i.Secret {
				return fmt.Errorf("the secret is a token: %w", lease.ErrInvalid)
			}
		} else if err := t.newcomer(i.Actor); err != nil {
			return err
		} else {
			ev.Kind = lease.EventActorAdded
		}
		ev.Reason = string(row.Role)
		row.invite, row.joined, row.Invited = i.Secret, lease.Digest{}, t.stamp().Add(i.For)
		t.assign(t.tellActor(row, ev), c.actor.ID, i.Projects)
		return nil
	})
}

// newcomer tells what keeps an actor from being added, or nil.
func (t *tx) newcomer(a lease.Actor) error {
	if err := a.ID.Check(); err != nil {
		return err
	}
	if !slices.Contains(lease.Roles, a.Role) {
		return fmt.Errorf("role %q: %w", a.Role, lease.ErrInvalid)
	}
	for _, p := range a.Projects {
		if _, err := t.project(p); err != nil {
			return fmt.Errorf("project %q: %w", p, err)
		}
	}
	return nil
}

// Join implements lease.Registry. The caller is who showed the invitation's secret.
func (c *control) Join(ctx context.Context, token lease.Digest) (out lease.Actor, err error) {
	if a, err := c.actor.now(); err != nil {
		return out, err
	} else if a.Role != lease.Guest {
		return out, fmt.Errorf("join: only by an invitation: %w", lease.ErrForbidden)
	}
	err = c.s.do(ctx, func(t *tx) error {
		a, err := t.actor(c.actor.ID)
		switch {
		case err != nil, a.Events == 0, a.invite.IsZero(), !t.now.Before(a.Invited):
			return lease.ErrUnauthorized
		case token.IsZero(), token == a.invite:
			return fmt.Errorf("no token: %w", lease.ErrInvalid)
		case a.joined.IsZero():
			row := a.withToken(token, t.stamp(), lease.JoinAgain)
			row.joined = token
			a = t.tellActor(row, lease.Event{Kind: lease.EventActorJoined, Actor: a.ID})
		case a.joined != token, a.token != token:
			return lease.ErrUnauthorized
		}
		out = a.Actor
		out.Projects = slices.Sorted(slices.Values(a.Projects))
		return nil
	})
	if err != nil {
		return lease.Actor{}, fmt.Errorf("join: %w", err)
	}
	return out, nil
}
