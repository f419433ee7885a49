package store

import (
	"math"
	"time"

	"macbatch/lease"
)

const (
	// tailPart is the part of the time that the others will still need for a job
	// which a shard may take here. Half of it leaves room for estimates that are off.
	tailPart = 0.5
	// alike is by how much the best of the others must be faster before anything is
	// left to it: paces are learned, and those of equal machines differ a little.
	alike = 1.5
	// tailLook bounds how many shards are looked at for one that fits.
	tailLook = 1000
)

// fleet is what workers together do of a need in a project.
type fleet struct {
	mine   *lease.Pace // of the worker that claims; nil: not known
	others float64     // units in a nanosecond of those that are alive and able
	best   float64     // nanoseconds for a unit, of the fastest of them
}

// fleet looks at the workers once for each class.
func (f *front) fleet(of classKey) *fleet {
	if fl := f.fleets[of]; fl != nil {
		return fl
	}
	n := of.need
	fl := &fleet{mine: lease.PaceOf(f.claim.Paces, n.Kind, n.Model), best: math.Inf(1)}
	for id, w := range f.x.workers {
		if fl.mine == nil || id == f.claim.Worker || w.seen.IsZero() || f.now.Sub(w.seen) >= f.term || w.job != 0 || f.x.stops.workers[id] {
			continue
		}
		if p := lease.PaceOf(w.paces, n.Kind, n.Model); p != nil && w.hello.Offer.Able(n) && f.sees(w, of.project) {
			fl.others += p.Speed()
			fl.best = min(fl.best, float64(p.Thousand)/1000)
		}
	}
	if f.fleets == nil {
		f.fleets = map[classKey]*fleet{}
	}
	f.fleets[of] = fl
	return fl
}

// undone is the work of a job's open shards that is still to be done.
func (x *index) undone(id lease.JobID) float64 {
	if j := x.jobs[id]; j != nil && j.left > j.running {
		return float64(j.left - j.running)
	}
	return 0
}

// most is the largest shard of a line that this worker should begin. Near the end
// of a job a slow worker would end last, with a shard that a faster one does in
// passing: what would take it longer than part of the time that the others still
// need for the job is left to them. rest is that time, in nanoseconds.
func (f *front) most(l *line) (s size, rest float64) {
	fl := f.fleet(l.classKey)
	if fl.mine == nil || fl.others == 0 {
		return math.MaxUint8, 0
	}
	mine := float64(fl.mine.Thousand) / 1000
	if mine <= alike*fl.best {
		return math.MaxUint8, 0
	}
	rest = f.x.undone(l.job) / fl.others
	most := tailPart * rest / mine
	if most >= float64(l.largest.work()) {
		return math.MaxUint8, rest
	}
	return sizeOf(uint64(most)), rest
}

// fitting is the oldest shard of a line that this worker should begin. The oldest of
// all is not left to others for longer than they were expected to need.
func (f *front) fitting(l *line, oldest slot) (found slot, ok bool) {
	if oldest.size == 0 {
		return oldest, true
	}
	most, rest := f.most(l)
	if oldest.size <= most {
		return oldest, true
	}
	if l.left != oldest {
		alone := f.fleet(l.classKey).best * float64(oldest.size.work())
		l.left = oldest
		l.until = f.now.Add(time.Duration(min(max(rest, alone), float64(lease.MaxPassed))))
	}
	if !f.now.Before(l.until) {
		return oldest, true
	}
	looked := 0
	l.slots.Ascend(func(s slot) bool {
		if looked++; s.size <= most {
			found, ok = s, true
		}
		return !ok && looked < tailLook
	})
	return found, ok
}

// share is how much of the time of one slot a worker may hold of a job: with all
// holding that much, they end together.
func (f *front) share(l *line) time.Duration {
	fl := f.fleet(l.classKey)
	if fl.mine == nil {
		return 0
	}
	all := fl.others + fl.mine.Speed()
	return time.Duration(min(f.x.undone(l.job)/all*float64(fl.mine.Slots), math.MaxInt64/2))
}

// ahead grants a worker more than it has free slots for: what it is going to begin
// soon, so that no slot waits for an answer. It is no more than its share of a job,
// and nothing that somebody waits for.
func (t *tx) ahead(f *front, actor lease.Actor, x *lease.Exchange, out *lease.Exchanged, bytes int) error {
	if x.Extra <= 0 || len(x.Paces) == 0 {
		return nil
	}
	held := max(x.Held, 0)
	left := make(map[lease.Kind]int, len(x.Paces))
	for i := range x.Paces {
		left[x.Paces[i].Kind] = x.Extra
	}
	for i := range out.Grants {
		g := &out.Grants[i]
		if p := lease.PaceOf(x.Paces, g.Kind, g.Model); p != nil {
			held += p.Takes(g.Work)
		}
	}
	f.begun = false
	for most := min(len(out.Grants)+x.Extra, lease.MaxGrants); len(out.Grants) < most && bytes <= maxPageBytes; {
		tk, ok := f.first(left)
		if !ok {
			return nil
		}
		p := lease.PaceOf(x.Paces, tk.line.need.Kind, tk.line.need.Model)
		if p == nil || tk.size == 0 || f.x.starving(f, tk) != nil {
			return nil
		}
		if held += p.Takes(tk.size.work()); held > min(x.Ahead*time.Duration(max(p.Slots, 0)), f.share(tk.line)) {
			return nil
		}
		told := len(out.Grants)
		if done, err := t.give(f, tk, actor, x, left, out); err != nil || done {
			return err
		}
		bytes += bulk(out.Grants[told:])
	}
	return nil
}

// starving is another worker whose exchange waits for such a shard.
func (x *index) starving(f *front, tk ticket) *workerSeen {
	for id, w := range x.workers {
		if e := w.waits; e != nil && id != f.claim.Worker && !x.stops.workers[id] && e.PerKind[tk.line.need.Kind] > w.promised && (e.Job == 0 || e.Job == tk.line.job) &&
			e.Offer.Able(tk.line.need) && f.sees(w, tk.line.project) {
			return w
		}
	}
	return nil
}

// unbegun lists those of a worker's waiting leases that others could begin now:
// the newest first, as it would begin them last. A drained worker begins none.
func (s *Store) unbegun(by lease.ActorID, b *lease.Beat, now time.Time) (back []lease.ShardID) {
	x := s.index
	var f *front
	for i := len(b.Leases) - 1; i >= 0; i-- {
		l := x.leases[b.Leases[i].Shard]
		if b.Leases[i].Phase != lease.Waiting || l == nil || l.fence != b.Leases[i].Fence || l.holder.Worker != b.Worker || l.holder.Actor != by || l.lapsed {
			continue
		}
		if x.stops.workers[b.Worker] {
			back = append(back, l.id)
			continue
		}
		if x.marks[l.id.Job] != 0 || x.stops.paused(l.ticket.line.need.Kind) || l.lapses >= lease.SuspectLapses {
			continue
		}
		if f == nil {
			f = s.front(&lease.Exchange{Hello: b.Hello}, nil, now)
		}
		w := x.starving(f, l.ticket)
		if w == nil {
			continue
		}
		if most, _ := s.front(w.waits, nil, now).most(l.ticket.line); l.ticket.size <= most {
			w.promised++
			back = append(back, l.id)
		}
	}
	return back
}

// front begins a choice for a claim.
func (s *Store) front(x *lease.Exchange, actor *lease.Actor, now time.Time) *front {
	return &front{
		x: s.index, claim: x, actor: actor, full: s.index.backlog >= s.budget, now: now, term: s.term, loaded: x.Loaded,
		sees: func(w *workerSeen, p lease.Project) bool {
			a := asker{lease.Actor{ID: w.actor, Role: lease.Admin}, s}
			return a.Sees(p)
		},
	}
}

// starves notes that an exchange waits for work, and fed that it does no longer.
func (s *Store) starves(x *lease.Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.index.workers[x.Worker]; w != nil {
		w.waits = x
	}
}

func (s *Store) fed(x *lease.Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.index.workers[x.Worker]; w != nil && w.waits == x {
		w.waits = nil
	}
}
