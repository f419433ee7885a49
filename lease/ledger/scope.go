package ledger

import (
	"macbatch/lease"
)

// scopeFold is what the events say of a project or an actor.
type scopeFold struct {
	last     lease.Event
	n        uint32
	off      bool // closed, or revoked
	projects map[lease.Project]bool
	seen     bool // its row was met
}

// scopeSubject names a project or an actor in a problem.
func scopeSubject(p lease.Project, a lease.ActorID) string {
	if a != "" {
		return "actor " + string(a)
	}
	return "project " + string(p)
}

// scopeEvent folds an event of a project or an actor.
func (v *verifier) scopeEvent(ev *lease.Event) {
	name := scopeSubject(ev.Project, ev.Subject)
	f := v.scopes[name]
	if f == nil {
		f = &scopeFold{projects: map[lease.Project]bool{}}
		v.scopes[name] = f
		if v.head.Base > 0 && ev.Kind == lease.EventCarried && ev.Prev <= v.head.Base {
			f.n, f.last.Seq = ev.N-1, ev.Prev
		} else if ev.Kind != lease.EventProjectCreated && ev.Kind != lease.EventActorAdded {
			v.add("no_creation_event", name, "the first event is %q", ev.Kind)
		}
	}
	f.n++
	if ev.N != f.n || ev.Prev != f.last.Seq {
		v.add("history_gap", name, "event %d calls itself number %d after event %d, not %d after %d", ev.Seq, ev.N, ev.Prev, f.n, f.last.Seq)
	}
	before := f.last.Kind
	f.last = *ev
	if ev.Kind == lease.EventCarried {
		v.carriedScope(name, f, ev, before == "")
		return
	}
	switch off, turns := turns[ev.Kind]; {
	case turns:
		f.off = off
	case ev.Kind == lease.EventAssigned:
		f.projects[ev.Project] = true
	case ev.Kind == lease.EventUnassigned:
		delete(f.projects, ev.Project)
	default:
		v.add("event_unreadable", name, "event %d (%s) is not one of a project or an actor", ev.Seq, ev.Kind)
	}
}

// carriedScope compares a carried row with the history before it, or takes it as
// the base.
func (v *verifier) carriedScope(name string, f *scopeFold, ev *lease.Event, base bool) {
	c, err := v.snap.Carried(ev)
	if err != nil {
		v.add("event_unreadable", name, "event %d carries a row that cannot be read: %v", ev.Seq, err)
		return
	}
	n, last, off := c.Project.Events, c.Project.Last, c.Project.Closed
	if ev.Subject != "" {
		n, last, off = c.Actor.Events, c.Actor.Last, c.Actor.Revoked
	}
	if base {
		f.off = off
		for _, p := range c.Actor.Projects {
			f.projects[p] = true
		}
	}
	same := f.off == off && len(c.Actor.Projects) == len(f.projects)
	for _, p := range c.Actor.Projects {
		same = same && f.projects[p]
	}
	if !same || c.Sum != ev.Sum || n != ev.N || last != ev.Seq {
		v.add("carried_disagrees", name, "event %d carries a row that is not its own, or not what the history before it says", ev.Seq)
	}
}

// turns are the events after which a project is closed or an actor revoked, or not.
var turns = map[lease.EventKind]bool{
	lease.EventProjectCreated: false, lease.EventProjectOpened: false, lease.EventProjectClosed: true,
	lease.EventActorAdded: false, lease.EventActorRotated: false, lease.EventActorRevoked: true,
	lease.EventActorInvited: false, lease.EventActorJoined: false,
}

// scopeRows compares the rows of projects and actors with their histories.
func (v *verifier) scopeRows() {
	v.snap.Projects(func(p lease.Scope, sum uint64, err error) bool {
		if f := v.scopeRow(scopeSubject(p.Project, ""), p.Events, p.Last, sum, err); f != nil && f.off != p.Closed {
			v.add("row_edited", scopeSubject(p.Project, ""), "closed is %v, its events say otherwise", p.Closed)
		}
		return true
	})
	v.snap.Actors(func(a lease.Identity, sum uint64, err error) bool {
		name := scopeSubject("", a.ID)
		f := v.scopeRow(name, a.Events, a.Last, sum, err)
		if f == nil {
			return true
		}
		same := len(f.projects) == len(a.Projects)
		for _, p := range a.Projects {
			same = same && f.projects[p]
		}
		if !same || f.off != a.Revoked {
			v.add("row_edited", name, "revoked is %v and projects are %q, its events say otherwise", a.Revoked, a.Projects)
		}
		return true
	})
	for name, f := range v.scopes {
		if !f.seen {
			v.add("orphan_events", name, "%d events, but no row", f.n)
		}
	}
}

// scopeRow compares what projects and actors have in common; nil when there is
// no more to compare.
func (v *verifier) scopeRow(name string, n uint32, last, sum uint64, err error) *scopeFold {
	f := v.scopes[name]
	if f != nil {
		f.seen = true
	}
	switch {
	case err != nil:
		v.add("row_unreadable", name, "%v", err)
		return nil
	case f == nil:
		v.add("no_creation_event", name, "the row has no events")
		return nil
	}
	if n != f.n || last != f.last.Seq {
		v.add("history_gap", name, "the row counts %d events up to %d, the ledger has %d up to %d", n, last, f.n, f.last.Seq)
	}
	if sum != f.last.Sum {
		v.add("row_edited", name, "its bytes are not those that event %d left", f.last.Seq)
	}
	return f
}
