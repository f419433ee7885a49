package ledger

import (
	"slices"

	"macbatch/lease"
)

// fold is what the events say of one shard or job; Seq 0 is the job itself. It is
// small: there is one for each row of a pass.
type fold struct {
	last     uint64 // sequence of the newest event
	sum      uint64 // of the row it left
	fence    lease.Fence
	kind     lease.EventKind // of the newest event
	n        uint32
	failures uint16
	lapses   uint16
	reserved lease.Cost // by an intent that nothing ended
	spent    lease.Cost
	intends  bool        // there is one
	end      lease.State // that the events ended it in; zero: they did not
	granted  bool        // a grant that nothing ended
	canceled bool        // of a job
	paused   bool        // of a job
	pruned   bool        // of a job
	seen     bool        // its row was met
}

// fold takes an event of the pass into its history.
func (v *verifier) fold(ev *lease.Event) {
	if ev.Project != "" || ev.Subject != "" {
		v.scopeEvent(ev)
		return
	}
	id := ev.ShardID()
	f := v.folds[id]
	if f == nil {
		f = v.begin(id, ev)
	}
	f.n++
	if ev.N != f.n || ev.Prev != f.last {
		v.add("history_gap", subject(id), "event %d calls itself number %d after event %d, not %d after %d", ev.Seq, ev.N, ev.Prev, f.n, f.last)
	}
	f.last, f.sum, f.n = ev.Seq, ev.Sum, ev.N
	switch {
	case ev.Kind == lease.EventCarried && id.IsZero():
		v.carriedPause(ev)
	case ev.Kind == lease.EventCarried:
		v.carried(id, f, ev)
	case id.Seq != 0:
		v.shardEvent(id, f, ev)
	case id.Job != 0:
		v.jobEvent(id, f, ev)
	case ev.Kind == lease.EventPaused:
		v.pauses[ev.Target()] = pause{ev.Seq, ev.Sum}
	case ev.Kind == lease.EventResumed:
		delete(v.pauses, ev.Target())
	}
	f.kind = ev.Kind
}

// begin starts a history with its first event: one of creation, or behind a cut
// the carried one. The store's own history may begin anywhere behind a cut.
func (v *verifier) begin(id lease.ShardID, ev *lease.Event) *fold {
	f := &fold{}
	v.folds[id] = f
	cut := v.head.Base > 0 && ev.Prev <= v.head.Base && ev.N > 1
	if cut && (ev.Kind == lease.EventCarried || id.IsZero()) {
		f.n, f.last = ev.N-1, ev.Prev
		return f
	}
	created := lease.EventQueued
	switch {
	case id.IsZero():
		created = lease.EventCreated
	case id.Seq == 0:
		created = lease.EventSubmitted
	}
	if ev.Kind != created {
		v.add("no_creation_event", subject(id), "the first event is %q", ev.Kind)
	}
	return f
}

// carried compares a carried row with the history before it, or takes it as the base.
func (v *verifier) carried(id lease.ShardID, f *fold, ev *lease.Event) {
	c, err := v.snap.Carried(ev)
	if err != nil {
		v.add("event_unreadable", subject(id), "event %d carries a row that cannot be read: %v", ev.Seq, err)
		return
	}
	base := fold{last: ev.Seq, sum: ev.Sum, n: ev.N, kind: f.kind}
	n, last := c.Job.Events, c.Job.Last
	if id.Seq == 0 {
		base.canceled, base.paused = c.Job.Canceled, !c.Job.Pause.IsZero()
	} else {
		s := &c.Shard
		n, last = s.Events, s.Last
		base.fence, base.failures, base.lapses = s.Fence, s.Failures, s.Lapses
		base.granted = s.State == lease.Leased
		base.intends, base.reserved, base.spent = s.Intent.Fence != 0, s.Intent.Reserved, s.Spent
		if s.State.Terminal() {
			base.end = s.State
		}
	}
	if c.Sum != ev.Sum || n != ev.N || last != ev.Seq {
		v.add("carried_disagrees", subject(id), "event %d carries a row that is not its own", ev.Seq)
	}
	if f.kind == "" { // its first event here
		*f = base
		return
	}
	base.seen, base.pruned = f.seen, f.pruned
	if base != *f {
		v.add("carried_disagrees", subject(id), "event %d carries a row that is not what the history before it says", ev.Seq)
	}
}

// pause is how a pause of a kind, a worker, or everything began.
type pause struct{ seq, sum uint64 }

// carriedPause takes in a pause that began before the cut, or knows of it already.
func (v *verifier) carriedPause(ev *lease.Event) {
	of := ev.Target()
	began, known := v.pauses[of]
	if known && began.sum != ev.Sum || !known && v.head.Base == 0 {
		v.add("carried_disagrees", of.String(), "event %d carries a pause that is not what the history before it says", ev.Seq)
	}
	v.pauses[of] = pause{ev.Seq, ev.Sum}
}

func (v *verifier) jobEvent(id lease.ShardID, f *fold, ev *lease.Event) {
	if f.pruned {
		v.add("event_after_terminal", subject(id), "event %d (%s) comes after the job was pruned", ev.Seq, ev.Kind)
	}
	switch {
	case ev.Kind == lease.EventCanceled:
		f.canceled, f.paused = true, false
	case ev.Kind == lease.EventRetried:
		f.canceled = false
	case ev.Kind == lease.EventPaused:
		f.paused = true
	case ev.Kind == lease.EventResumed:
		f.paused = false
	case ev.Kind == lease.EventPruned:
		f.pruned = true
	}
}

// ends are the events that end a shard, and the state they leave it in.
var ends = map[lease.EventKind]lease.State{
	lease.EventDone: lease.Done, lease.EventReused: lease.Done, lease.EventFailed: lease.Failed, lease.EventCanceled: lease.Canceled,
}

func (v *verifier) shardEvent(id lease.ShardID, f *fold, ev *lease.Event) {
	switch end := ends[ev.Kind]; {
	case end != 0 && f.end != 0:
		v.add("two_terminal_events", id.String(), "event %d (%s) ends it again", ev.Seq, ev.Kind)
	case end != 0:
		f.end = end
	case f.end != 0:
		v.add("event_after_terminal", id.String(), "event %d (%s) comes after its end", ev.Seq, ev.Kind)
	}
	under := f.granted && ev.Fence == f.fence
	if ev.Kind != lease.EventIntended && ev.Kind != lease.EventCarried {
		v.booked(id, f, ev)
	}
	switch ev.Kind {
	case lease.EventLeased:
		if ev.Fence <= f.fence {
			v.add("fence_not_monotonic", id.String(), "event %d grants fence %v after %v", ev.Seq, ev.Fence, f.fence)
		}
		f.fence, f.granted = ev.Fence, true
	case lease.EventIntended:
		if !under || f.intends && ev.Cost <= f.reserved {
			v.add("intent_disagrees", id.String(), "event %d reserves %v under fence %v, held were %v under %v", ev.Seq, ev.Cost, ev.Fence, f.reserved, f.fence)
		}
		f.intends, f.reserved = true, ev.Cost
	case lease.EventDone:
		if !under {
			v.add("done_without_claim", id.String(), "event %d is done under fence %v, granted was %v", ev.Seq, ev.Fence, f.fence)
		}
		f.granted = false
	case lease.EventReleased, lease.EventRequeued, lease.EventLeaseExpired:
		if !under {
			v.add("fence_disagrees", id.String(), "event %d (%s) has fence %v, granted was %v", ev.Seq, ev.Kind, ev.Fence, f.fence)
		}
		f.granted = false
		if ev.Kind == lease.EventRequeued {
			f.failures++
		}
		if ev.Count {
			f.lapses++
		}
	case lease.EventFailed:
		if ev.Class != lease.Dependency && ev.Class != lease.Poison {
			f.failures++
		}
		f.granted = false
	case lease.EventCanceled, lease.EventReused:
		f.granted = false
	case lease.EventQueued, lease.EventReady, lease.EventCarried:
	case lease.EventSubmitted, lease.EventPaused, lease.EventResumed, lease.EventCreated, lease.EventRestored,
		lease.EventProjectCreated, lease.EventProjectClosed, lease.EventProjectOpened, lease.EventActorAdded,
		lease.EventActorRotated, lease.EventActorRevoked, lease.EventActorInvited, lease.EventActorJoined, lease.EventAssigned, lease.EventUnassigned,
		lease.EventRetried, lease.EventPruned, lease.EventCheckpoint:
		v.add("event_unreadable", id.String(), "event %d (%s) is not one of a shard", ev.Seq, ev.Kind)
	}
}

// booked ends an intent with the lease it is of. What ends unreported counts in full.
func (v *verifier) booked(id lease.ShardID, f *fold, ev *lease.Event) {
	silent := ev.Kind == lease.EventLeaseExpired || ev.Kind == lease.EventCanceled
	if !f.intends && ev.Cost > 0 || f.intends && silent && ev.Cost != f.reserved {
		v.add("intent_disagrees", id.String(), "event %d (%s) books %v, reserved were %v", ev.Seq, ev.Kind, ev.Cost, f.reserved)
	}
	f.spent, f.reserved, f.intends = f.spent.Plus(ev.Cost), 0, false
}

// shrink leaves the upper half of a pass that grew too large to the next one.
func (v *verifier) shrink() {
	ids := make([]lease.ShardID, 0, len(v.folds))
	for id := range v.folds {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, lease.ShardID.Compare)
	v.to = ids[len(ids)/2]
	for _, id := range ids[len(ids)/2:] {
		delete(v.folds, id)
	}
}
