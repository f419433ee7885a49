package lease

import (
	"fmt"
	"time"
)

// How often a shard may fail or lapse.
const (
	MaxFailures   = 5 // reported failures that end a shard
	SuspectLapses = 3 // counted lapses from which on it is leased alone
	PoisonLapses  = 6 // counted lapses that end it
)

// Command is something asked of a shard.
type Command interface{ command() }

// The commands. Each names the fence it was decided under, where it has one.
type (
	// Queue adds the shard. It is allowed on the zero state only.
	Queue struct{ Actor ActorID }

	// Unblock tells that all the shards it waits for are done.
	Unblock struct{}

	// Claim grants the shard to a worker under a new fence, taking over a lapsed lease.
	Claim struct {
		Holder Holder
		Fence  Fence
		Term   time.Duration
		Count  bool // whether a lapse taken over counts
	}

	// Expire ends a lease whose worker is known to be gone, before its deadline.
	Expire struct {
		Fence Fence
		Count bool
	}

	// Intend tells that the holder is about to spend up to Reserve in all.
	Intend struct {
		Fence   Fence
		Reserve Cost
	}

	// Release gives the shard back without a count, to rest for Delay.
	Release struct {
		Fence  Fence
		Reason string
		Delay  time.Duration
		Cost   Cost // spent
	}

	// Complete settles the shard with a result.
	Complete struct {
		Fence  Fence
		Digest Digest // of the report
		Result Result
		Actor  ActorID
		Cost   Cost // spent
	}

	// Fail reports a failed attempt, or an invalid result.
	Fail struct {
		Fence  Fence
		Digest Digest // of the report
		Class  FailureClass
		Reason string
		Delay  time.Duration // the back-off, if it is tried again
		Actor  ActorID
		Cost   Cost // spent
	}

	// Depend fails a shard because one that it waits for will never be done.
	Depend struct{ Reason string }

	// Reuse settles the shard with the result of an earlier one.
	Reuse struct {
		From   ShardID
		Result Result
	}

	// Cancel ends the shard.
	Cancel struct {
		Actor  ActorID
		Reason string
	}
)

func (Queue) command()    {}
func (Unblock) command()  {}
func (Claim) command()    {}
func (Expire) command()   {}
func (Intend) command()   {}
func (Release) command()  {}
func (Complete) command() {}
func (Fail) command()     {}
func (Depend) command()   {}
func (Reuse) command()    {}
func (Cancel) command()   {}

// Step is the whole life of a shard: what c makes of s at now, and the events
// that tell of it, in order, with only the fields the command decides. It is
// pure. The package documentation has its table, cell by cell.
//
// Errors: ErrFenced, ErrDuplicate, ErrConflict for reports under a fence that is
// not, or no longer, open; ErrNotAllowed for all else that does not fit.
func Step(s Shard, c Command, now time.Time) (Shard, []Event, error) {
	switch c := c.(type) {
	case Queue:
		if s.State != 0 {
			return refuse(s, c)
		}
		s.State = Ready
		if len(s.After) > 0 {
			s.State = Blocked
		}
		ev := Event{Kind: EventQueued, Actor: c.Actor}
		if len(s.Supersedes) > 0 {
			ev.From = ShardID{s.ID.Job, s.Supersedes[0]}
		}
		return s, []Event{ev}, nil

	case Unblock:
		if s.State != Blocked {
			return refuse(s, c)
		}
		s.State = Ready
		return s, []Event{{Kind: EventReady}}, nil

	case Claim:
		return claim(s, c, now)

	case Expire:
		if s.State != Leased || s.Fence != c.Fence {
			return refuse(s, c)
		}
		return expire(s, c.Count)

	case Intend:
		if s.Lapsed(now) {
			return s, nil, fmt.Errorf("intend to spend on shard %v: its lease lapsed: %w", s.ID, ErrFenced)
		}
		if err := open(s, c.Fence, Digest{}); err != nil {
			return s, nil, err
		}
		if s.Intent.Fence == c.Fence && c.Reserve <= s.Intent.Reserved {
			return s, nil, fmt.Errorf("intend to spend on shard %v: %w", s.ID, ErrDuplicate)
		}
		s.Intent = Intent{c.Fence, c.Reserve}
		return s, []Event{{Kind: EventIntended, Worker: s.Holder.Worker, Fence: s.Fence, Cost: c.Reserve}}, nil

	case Release:
		if err := open(s, c.Fence, Digest{}); err != nil {
			return s, nil, err
		}
		ev := Event{Kind: EventReleased, Worker: s.Holder.Worker, Fence: s.Fence, Reason: c.Reason}
		s.State, s.Reason, s.Delay = Ready, c.Reason, c.Delay
		ev.Cost = s.book(c.Cost)
		return s, []Event{ev}, nil

	case Complete:
		if err := open(s, c.Fence, c.Digest); err != nil {
			return s, nil, err
		}
		s.State, s.Result, s.Class, s.Reason = Done, c.Result, "", ""
		s.Result.Inline = nil
		s.Settled = Settled{c.Fence, c.Digest}
		ev := Event{Kind: EventDone, Actor: c.Actor, Worker: s.Holder.Worker, Fence: s.Fence, Digest: c.Digest}
		ev.Cost = s.book(c.Cost)
		return s, []Event{ev}, nil

	case Fail:
		return fail(s, c)

	case Depend:
		if s.State != Blocked {
			return refuse(s, c)
		}
		s.State, s.Class, s.Reason = Failed, Dependency, c.Reason
		return s, []Event{{Kind: EventFailed, Class: Dependency, Reason: c.Reason}}, nil

	case Reuse:
		if s.State != Ready {
			return refuse(s, c)
		}
		s.State, s.Result, s.From, s.Class, s.Reason, s.Delay = Done, c.Result, c.From, "", "", 0
		s.Result.Inline = nil
		return s, []Event{{Kind: EventReused, From: c.From, Digest: c.Result.Digest}}, nil

	case Cancel:
		if s.State == 0 || s.State.Terminal() {
			return refuse(s, c)
		}
		ev := Event{Kind: EventCanceled, Actor: c.Actor, Fence: s.Fence, Reason: c.Reason}
		ev.Cost = s.book(s.Intent.Reserved)
		s.State, s.Reason, s.Delay = Canceled, c.Reason, 0
		return s, []Event{ev}, nil
	}
	panic(fmt.Sprintf("lease: unknown command %T", c))
}

func claim(s Shard, c Claim, now time.Time) (Shard, []Event, error) {
	if c.Fence <= s.Fence {
		return s, nil, fmt.Errorf("claim shard %v: fence %v is not above %v: %w", s.ID, c.Fence, s.Fence, ErrFenced)
	}
	var events []Event
	if s.Parked(now) {
		return refuse(s, c)
	}
	if s.Lapsed(now) {
		var err error
		if s, events, err = expire(s, c.Count); err != nil || s.State != Ready {
			return s, events, err
		}
	}
	if s.State != Ready {
		return refuse(s, c)
	}
	s.State, s.Fence, s.Holder, s.Delay = Leased, c.Fence, c.Holder, 0
	s.Deadline = now.Add(c.Term)
	return s, append(events, Event{Kind: EventLeased, Actor: c.Holder.Actor, Worker: c.Holder.Worker, Fence: c.Fence}), nil
}

// expire ends an open lease by silence: back to the queue, or the end of a shard
// that kept killing its workers though it was alone.
func expire(s Shard, count bool) (Shard, []Event, error) {
	events := []Event{{Kind: EventLeaseExpired, Worker: s.Holder.Worker, Fence: s.Fence, Count: count}}
	events[0].Cost = s.book(s.Intent.Reserved)
	s.State, s.Deadline = Ready, time.Time{}
	if count {
		s.Lapses++
	}
	if s.Lapses >= PoisonLapses {
		s.State, s.Class = Failed, Poison
		s.Reason = fmt.Sprintf("its worker went silent %d times while it ran, also when it ran alone", s.Lapses)
		events = append(events, Event{Kind: EventFailed, Fence: s.Fence, Class: Poison, Reason: s.Reason})
	}
	return s, events, nil
}

func fail(s Shard, c Fail) (Shard, []Event, error) {
	if err := open(s, c.Fence, c.Digest); err != nil {
		return s, nil, err
	}
	ev := Event{Kind: EventRequeued, Actor: c.Actor, Worker: s.Holder.Worker, Fence: s.Fence, Class: c.Class, Reason: c.Reason, Digest: c.Digest}
	s.Failures++
	s.State, s.Class, s.Reason, s.Delay = Ready, c.Class, c.Reason, c.Delay
	s.Settled = Settled{c.Fence, c.Digest}
	ev.Cost = s.book(c.Cost)
	if c.Class == Permanent || c.Class == Unknown || s.Failures >= MaxFailures {
		s.State, s.Delay, ev.Kind = Failed, 0, EventFailed
	}
	return s, []Event{ev}, nil
}

// book ends an intent, if there is one, at what was spent.
func (s *Shard) book(spent Cost) Cost {
	if s.Intent.Fence == 0 {
		return 0
	}
	s.Spent, s.Intent = s.Spent.Plus(spent), Intent{}
	return spent
}

// open reports why a report under fence does not meet an open lease, or nil. A
// lapsed lease that nobody took over is still open.
func open(s Shard, fence Fence, digest Digest) error {
	var err error
	switch {
	case s.State == Leased && s.Fence == fence:
		return nil
	case s.Settled.Fence != fence || fence == 0 || s.Fence != fence:
		err = ErrFenced
	case s.Settled.Digest == digest:
		err = ErrDuplicate
	default:
		err = ErrConflict
	}
	return fmt.Errorf("report on shard %v under fence %v: %w", s.ID, fence, err)
}

func refuse(s Shard, c Command) (Shard, []Event, error) {
	return s, nil, fmt.Errorf("%T of shard %v in state %v: %w", c, s.ID, s.State, ErrNotAllowed)
}
