package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"macbatch/lease"
)

// Projects implements lease.Registry.
func (c *control) Projects(context.Context) (out []lease.Scope, err error) {
	actor, err := c.actor.now()
	if err == nil && actor.Role == lease.Guest {
		err = fmt.Errorf("list projects: %w", lease.ErrForbidden)
	}
	if err != nil {
		return nil, err
	}
	for p, row := range c.s.scope.Load().projects {
		if actor.Sees(p) {
			out = append(out, *row)
		}
	}
	slices.SortFunc(out, func(a, b lease.Scope) int { return cmp.Compare(a.Project, b.Project) })
	return out, nil
}

// change runs a command of an admin on projects and actors. Whoever waits for
// work is woken: there may be more of it, or none any longer.
func (c *control) change(ctx context.Context, what string, run func(*tx) error) error {
	if err := c.admin(what); err != nil {
		return err
	}
	err := c.s.do(ctx, func(t *tx) error {
		if err := c.admin(what); err != nil {
			return err
		}
		t.s.index.offered = true
		return run(t)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// project is a project's row.
func (t *tx) project(p lease.Project) (lease.Scope, error) {
	if row := t.s.scope.Load().projects[p]; row != nil {
		return *row, nil
	}
	return lease.Scope{}, lease.ErrNotFound
}

// actor is the row of an actor that was not revoked.
func (t *tx) actor(id lease.ActorID) (*actorRow, error) {
	if a := t.s.scope.Load().actors[id]; a != nil && !a.Revoked {
		return a, nil
	}
	return nil, lease.ErrNotFound
}

// CreateProject implements lease.Registry.
func (c *control) CreateProject(ctx context.Context, p lease.Project) error {
	return c.change(ctx, fmt.Sprintf("create project %q", p), func(t *tx) error {
		if _, err := t.project(p); err == nil {
			return nil
		}
		if err := p.Check(); err != nil {
			return err
		}
		t.tellProject(lease.Scope{Project: p, Created: t.stamp()}, lease.Event{Kind: lease.EventProjectCreated, Actor: c.actor.ID})
		return nil
	})
}

// CloseProject implements lease.Registry.
func (c *control) CloseProject(ctx context.Context, p lease.Project) error {
	return c.close(ctx, "close", p, true, lease.EventProjectClosed)
}

// OpenProject implements lease.Registry.
func (c *control) OpenProject(ctx context.Context, p lease.Project) error {
	return c.close(ctx, "open", p, false, lease.EventProjectOpened)
}

func (c *control) close(ctx context.Context, verb string, p lease.Project, closed bool, kind lease.EventKind) error {
	return c.change(ctx, fmt.Sprintf("%s project %q", verb, p), func(t *tx) error {
		row, err := t.project(p)
		if err != nil || row.Closed == closed {
			return err
		}
		row.Closed = closed
		t.tellProject(row, lease.Event{Kind: kind, Actor: c.actor.ID})
		return nil
	})
}

// Actors implements lease.Registry.
func (c *control) Actors(context.Context) (out []lease.Identity, err error) {
	if err := c.admin("list actors"); err != nil {
		return nil, err
	}
	for _, a := range c.s.scope.Load().actors {
		if a.Events == 0 {
			continue // its commit failed
		}
		id := a.Identity
		id.Projects = slices.Sorted(slices.Values(a.Projects))
		id.Used = instant(uint64(a.used.Load()))
		if now := c.s.now(); a.Revoked || !a.joined.IsZero() || !now.Before(id.Invited) {
			id.Invited = time.Time{}
		}
		if now := c.s.now(); a.Revoked || !now.Before(id.Former) {
			id.Former = time.Time{}
		}
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b lease.Identity) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// AddActor implements lease.Registry.
func (c *control) AddActor(ctx context.Context, a lease.Actor, token lease.Digest) error {
	return c.change(ctx, fmt.Sprintf("add actor %q", a.ID), func(t *tx) error {
		if old := t.s.scope.Load().actors[a.ID]; old != nil && old.Events > 0 {
			if !old.Revoked && !token.IsZero() && old.token == token && old.Role == a.Role {
				return nil // asked for again
			}
			return fmt.Errorf("the name was given before: %w", lease.ErrNotAllowed)
		}
		if err := t.newcomer(a); err != nil {
			return err
		}
		if token.IsZero() {
			return fmt.Errorf("no token: %w", lease.ErrInvalid)
		}
		row := actorRow{Identity: lease.Identity{Actor: lease.Actor{ID: a.ID, Role: a.Role}, Created: t.stamp()}, token: token, used: new(atomic.Int64)}
		added := t.tellActor(row, lease.Event{Kind: lease.EventActorAdded, Actor: c.actor.ID, Reason: string(a.Role)})
		t.assign(added, c.actor.ID, a.Projects)
		return nil
	})
}

// RotateActor implements lease.Registry.
func (c *control) RotateActor(ctx context.Context, id lease.ActorID, token lease.Digest, overlap time.Duration) error {
	return c.change(ctx, fmt.Sprintf("rotate actor %q", id), func(t *tx) error {
		a, err := t.actor(id)
		if err != nil || a.token == token {
			return err
		}
		if token.IsZero() || token == a.invite || overlap < 0 || overlap > lease.MaxOverlap {
			return fmt.Errorf("no token, or an overlap of %v, over %v: %w", overlap, lease.MaxOverlap, lease.ErrInvalid)
		}
		t.tellActor(a.withToken(token, t.stamp(), overlap), lease.Event{Kind: lease.EventActorRotated, Actor: c.actor.ID, Reason: string(a.Role)})
		return nil
	})
}

// RevokeActor implements lease.Registry.
func (c *control) RevokeActor(ctx context.Context, id lease.ActorID) error {
	return c.change(ctx, fmt.Sprintf("revoke actor %q", id), func(t *tx) error {
		old := t.s.scope.Load().actors[id]
		switch {
		case old == nil || old.Events == 0:
			return lease.ErrNotFound
		case old.Revoked:
			return nil
		case id == c.actor.ID:
			return fmt.Errorf("an admin cannot revoke itself: %w", lease.ErrNotAllowed)
		}
		row := *old
		row.Revoked = true
		t.tellActor(row, lease.Event{Kind: lease.EventActorRevoked, Actor: c.actor.ID})
		t.s.index.abandon(id, "", t.now)
		return nil
	})
}

// Assign implements lease.Registry.
func (c *control) Assign(ctx context.Context, id lease.ActorID, p lease.Project) error {
	return c.change(ctx, fmt.Sprintf("assign actor %q to project %q", id, p), func(t *tx) error {
		a, err := t.actor(id)
		if err != nil {
			return err
		}
		if _, err := t.project(p); err != nil {
			return err
		}
		if !slices.Contains(a.Projects, p) {
			t.assign(a, c.actor.ID, append(slices.Clip(a.Projects), p))
		}
		return nil
	})
}

// Unassign implements lease.Registry.
func (c *control) Unassign(ctx context.Context, id lease.ActorID, p lease.Project) error {
	return c.change(ctx, fmt.Sprintf("unassign actor %q from project %q", id, p), func(t *tx) error {
		a, err := t.actor(id)
		if err != nil {
			return err
		}
		if _, err := t.project(p); err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(a.Projects), func(q lease.Project) bool { return q == p })
		t.assign(a, c.actor.ID, left)
		if a.Role != lease.Admin {
			t.s.index.abandon(id, p, t.now)
		}
		return nil
	})
}

// abandon lets the leases of an actor lapse now: all, or those in one project.
// They were not lost by silence, so that does not count.
func (x *index) abandon(id lease.ActorID, in lease.Project, now time.Time) {
	for _, l := range x.leases {
		if l.holder.Actor != id || in != "" && x.project(l.id.Job) != in || l.lapsed {
			continue
		}
		l.deadline, l.ran = now, false
		x.watch(l)
	}
}
