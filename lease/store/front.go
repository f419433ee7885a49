package store

import (
	"slices"
	"time"

	"macbatch/lease"
)

// front is what one claim chooses from: of each class that the worker can serve,
// the oldest shard, in heaps. It costs a look at each class, and from then on the
// logarithm of their number for each grant.
//
// The order is that of tickets, but that within a priority a loaded model's shards
// pass those of other models. A class whose oldest shard was passed for
// lease.MaxPassed, and one that needs no model, is passed by nobody.
type front struct {
	x      *index
	claim  *lease.Exchange
	actor  *lease.Actor
	full   bool // too many bytes of blobs wait: bulky work rests
	now    time.Time
	term   time.Duration
	sees   func(w *workerSeen, p lease.Project) bool
	loaded []string
	fleets map[classKey]*fleet

	firm   heads // not to be passed
	cold   heads // of models that are not loaded
	warm   heads // of loaded ones
	offers uint64
	begun  bool
}

// heads is a heap of tickets.
type heads []ticket

// first is the next shard that the worker may be granted, among kinds that still
// have room. It must be gone from the index, or be the one granted next, when
// first is called again.
func (f *front) first(left map[lease.Kind]int) (t ticket, ok bool) {
	if !f.begun || f.offers != f.x.offers {
		f.look(left)
	}
	firm, cold, warm := f.top(&f.firm, left), f.top(&f.cold, left), f.top(&f.warm, left)
	oldest := firm
	if oldest == nil || cold != nil && cold.before(*oldest) {
		oldest = cold
	}
	switch {
	case warm == nil && oldest == nil:
		return t, false
	case warm == nil:
		return *oldest, true
	case oldest == nil || warm.before(*oldest):
		return *warm, true
	case firm != nil && firm.before(*warm), oldest.line.priority > warm.line.priority:
		return *oldest, true
	}
	return *warm, true
}

// granted tells that a shard of line l in class c was granted.
func (f *front) granted(c *class, l *line) {
	if c != nil {
		c.passed = time.Time{}
	}
	m := l.need.Model
	if m == "" || slices.Contains(f.loaded, m) {
		return
	}
	// The worker is going to load it: the rest of the claim had better be of it.
	f.loaded = []string{m}
	f.begun = f.begun && len(f.firm)+len(f.cold)+len(f.warm) <= 1
}

// top is the first of h that may be granted; nil when there is none.
func (f *front) top(h *heads, left map[lease.Kind]int) *ticket {
	for len(*h) > 0 {
		t := &(*h)[0]
		if left[t.line.need.Kind] > 0 {
			if t.line.slots.Len() > 0 && t.line.oldest == t.slot && !t.line.hidden {
				return t
			}
			next, more := f.head(t.line)
			if more && next == *t {
				return t
			}
			if more {
				*t = next
				h.down(0)
				continue
			}
		}
		last := len(*h) - 1
		(*h)[0] = (*h)[last]
		*h = (*h)[:last]
		h.down(0)
	}
	return nil
}

// look finds the heads of all classes, and begins the time of those that are
// passed from now on.
func (f *front) look(left map[lease.Kind]int) {
	f.begun, f.offers = true, f.x.offers
	f.firm, f.cold, f.warm = f.firm[:0], f.cold[:0], f.warm[:0]
	if f.claim.Job != 0 {
		if j := f.x.jobs[f.claim.Job]; j != nil && f.actor.Sees(j.project) {
			for _, l := range j.lines {
				if t, ok := f.ofLine(l); ok && f.claim.Offer.Able(l.need) && !f.x.stops.paused(l.need.Kind) {
					f.add(t)
				}
			}
		}
	} else {
		for key, c := range f.x.classes {
			if !f.actor.Sees(key.project) || !f.claim.Offer.Able(key.need) || f.x.stops.paused(key.need.Kind) {
				continue
			}
			if t, ok := f.ofClass(c); ok {
				f.add(t)
			}
		}
	}
	for _, h := range []heads{f.firm, f.cold, f.warm} {
		for i := len(h)/2 - 1; i >= 0; i-- {
			h.down(i)
		}
	}
	if len(f.cold) == 0 {
		return
	}
	warm := f.top(&f.warm, left)
	for _, t := range f.cold {
		if c := t.line.class; warm != nil && t.line.priority == warm.line.priority && t.before(*warm) && c.passed.IsZero() {
			c.passed = f.now
		}
	}
}

// add puts the head of a class where it belongs.
func (f *front) add(t ticket) {
	m, c := t.line.need.Model, t.line.class
	switch {
	case m == "" || len(f.loaded) == 0 || c == nil || !c.passed.IsZero() && f.now.Sub(c.passed) >= lease.MaxPassed:
		f.firm = append(f.firm, t)
	case slices.Contains(f.loaded, m):
		f.warm = append(f.warm, t)
	default:
		f.cold = append(f.cold, t)
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
	if t, ok = f.ofLine(c.first); ok || c.lines.Len() == 1 {
		return t, ok
	}
	c.lines.Ascend(func(l *line) bool {
		t, ok = f.ofLine(l)
		return !ok
	})
	return t, ok
}

// ofLine is the oldest shard of a line that is for this worker. When it is full, too
// many bytes of blobs wait, bulky work rests; but that of a job of which none wait
// goes on, or what nobody consumes of one job would stop all others.
func (f *front) ofLine(l *line) (ticket, bool) {
	if l.hidden || f.full && l.need.Bulky && f.x.needing[l.job] > 0 {
		return ticket{}, false
	}
	s, ok := l.oldest, l.slots.Len() > 0
	if ok && len(f.claim.Paces) > 0 {
		s, ok = f.fitting(l, s)
	}
	return ticket{line: l, slot: s}, ok
}

// down restores the heap below i.
func (h heads) down(i int) {
	for {
		least := i
		for _, k := range []int{2*i + 1, 2*i + 2} {
			if k < len(h) && h[k].before(h[least]) {
				least = k
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
