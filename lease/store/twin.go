package store

import (
	"macbatch/lease"
)

// Two shards of one project whose work has the same identity are twins: the chunks of
// a film and of its copy. While one is being worked on the other is set aside, or two
// workers would do what one result serves. It is offered again when the lease of the
// first ends, in whatever way, or lapses. All of this is memory: after a restart work
// that was under way may be done twice, and no more.

// make notes what an open lease is working on.
func (x *index) make(l *openLease, key lease.Digest) {
	if !key.IsZero() {
		l.key, x.making[key] = key, l
	}
}

// maker is the lease under which the work of a claimable shard is being done; nil:
// there is none.
func (x *index) maker(s *lease.Shard, key lease.Digest) *openLease {
	if key.IsZero() || s.State != lease.Ready || s.Fresh {
		return nil
	}
	if l := x.making[key]; l != nil && !l.lapsed {
		return l
	}
	return nil
}

// setAside takes a claimable shard out of its queue until l ends.
func (x *index) setAside(t ticket, l *openLease) {
	x.withdraw(t)
	x.aside[t.id()] = t
	l.twins = append(l.twins, t.id())
}

// unmake offers again what waited for a lease.
func (x *index) unmake(l *openLease) {
	if x.making[l.key] == l {
		delete(x.making, l.key)
	}
	for _, id := range l.twins {
		if t, ok := x.aside[id]; ok {
			delete(x.aside, id)
			x.offer(t)
		}
	}
	l.twins = nil
}
