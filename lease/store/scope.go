package store

import (
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// scope is who may do what where: all actors and projects, derived from their
// rows and replaced as a whole with each change, so that reading it needs no lock.
type scope struct {
	actors   map[lease.ActorID]*actorRow
	projects map[lease.Project]*lease.Scope
	closed   int // how many projects are
}

func newScope() *scope {
	return &scope{actors: map[lease.ActorID]*actorRow{}, projects: map[lease.Project]*lease.Scope{}}
}

// with is the scope with another row of an actor, or of a project.
func (c *scope) with(a *actorRow, p *lease.Scope) *scope {
	next := &scope{actors: c.actors, projects: c.projects}
	if a != nil {
		next.actors = maps.Clone(c.actors)
		next.actors[a.ID] = a
	}
	if p != nil {
		next.projects = maps.Clone(c.projects)
		next.projects[p.Project] = p
	}
	for _, p := range next.projects {
		if p.Closed {
			next.closed++
		}
	}
	return next
}

// open reports whether a project takes new jobs and grants.
func (c *scope) open(p lease.Project) bool {
	row := c.projects[p]
	return row != nil && !row.Closed
}

// claimant is an actor as far as open projects go.
func (c *scope) claimant(a lease.Actor) lease.Actor {
	if c.closed == 0 {
		return a
	}
	open := lease.Actor{ID: a.ID, Role: lease.WorkerRole}
	for p, row := range c.projects {
		if !row.Closed && a.Sees(p) {
			open.Projects = append(open.Projects, p)
		}
	}
	return open
}

// loadScope reads the rows of actors and projects.
func (s *Store) loadScope(r kv.Reader) (err error) {
	next, before := newScope(), s.scope.Load()
	scan(r, []byte{keyProject}, func(k, v []byte) bool {
		var p *lease.Scope
		if p, err = decodeProject(lease.Project(k[1:]), v); err != nil {
			return false
		}
		next = next.with(nil, p)
		return true
	})
	if err != nil {
		return err
	}
	scan(r, []byte{keyActor}, func(k, v []byte) bool {
		var a *actorRow
		if a, err = decodeActor(lease.ActorID(k[1:]), v); err == nil {
			next.actors[a.ID] = a
		}
		return err == nil
	})
	for id, old := range before.actors {
		a := next.actors[id]
		if a == nil { // its commit failed: nobody must be taken for it
			a = &actorRow{Identity: lease.Identity{Actor: lease.Actor{ID: id}, Revoked: true}}
			next.actors[id] = a
		}
		a.used = old.used
	}
	s.scope.Store(next)
	return err
}

// asker is the actor of a control. What it may do is looked up whenever it is
// asked for, so that a change of it holds at once, for requests under way too.
type asker struct {
	lease.Actor // as given
	s           *Store
}

// now is the actor as it stands: ErrUnauthorized when it was revoked. One that
// has no row is taken at its word: whoever made it up runs in this process.
func (a asker) now() (lease.Actor, error) {
	row := a.s.scope.Load().actors[a.ID]
	switch {
	case row == nil:
		return a.Actor, nil
	case row.Revoked:
		return lease.Actor{}, fmt.Errorf("actor %q: %w", a.ID, lease.ErrUnauthorized)
	case a.Role == lease.Guest: // not yet the actor it may become
		return lease.Actor{ID: a.ID, Role: lease.Guest}, nil
	}
	return row.Actor, nil
}

// Sees reports whether the actor may know of a project now.
func (a asker) Sees(p lease.Project) bool {
	now, err := a.now()
	return err == nil && now.Sees(p)
}

// may tells why the actor must not ask for what a role may, or nil.
func (c *control) may(r lease.Role) error {
	a, err := c.actor.now()
	if err == nil && !a.May(r) {
		err = fmt.Errorf("actor %q as %s: %w", a.ID, a.Role, lease.ErrForbidden)
	}
	return err
}

// admin tells why the actor must not ask for what only an admin may, or nil.
func (c *control) admin(what string) error {
	a, err := c.actor.now()
	if err == nil && a.Role != lease.Admin {
		err = fmt.Errorf("%s: %w", what, lease.ErrForbidden)
	}
	return err
}

func projectKey(p lease.Project) []byte { return append([]byte{keyProject}, p...) }

func encodeProject(p *lease.Scope) []byte {
	var e encoder
	e.byte(rowVersion)
	e.uint(uint64(p.Created.UnixMilli()))
	e.bool(p.Closed)
	e.uint(uint64(p.Events))
	e.uint(p.Last)
	return e.b
}

func decodeProject(name lease.Project, b []byte) (*lease.Scope, error) {
	d := decoder{b: b}
	d.version()
	p := &lease.Scope{Project: name, Created: time.UnixMilli(int64(d.uint())).UTC(), Closed: d.bool(), Events: d.uint32(), Last: d.uint()}
	if err := d.done(); err != nil {
		return nil, fmt.Errorf("project %q: row damaged: %w", name, err)
	}
	return p, nil
}

// tellProject adds an event of a project and saves the row it leaves.
func (t *tx) tellProject(p lease.Scope, ev lease.Event) {
	t.carryProject(&p)
	ev.Project, ev.N, ev.Prev = p.Project, p.Events+1, p.Last
	i := t.append(ev)
	p.Events, p.Last = ev.N, t.events[i].Seq
	key, row := projectKey(p.Project), encodeProject(&p)
	t.events[i].Sum = sum(key, row)
	t.put(key, row)
	t.s.scope.Store(t.s.scope.Load().with(nil, &p))
}

// stamp is the moment of a command as rows keep it.
func (t *tx) stamp() time.Time { return t.now.Round(0).Truncate(time.Millisecond).UTC() }

// adopt gives projects and actors of a store that had no rows or events of them
// what every store has now.
func (t *tx) adopt() (err error) {
	projects := []lease.Project{lease.DefaultProject}
	scan(t.g.w, []byte{keyJob}, func(k, v []byte) bool {
		var j *jobRow
		if j, _, err = decodeJob(lease.JobID(decodeKey(k)), v); err == nil {
			projects = append(projects, j.Project)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	for _, p := range projects {
		if t.s.scope.Load().projects[p] == nil {
			t.tellProject(lease.Scope{Project: p, Created: t.stamp()}, lease.Event{Kind: lease.EventProjectCreated})
		}
	}
	for _, a := range t.s.scope.Load().actors {
		if a.Events > 0 {
			continue
		}
		row := *a
		row.Projects, row.used = nil, new(atomic.Int64)
		t.assign(t.tellActor(row, lease.Event{Kind: lease.EventActorAdded, Reason: string(a.Role)}), "", a.Projects)
	}
	return nil
}

// enter tells why the actor must not bring new work into a project, or nil.
func (c *control) enter(p lease.Project) error {
	if !c.actor.Sees(p) || c.s.scope.Load().projects[p] == nil {
		return fmt.Errorf("project %q: %w", p, lease.ErrNotFound)
	}
	return c.s.open(p)
}

// open tells that a project takes no new work, or nil.
func (s *Store) open(p lease.Project) error {
	if !s.scope.Load().open(p) {
		return fmt.Errorf("project %q is closed: %w", p, lease.ErrNotAllowed)
	}
	return nil
}
