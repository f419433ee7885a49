package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"macbatch/lease"
)

// greet notes that a worker speaks, and refuses its twin.
func (s *Store) greet(actor lease.ActorID, h lease.Hello, claims bool, request uint64) error {
	if h.Worker == "" {
		if claims {
			return fmt.Errorf("claim without a worker id: %w", lease.ErrInvalid)
		}
		return nil
	}
	if len(h.Worker) > maxName {
		return fmt.Errorf("worker id of %d bytes: %w", len(h.Worker), lease.ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, now := s.index.worker(h.Worker), s.now()
	alive := !w.seen.IsZero() && now.Sub(w.seen) < s.term
	if !alive && w.actor != actor { // nothing of another's worker binds this one
		w.hello, w.request = lease.Hello{}, 0
	}
	switch {
	case h.Incarnation < w.hello.Incarnation:
		return fmt.Errorf("worker %q on %s started anew meanwhile: %w", h.Worker, w.hello.Host, lease.ErrTwin)
	case alive && w.actor != actor: // where it lives is not for strangers
		return fmt.Errorf("worker %q: %w", h.Worker, lease.ErrTwin)
	case alive && w.hello.Machine != h.Machine:
		return fmt.Errorf("worker %q lives on %s, and can't on %s: %w", h.Worker, w.hello.Host, h.Host, lease.ErrTwin)
	case claims && h.Incarnation == w.hello.Incarnation && request < w.request:
		return fmt.Errorf("claim %d of worker %q comes after %d: %w", request, h.Worker, w.request, lease.ErrInvalid)
	}
	if h.Incarnation > w.hello.Incarnation {
		w.request, w.withdrawn = 0, nil
	}
	w.hello, w.actor, w.seen = h, actor, now
	if claims {
		w.request, w.claimed = max(w.request, request), now
	}
	return nil
}

// Heartbeat implements lease.Control. It writes nothing, but for an older copy of
// a store.
func (c *control) Heartbeat(ctx context.Context, b lease.Beat) (out lease.Beaten, err error) {
	if err := c.may(lease.WorkerRole); err != nil {
		return out, err
	}
	if c.s.broken.Load() {
		return out, lease.ErrUnknownOutcome
	}
	if b.Worker == "" {
		return out, fmt.Errorf("heartbeat without a worker id: %w", lease.ErrInvalid)
	}
	if len(b.Withdrawn) > lease.MaxWithdrawn {
		return out, fmt.Errorf("heartbeat with %d withdrawals, over %d: %w", len(b.Withdrawn), lease.MaxWithdrawn, lease.ErrTooLarge)
	}
	if err := c.s.greet(c.actor.ID, b.Hello, false, 0); err != nil {
		return out, err
	}
	if err := c.s.heed(ctx, b.Mark); err != nil {
		return out, err
	}
	out.Mark = c.s.mark()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if b.Facts != nil {
		c.s.index.worker(b.Worker).facts = b.Facts.Clipped()
	}
	now := c.s.now()
	c.s.index.worker(b.Worker).withdraw(b.Withdrawn, now)
	out.Drain = c.s.index.stops.of(lease.Target{Worker: b.Worker}, now)
	for _, lb := range b.Leases {
		l := c.s.index.leases[lb.Shard]
		if l == nil || l.fence != lb.Fence || l.holder.Worker != b.Worker || l.holder.Actor != c.actor.ID ||
			!c.actor.Sees(c.s.index.project(lb.Shard.Job)) || c.s.index.marks[lb.Shard.Job] == markCanceled {
			out.Lost = append(out.Lost, lb.Shard)
			continue
		}
		if lb.Phase != lease.Running || !l.ran || lb.Work != l.work || lb.Signs != l.signs || l.moved.IsZero() {
			l.moved = now
		}
		if now.Sub(l.moved) < lease.StallLimit(l.size) { // else it may lapse: whoever holds it gets nowhere
			c.s.index.renew(l, now.Add(c.s.term))
		}
		l.ran, l.signs = l.ran || lb.Phase == lease.Running, lb.Signs
		c.s.index.progress(l, min(lb.Work, 1<<62))
	}
	out.Back = c.s.unbegun(c.actor.ID, &b, now)
	return out, nil
}

// withdraw notes what a worker does not offer at the moment.
func (w *workerSeen) withdraw(list []lease.Withdrawal, now time.Time) {
	w.withdrawn, w.told = slices.Clone(list), now
	for i := range w.withdrawn {
		w.withdrawn[i].Reason = clip(w.withdrawn[i].Reason)
	}
}

// lacks is that as of now.
func (w *workerSeen) lacks(now time.Time) []lease.Withdrawal {
	list := slices.Clone(w.withdrawn)
	for i := range list {
		since := max(0, now.Sub(w.told))
		list[i].Age += since
		if list[i].Again > 0 {
			list[i].Again = max(time.Second, list[i].Again-since)
		}
	}
	return list
}
