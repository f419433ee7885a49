package store

import (
	"macbatch/lease"
)

// front is what one claim chooses from: of each class that the worker can serve,
// the oldest shard, in a heap. It costs a look at each class, and from then on
// the logarithm of their number for each grant.
type front struct {
	x      *index
	claim  *lease.Exchange
	actor  *lease.Actor
	full   bool // too many bytes of blobs wait: bulky work rests
	heads  []ticket
	offers uint64 // of the index, when the heads were looked up
	begun  bool
}

// first is the oldest shard that the worker may be granted, among kinds that still
// have room. It must be gone from the index, or be the one granted next, when
// first is called again.
func (f *front) first(left map[lease.Kind]int) (t ticket, ok bool) {
	if !f.begun || f.offers != f.x.offers {
		f.look()
	}
	for len(f.heads) > 0 {
		t = f.heads[0]
		if left[t.line.need.Kind] > 0 {
			if has, there := t.line.slots.Min(); there && has == t.slot && !t.line.hidden {
				return t, true
			}
			if next, more := f.head(t.line); more {
				f.heads[0] = next
				f.down(0)
				continue
			}
		}
		last := len(f.heads) - 1
		f.heads[0] = f.heads[last]
		f.heads = f.heads[:last]
		f.down(0)
	}
	return t, false
}

// look finds the heads of all classes.
func (f *front) look() {
	f.begun, f.offers, f.heads = true, f.x.offers, f.heads[:0]
	if f.claim.Job != 0 {
		if j := f.x.jobs[f.claim.Job]; j != nil && f.actor.Sees(j.project) {
			for _, l := range j.lines {
				if t, ok := f.ofLine(l); ok && f.claim.Offer.Able(l.need) && !f.x.stops.paused(l.need.Kind) {
					f.heads = append(f.heads, t)
				}
			}
		}
	} else {
		for key, c := range f.x.classes {
			if !f.actor.Sees(key.project) || !f.claim.Offer.Able(key.need) || f.x.stops.paused(key.need.Kind) {
				continue
			}
			if t, ok := f.ofClass(c); ok {
				f.heads = append(f.heads, t)
			}
		}
	}
	for i := len(f.heads)/2 - 1; i >= 0; i-- {
		f.down(i)
	}
}

// head is the next shard where one of line l was taken.
func (f *front) head(l *line) (ticket, bool) {
	if f.claim.Job != 0 {
		return f.ofLine(l)
	}
	if c := f.x.classes[l.classKey]; c != nil {
		return f.ofClass(c)
	}
	return ticket{}, false
}

func (f *front) ofClass(c *class) (t ticket, ok bool) {
	c.lines.Ascend(func(l *line) bool {
		t, ok = f.ofLine(l)
		return !ok
	})
	return t, ok
}

// ofLine is the oldest shard of a line. When it is full, too many bytes of blobs
// wait, bulky work rests; but that of a job of which none wait goes on, or what
// nobody consumes of one job would stop all others.
func (f *front) ofLine(l *line) (ticket, bool) {
	if l.hidden || f.full && l.need.Bulky && f.x.needing[l.job] > 0 {
		return ticket{}, false
	}
	s, ok := l.slots.Min()
	return ticket{line: l, slot: s}, ok
}

// down restores the heap below i.
func (f *front) down(i int) {
	for {
		least := i
		for _, k := range []int{2*i + 1, 2*i + 2} {
			if k < len(f.heads) && f.heads[k].before(f.heads[least]) {
				least = k
			}
		}
		if least == i {
			return
		}
		f.heads[i], f.heads[least] = f.heads[least], f.heads[i]
		i = least
	}
}
