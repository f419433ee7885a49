package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// groupLimit bounds how many commands share a commit.
const groupLimit = 512

// The parts of a term: how often the clock is looked at, and the silence after
// which the store assumes that it was asleep, or stopped, and that workers could
// not reach it.
const (
	tickPart  = 90 // of lease.Term: a second
	stallPart = lease.Term / lease.Heartbeat
)

// command is one request to the writer.
type command struct {
	run  func(*tx) error
	done chan error
	gone []lease.Digest

	frees bool   // on a full disk the engine's reserve is given up for it
	after func() // once it is durable
}

// Run serves commands until ctx ends, and then those already waiting. It returns
// nil on a clean end, and kv.ErrUnknownOutcome (or what else broke the store)
// when nothing more can be served until the store is opened again.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.stopped)
	tick := time.NewTicker(s.term / tickPart)
	defer tick.Stop()
	swept := make(chan struct{})
	sweeping, stop := context.WithCancel(ctx)
	go func() {
		defer close(swept)
		s.sweep(sweeping)
	}()
	defer func() { stop(); <-swept }()
	for {
		var err error
		if page := s.nextPage(); page != nil {
			err = s.commit(page) // waiting commands ride along
		} else {
			select {
			case c := <-s.commands:
				err = s.commit(c)
			case <-tick.C:
				s.look()
				s.reserve()
				if over := s.resumeOver(); over != nil {
					err = s.commit(over)
				}
			case <-ctx.Done():
				return s.drain()
			}
		}
		if err != nil {
			s.broken.Store(true)
			return err
		}
		if ctx.Err() != nil {
			return s.drain()
		}
	}
}

// drain serves what waits already.
func (s *Store) drain() error {
	for {
		select {
		case c := <-s.commands:
			if err := s.commit(c); err != nil {
				s.broken.Store(true)
				return err
			}
		default:
			return nil
		}
	}
}

// do runs a command in the next commit and returns its error once it is durable.
func (s *Store) do(ctx context.Context, run func(*tx) error) error {
	return s.serve(ctx, &command{run: run, done: make(chan error, 1)})
}

// doFreeing is do for what makes room, or leads to it: a full disk does not stop it.
func (s *Store) doFreeing(ctx context.Context, run func(*tx) error) error {
	err := s.serve(ctx, &command{run: run, done: make(chan error, 1), frees: true})
	if errors.Is(err, lease.ErrFull) { // the reserve is given up now
		err = s.serve(ctx, &command{run: run, done: make(chan error, 1), frees: true})
	}
	return err
}

func (s *Store) serve(ctx context.Context, c *command) error {
	if s.broken.Load() {
		return lease.ErrUnknownOutcome
	}
	select {
	case s.commands <- c:
	case <-s.stopped:
		return lease.ErrUnreachable
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// Once queued it may commit: its answer must be waited for.
	select {
	case err := <-c.done:
		return err
	case <-s.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return lease.ErrUnknownOutcome
		}
	}
}

var errNothing = errors.New("nothing written")

// commit runs a group of commands, beginning with first, in one commit.
// Its error ends the writer.
func (s *Store) commit(first *command) error {
	s.look()
	cmds := []*command{first}
	if over := s.resumeOver(); over != nil {
		cmds = []*command{over, first} // what is granted now must know
	}
	errs := []error{}
	var g *group
	err := s.engine.Update(func(w kv.Writer) error {
		g = newGroup(w, s.head, &s.room)
		for i := 0; ; i++ {
			if i == len(cmds) {
				if i >= groupLimit {
					break
				}
				select {
				case c := <-s.commands:
					cmds = append(cmds, c)
				default:
				}
				if i == len(cmds) {
					break
				}
			}
			err, fatal := s.apply(g, cmds[i])
			if fatal {
				return err
			}
			errs = append(errs, err)
		}
		if g.head.Seq == s.head.Seq && g.writes.len() == 0 {
			return errNothing
		}
		return g.flush()
	})
	switch {
	case errors.Is(err, errNothing):
		err = nil
	case errors.Is(err, kv.ErrFull):
		for i := range errs {
			errs[i] = fmt.Errorf("%w: %w", lease.ErrFull, err)
		}
		s.mu.Lock()
		err = s.reload()
		s.rest = true
		s.mu.Unlock()
		if slices.ContainsFunc(cmds, func(c *command) bool { return c.frees }) {
			s.relieve()
		}
	case err == nil:
		s.head = g.head
		s.publish()
		defer s.grew()
	}
	if err != nil {
		for _, c := range cmds {
			c.done <- lease.ErrUnknownOutcome
		}
		return fmt.Errorf("commit: %w", err)
	}
	if g != nil {
		g.end(&s.room)
	}
	for i, c := range cmds {
		s.dispose(c.gone)
		if c.after != nil && errs[i] == nil {
			c.after()
		}
		c.done <- errs[i]
	}
	return nil
}

// reload rebuilds the index after a commit that did not happen. What only memory
// knows of workers and leases is kept.
func (s *Store) reload() error {
	old := s.index
	if err := s.load(); err != nil {
		return err
	}
	s.index.silent = old.silent
	for id, o := range old.workers {
		w := s.index.worker(id)
		leases := w.leases
		*w = *o
		w.leases = leases
	}
	for of := range s.index.stops.ends {
		if at, ok := old.stops.ends[of]; ok {
			s.index.stops.ends[of] = at
		}
	}
	s.index.stops.soonest()
	for id, l := range s.index.leases {
		if o := old.leases[id]; o != nil && o.fence == l.fence {
			l.deadline, l.ran = o.deadline, o.ran
			s.index.progress(l, o.work)
		}
	}
	return nil
}

// apply runs one command. A refusal leaves nothing behind; a fault after a
// change, such as a damaged row, is fatal.
func (s *Store) apply(g *group, c *command) (err error, fatal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := g.begin(s, s.now())
	if err := c.run(t); err != nil {
		if t.wrote() {
			return err, true
		}
		t.end()
		return err, false
	}
	if t.fault != nil {
		return t.fault, true
	}
	if t.wrote() {
		t.seal()
		c.gone = t.gone
		s.ring()
	}
	t.end()
	return nil, false
}

// dispose removes blobs that no open shard needs, once that is durable. While a
// plan is paging it waits: the shards still to be added may need them.
func (s *Store) dispose(gone []lease.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, gone...)
	if s.planning() || s.holds > 0 {
		return
	}
	gone, s.unused = s.unused, nil
	for _, d := range gone {
		if s.index.inputs[d] > 0 || s.index.lists[d] > 0 || s.known[d].stays() {
			continue
		}
		if _, here := s.present[d]; here {
			s.forget(d)
		}
		delete(s.known, d)
	}
}

// ring wakes everybody who waits for work, if there is new work. s.mu is held.
func (s *Store) ring() {
	if !s.index.offered {
		return
	}
	s.index.offered = false
	close(s.wake)
	s.wake = make(chan struct{})
}

// look reads the clock: it notices a sleep of the control plane, and makes
// claimable what has rested or lapsed.
func (s *Store) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	// A suspended host stops the monotonic clock, a stepped one moves the wall clock: heed both.
	gap := max(now.Sub(s.beat), now.Round(0).Sub(s.beat.Round(0)))
	s.beat = now
	if gap > s.term/stallPart {
		s.log.Warn("the control plane was stopped or asleep; every lease gets a full term", "for", gap)
		for _, l := range s.index.leases {
			s.index.renew(l, now.Add(s.term))
		}
	}
	s.index.mature(now)
	s.ring()
}
