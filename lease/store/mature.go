package store

import (
	"container/heap"
	"time"

	"macbatch/lease"
)

// Hurry makes claimable what rests of a job, such as the next scan of a folder that
// is watched. It is for whoever runs the store and saw that there is something to do.
func (s *Store) Hurry(id lease.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard, t := range s.index.resting {
		if shard.Job == id {
			delete(s.index.resting, shard)
			s.index.offer(t)
		}
	}
	s.ring()
}

// mature makes claimable what rested long enough, and what lapsed.
func (x *index) mature(now time.Time) {
	for len(x.rests) > 0 && !now.Before(x.rests[0].at) {
		d := heap.Pop(&x.rests).(due)
		t, ok := x.resting[d.id]
		if !ok {
			continue
		}
		delete(x.resting, d.id)
		x.offer(t)
	}
	for len(x.lapses) > 0 && !now.Before(x.lapses[0].at) {
		d := heap.Pop(&x.lapses).(due)
		l := x.leases[d.id]
		if l == nil || l.fence != d.fence || l.lapsed {
			continue
		}
		if now.Before(l.deadline) { // it was renewed
			x.watch(l)
			continue
		}
		l.lapsed = true
		x.unmake(l)
		if l.spends {
			continue // parked: nobody may be granted it
		}
		l.ticket.suspect = x.counts(l) && l.lapses+1 >= lease.SuspectLapses || l.lapses >= lease.SuspectLapses
		x.offer(l.ticket)
	}
}
