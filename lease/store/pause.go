package store

import (
	"context"
	"fmt"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// stops is what is paused. Rows keep a pause's duration; when it ends is memory's.
type stops struct {
	all     bool
	kinds   map[lease.Kind]bool
	workers map[lease.WorkerID]bool
	pauses  map[lease.Target]lease.Pause // of these, and of jobs
	ends    map[lease.Target]time.Time   // of those that end by themselves
	next    time.Time                    // the earliest of them; zero: none
}

func newStops() stops {
	return stops{
		kinds: map[lease.Kind]bool{}, workers: map[lease.WorkerID]bool{},
		pauses: map[lease.Target]lease.Pause{}, ends: map[lease.Target]time.Time{},
	}
}

// pause takes a pause in.
func (x *index) pause(p lease.Pause, now time.Time) {
	x.resumed(p.Target)
	x.offers++
	switch {
	case p.Job != 0:
		x.stop(p.Job, markPaused)
	case p.Kind != "":
		x.stops.kinds[p.Kind] = true
	case p.Worker != "":
		x.stops.workers[p.Worker] = true
	default:
		x.stops.all = true
	}
	x.stops.pauses[p.Target] = p
	if p.For > 0 {
		x.stops.ends[p.Target] = now.Add(p.For)
		x.stops.soonest()
	}
}

// resumed forgets a pause.
func (x *index) resumed(of lease.Target) {
	switch {
	case of.Job != 0:
		if x.marks[of.Job] == markPaused {
			x.resume(of.Job)
		}
	case of.Kind != "":
		delete(x.stops.kinds, of.Kind)
	case of.Worker != "":
		delete(x.stops.workers, of.Worker)
	default:
		x.stops.all = false
	}
	delete(x.stops.pauses, of)
	delete(x.stops.ends, of)
	x.stops.soonest()
	x.offered = true
	x.offers++
}

func (s *stops) soonest() {
	s.next = time.Time{}
	for _, at := range s.ends {
		if s.next.IsZero() || at.Before(s.next) {
			s.next = at
		}
	}
}

// of is the pause of a target; zero when there is none, or its time is over.
func (s *stops) of(t lease.Target, now time.Time) lease.Pause {
	if end, ends := s.ends[t]; ends && !now.Before(end) {
		return lease.Pause{}
	}
	return s.pauses[t]
}

// paused reports whether no shard of a kind may be granted.
func (s *stops) paused(k lease.Kind) bool { return s.all || s.kinds[k] }

// over reports whether a pause has ended by now.
func (s *stops) over(now time.Time) bool { return !s.next.IsZero() && !now.Before(s.next) }

// Pause implements lease.Control: one small commit, obeyed by every grant after it.
func (c *control) Pause(ctx context.Context, of lease.Target, reason string, d time.Duration) error {
	if err := c.mayStop(of); err != nil {
		return err
	}
	if of.Kind != "" {
		if err := of.Kind.Check(); err != nil { // one that no command line can name again
			return err
		}
	}
	if d < 0 || d > maxPause {
		return fmt.Errorf("pause for %v: must be 0 to %v: %w", d, maxPause, lease.ErrInvalid)
	}
	return c.s.do(ctx, func(t *tx) error {
		p := lease.Pause{Target: of, Actor: c.actor.ID, Reason: clip(reason), Since: t.now.Round(0), For: d.Truncate(time.Millisecond)}
		if d > 0 && p.For == 0 {
			p.For = time.Millisecond
		}
		ev := lease.Event{Kind: lease.EventPaused, Actor: p.Actor, Reason: p.Reason, For: p.For, What: of.Kind, Worker: of.Worker}
		if of.Job == 0 {
			key, row := pauseKey(of), encodePause(&p)
			ev.Sum = sum(key, row)
			t.put(key, row)
			t.tellStore(ev)
		} else {
			j, err := t.seen(c.actor, of.Job)
			if err != nil {
				return err
			}
			if st := j.Derive(); st.Terminal() {
				return fmt.Errorf("job %v is %s: %w", j.ID, st, lease.ErrNotAllowed)
			}
			j.Pause = p
			t.tell(j, ev)
		}
		t.s.index.pause(p, t.now)
		return nil
	})
}

// maxPause bounds a pause that ends by itself.
const maxPause = 10 * 366 * 24 * time.Hour

// Resume implements lease.Control.
func (c *control) Resume(ctx context.Context, of lease.Target, reason string) error {
	if err := c.mayStop(of); err != nil {
		return err
	}
	return c.s.do(ctx, func(t *tx) error {
		if of.Job != 0 {
			if _, err := t.seen(c.actor, of.Job); err != nil {
				return err
			}
		}
		return t.resume(of, lease.Event{Actor: c.actor.ID, Reason: clip(reason)})
	})
}

func (c *control) mayStop(of lease.Target) error {
	if err := of.Check(); err != nil {
		return err
	}
	if n := max(len(of.Kind), len(of.Worker)); n > maxName {
		return fmt.Errorf("pause of a name of %d bytes: %w", n, lease.ErrTooLarge)
	}
	if of.Job == 0 {
		return c.may(lease.Admin)
	}
	return c.may(lease.Submitter)
}

// seen loads a job that the actor may know of.
func (t *tx) seen(actor asker, id lease.JobID) (*jobRow, error) {
	j, err := t.job(id)
	if err == nil && !actor.Sees(j.Project) {
		err = fmt.Errorf("job %v: %w", id, lease.ErrNotFound)
	}
	return j, err
}

// resume ends a pause, if there is one.
func (t *tx) resume(of lease.Target, ev lease.Event) error {
	ev.Kind, ev.What, ev.Worker = lease.EventResumed, of.Kind, of.Worker
	if of.Job == 0 {
		if t.get(pauseKey(of)) == nil {
			return nil
		}
		t.remove(pauseKey(of))
		t.tellStore(ev)
	} else {
		j, err := t.job(of.Job)
		if err != nil {
			return err
		}
		if j.Pause.IsZero() {
			return nil
		}
		j.Pause = lease.Pause{}
		t.tell(j, ev)
	}
	t.s.index.resumed(of)
	return nil
}

// resumeOver is the command that ends the pauses whose time is over, or nil.
func (s *Store) resumeOver() *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.index.stops.over(s.now()) {
		return nil
	}
	return &command{done: make(chan error, 1), run: func(t *tx) error {
		for of, at := range t.s.index.stops.ends {
			if t.now.Before(at) {
				continue
			}
			if err := t.resume(of, lease.Event{Reason: "its time was over"}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// pauseKey is where the pause of a kind, a worker, or everything is kept. No kind
// begins with a byte 0.
func pauseKey(of lease.Target) []byte {
	if of.Worker != "" {
		return append([]byte{keyPause, 0}, of.Worker...)
	}
	return append([]byte{keyPause}, of.Kind...)
}

// pauseOf is what the pause under a key is of.
func pauseOf(k []byte) lease.Target {
	switch {
	case len(k) < 2:
		return lease.Target{All: true}
	case k[1] == 0:
		return lease.Target{Worker: lease.WorkerID(k[2:])}
	}
	return lease.Target{Kind: lease.Kind(k[1:])}
}

func encodePause(p *lease.Pause) []byte {
	e := encoder{[]byte{rowVersion}}
	e.pause(p)
	return e.b
}

func decodePause(k, b []byte) (p lease.Pause, err error) {
	d := decoder{b: b}
	d.version()
	p = d.pause()
	p.Target = pauseOf(k)
	err = d.done()
	if err == nil {
		err = p.Target.Check()
	}
	if err != nil {
		return p, fmt.Errorf("pause of %v: row damaged: %w", p.Target, err)
	}
	return p, nil
}

// loadPauses takes in what is paused beside jobs. Each begins afresh.
func (s *Store) loadPauses(r kv.Reader, now time.Time) (err error) {
	scan(r, []byte{keyPause}, func(k, v []byte) bool {
		var p lease.Pause
		if p, err = decodePause(k, v); err == nil {
			s.index.pause(p, now)
		}
		return err == nil
	})
	return err
}

// pause writes a pause without its target, which the row's key tells.
func (e *encoder) pause(p *lease.Pause) {
	e.bool(!p.IsZero())
	if p.IsZero() {
		return
	}
	e.string(string(p.Actor))
	e.string(p.Reason)
	e.uint(uint64(p.Since.UnixMilli()))
	e.uint(uint64(p.For))
}

func (d *decoder) pause() (p lease.Pause) {
	if d.bool() {
		p.Actor, p.Reason = lease.ActorID(d.string()), d.string()
		p.Since, p.For = time.UnixMilli(int64(d.uint())).UTC(), time.Duration(d.uint())
	}
	return p
}
