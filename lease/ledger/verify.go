package ledger

import (
	"fmt"

	"macbatch/lease"
)

// Record is the events of one commit.
type Record struct {
	First    uint64 // sequence of the first event
	Events   []lease.Event
	Chain    lease.Digest // as stored with it
	Computed lease.Digest // as it follows from the record before
	Err      error        // it cannot be read
}

// Snapshot is a store at one moment.
type Snapshot interface {
	// Head returns the sequence of the newest event and the digest of the chain there.
	Head() (seq uint64, chain lease.Digest, err error)

	// Records calls fn for each ledger record in order, until it returns false.
	Records(fn func(Record) bool)

	// Jobs calls fn for each job with the number its next shard would get, the
	// sum of the part of its row that only its own events change, or what keeps
	// it from being read.
	Jobs(fn func(j lease.Job, next uint32, sum uint64, err error) bool)

	// Shards calls fn for each shard with the sum of its row, or what keeps it from being read.
	Shards(fn func(s lease.Shard, sum uint64, err error) bool)

	// Pauses calls fn for each pause that is not a job's, with the sum of its row.
	Pauses(fn func(p lease.Pause, sum uint64, err error) bool)

	// Successor returns the number of the shard that is noted to supersede id; 0: none.
	Successor(id lease.ShardID) uint32

	// Successors returns how many are noted.
	Successors() int

	// Projects and Actors call fn for each with the sum of its row, or what keeps it from being read.
	Projects(fn func(p lease.Scope, sum uint64, err error) bool)
	Actors(fn func(a lease.Identity, sum uint64, err error) bool)

	// Plans calls fn for each result whose shards are still being added, and for
	// each job (number 0) whose input is still being cut; err says that its mark
	// cannot be read.
	Plans(fn func(id lease.ShardID, err error) bool)

	// Value returns the bytes of a result kept in the store, or nil.
	Value(id lease.ShardID) []byte

	// HasBlob reports whether a blob is there.
	HasBlob(d lease.Digest) (bool, error)
}

// fold is what the events say of one shard or job.
type fold struct {
	last     lease.Event
	n        uint32
	fence    lease.Fence // of the newest grant
	granted  bool        // a grant that nothing ended
	terminal int
	failures uint16
	lapses   uint16
	canceled bool
	paused   bool
	seen     bool // its row was met
}

type verifier struct {
	snap     Snapshot
	problems []lease.Problem
	shards   map[lease.ShardID]*fold // jobs have Seq 0
	jobs     map[lease.JobID]*recount
	pauses   map[lease.Kind]lease.Event // of kinds, and of everything: how each began
	scopes   map[string]*scopeFold      // projects and actors, by their name in problems
}

// recount is a job's counters as its shards add them up.
type recount struct {
	shards      lease.Counts
	old         lease.Counts // of these: superseded
	items, work lease.Progress
	plans       uint32
	next        uint32
	cut         int64  // so many bytes of the input are in shards, without a gap
	numbered    uint32 // items in them
	misnumbered bool   // one of these shards begins with another item
}

// Verify checks a snapshot. Its error means that it could not be read at all.
func Verify(s Snapshot) ([]lease.Problem, error) {
	v := &verifier{
		snap: s, shards: map[lease.ShardID]*fold{}, jobs: map[lease.JobID]*recount{},
		pauses: map[lease.Kind]lease.Event{}, scopes: map[string]*scopeFold{},
	}
	v.ledger()
	s.Plans(func(id lease.ShardID, err error) bool {
		if err != nil {
			v.add("row_unreadable", subject(id), "%v", err)
		}
		v.recount(id.Job).plans++
		return true
	})
	v.rows()
	v.jobRows()
	v.pauseRows()
	v.scopeRows()
	for id, f := range v.shards {
		if !f.seen && (id != lease.ShardID{}) {
			v.add("orphan_events", subject(id), "%d events, but no row", f.n)
		}
	}
	return v.problems, nil
}

func (v *verifier) add(kind, subject, format string, args ...any) {
	v.problems = append(v.problems, lease.Problem{Kind: kind, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

func subject(id lease.ShardID) string {
	switch {
	case id == lease.ShardID{}:
		return "ledger"
	case id.Seq == 0:
		return id.Job.String()
	}
	return id.String()
}

func (v *verifier) recount(id lease.JobID) *recount {
	c := v.jobs[id]
	if c == nil {
		c = &recount{next: 1}
		v.jobs[id] = c
	}
	return c
}

// ledger folds all events and checks the chain.
func (v *verifier) ledger() {
	next := uint64(1)
	var last lease.Digest
	v.snap.Records(func(r Record) bool {
		if r.Err != nil {
			v.add("event_unreadable", "ledger", "%v", r.Err)
		}
		if r.Chain != r.Computed {
			v.add("chain_broken", "ledger", "the record of events %d to %d was changed, or one before it removed", r.First, r.First+uint64(max(len(r.Events), 1))-1)
		}
		if r.First != next && r.Err == nil {
			v.add("chain_broken", "ledger", "event %d is followed by event %d", next-1, r.First)
		}
		next, last = r.First+uint64(len(r.Events)), r.Chain
		for i := range r.Events {
			v.event(&r.Events[i])
		}
		return true
	})
	seq, chain, err := v.snap.Head()
	switch {
	case err != nil:
		v.add("head_disagrees", "ledger", "%v", err)
	case seq != next-1 || chain != last:
		v.add("head_disagrees", "ledger", "the head names event %d, the ledger ends at %d, or its digest differs", seq, next-1)
	}
}

func (v *verifier) event(ev *lease.Event) {
	if ev.Project != "" || ev.Subject != "" {
		v.scopeEvent(ev)
		return
	}
	id := ev.ShardID()
	f := v.shards[id]
	if f == nil {
		f = &fold{}
		v.shards[id] = f
		if id.Seq != 0 && ev.Kind != lease.EventQueued || id.Seq == 0 && id.Job != 0 && ev.Kind != lease.EventSubmitted {
			v.add("no_creation_event", subject(id), "the first event is %q", ev.Kind)
		}
	}
	f.n++
	if ev.N != f.n || ev.Prev != f.last.Seq {
		v.add("history_gap", subject(id), "event %d calls itself number %d after event %d, not %d after %d", ev.Seq, ev.N, ev.Prev, f.n, f.last.Seq)
	}
	f.last = *ev
	switch {
	case id.Seq != 0:
		v.shardEvent(id, f, ev)
	case id.Job != 0:
		f.jobEvent(ev)
	case ev.Kind == lease.EventPaused:
		v.pauses[ev.What] = *ev
	case ev.Kind == lease.EventResumed:
		delete(v.pauses, ev.What)
	}
}

func (f *fold) jobEvent(ev *lease.Event) {
	switch {
	case ev.Kind == lease.EventCanceled:
		f.canceled, f.paused = true, false
	case ev.Kind == lease.EventRetried:
		f.canceled = false
	case ev.Kind == lease.EventPaused:
		f.paused = true
	case ev.Kind == lease.EventResumed:
		f.paused = false
	}
}

func (v *verifier) shardEvent(id lease.ShardID, f *fold, ev *lease.Event) {
	if _, ends := ends[ev.Kind]; ends {
		f.terminal++
		if f.terminal == 2 {
			v.add("two_terminal_events", id.String(), "event %d (%s) ends it again", ev.Seq, ev.Kind)
		}
	} else if f.terminal > 0 {
		v.add("event_after_terminal", id.String(), "event %d (%s) comes after its end", ev.Seq, ev.Kind)
	}
	under := f.granted && ev.Fence == f.fence
	switch ev.Kind {
	case lease.EventLeased:
		if ev.Fence <= f.fence {
			v.add("fence_not_monotonic", id.String(), "event %d grants fence %v after %v", ev.Seq, ev.Fence, f.fence)
		}
		f.fence, f.granted = ev.Fence, true
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
	case lease.EventQueued, lease.EventReady:
	case lease.EventSubmitted, lease.EventPaused, lease.EventResumed, lease.EventCreated, lease.EventRestored, lease.EventRetried,
		lease.EventProjectCreated, lease.EventProjectClosed, lease.EventProjectOpened, lease.EventActorAdded,
		lease.EventActorRotated, lease.EventActorRevoked, lease.EventAssigned, lease.EventUnassigned:
		v.add("event_unreadable", id.String(), "event %d (%s) is not one of a shard", ev.Seq, ev.Kind)
	}
}

// rows compares each shard's row with its history and adds it to its job's counts.
func (v *verifier) rows() {
	superseded := 0
	v.snap.Shards(func(s lease.Shard, sum uint64, err error) bool {
		c := v.recount(s.ID.Job)
		c.next = max(c.next, s.ID.Seq+1)
		f := v.shards[s.ID]
		if f != nil {
			f.seen = true
		}
		if err != nil {
			v.add("row_unreadable", s.ID.String(), "%v", err)
			return true
		}
		if f == nil {
			v.add("no_creation_event", s.ID.String(), "the row has no events")
			return true
		}
		v.row(&s, f, sum)
		v.result(&s)
		c.count(&s, v.snap.Successor(s.ID) != 0)
		for _, old := range s.Supersedes {
			if by := v.snap.Successor(lease.ShardID{Job: s.ID.Job, Seq: old}); by != s.ID.Seq {
				v.add("successor_disagrees", s.ID.String(), "the row supersedes number %d, which is noted to be superseded by %d", old, by)
			}
			superseded++
		}
		return true
	})
	if n := v.snap.Successors(); n != superseded {
		v.add("successor_disagrees", "ledger", "%d shards are noted to be superseded, %d are", n, superseded)
	}
}

// ends are the events that end a shard, and the state they leave it in.
var ends = map[lease.EventKind]lease.State{
	lease.EventDone: lease.Done, lease.EventReused: lease.Done, lease.EventFailed: lease.Failed, lease.EventCanceled: lease.Canceled,
}

func (v *verifier) row(s *lease.Shard, f *fold, sum uint64) {
	id, last := s.ID.String(), f.last.Kind
	end, ended := ends[last]
	switch {
	case s.State.Terminal() && f.terminal == 0:
		v.add("terminal_without_event", id, "the row is %s, its last event is %q", s.State, last)
	case s.State.Terminal() && ended && end != s.State:
		v.add("terminal_events_disagree", id, "the row is %s, its last event is %q", s.State, last)
	case !s.State.Terminal() && f.terminal > 0:
		v.add("event_without_terminal", id, "the row is %s, its last event is %q", s.State, last)
	case s.State == lease.Ready && last == lease.EventLeased:
		v.add("ready_after_claim", id, "the row is ready, its last event is a grant")
	case s.State == lease.Leased && last != lease.EventLeased:
		v.add("leased_without_claim", id, "the row is leased, its last event is %q", last)
	}
	if s.Fence != f.fence {
		v.add("fence_disagrees", id, "the row has fence %v, its last grant %v", s.Fence, f.fence)
	}
	if s.Events != f.n || s.Last != f.last.Seq {
		v.add("history_gap", id, "the row counts %d events up to %d, the ledger has %d up to %d", s.Events, s.Last, f.n, f.last.Seq)
	}
	if s.Failures != f.failures || s.Lapses != f.lapses {
		v.add("row_edited", id, "the row counts %d failures and %d lapses, its events %d and %d", s.Failures, s.Lapses, f.failures, f.lapses)
	}
	if sum != f.last.Sum {
		v.add("row_edited", id, "its bytes are not those that event %d left", f.last.Seq)
	}
}

func (v *verifier) result(s *lease.Shard) {
	if s.State != lease.Done {
		return
	}
	if s.Result.Blob {
		if here, err := v.snap.HasBlob(s.Result.Digest); err != nil {
			v.add("result_missing", s.ID.String(), "%v", err)
		} else if !here {
			v.add("result_missing", s.ID.String(), "blob %v is not there", s.Result.Digest)
		}
		return
	}
	id := s.ID
	if !s.From.IsZero() {
		id = s.From
	}
	b := v.snap.Value(id)
	switch {
	case b == nil:
		v.add("result_missing", s.ID.String(), "the store has no result of shard %v", id)
	case lease.DigestOf(b) != s.Result.Digest || int64(len(b)) != s.Result.Bytes:
		v.add("result_edited", s.ID.String(), "the result of shard %v does not have its digest", id)
	}
}

// input looks for the list input that a job keeps for as long as it is there itself.
func (v *verifier) input(j *lease.Job) {
	if j.Input == (lease.Input{}) {
		return
	}
	if here, err := v.snap.HasBlob(j.Input.Digest); err != nil {
		v.add("input_missing", j.ID.String(), "%v", err)
	} else if !here {
		v.add("input_missing", j.ID.String(), "blob %v is not there", j.Input.Digest)
	}
}

// count adds a shard. One that was superseded counts as a shard and no more: items
// and work are those of the newest generation.
func (c *recount) count(s *lease.Shard, superseded bool) {
	*c.shards.Of(s.State)++
	if s.Range != (lease.Range{}) && s.Range.From == c.cut { // a range that comes again adds nothing
		c.misnumbered = c.misnumbered || s.Item != c.numbered
		c.cut, c.numbered = s.Range.To, c.numbered+s.Opens
	}
	if superseded {
		*c.old.Of(s.State)++
		return
	}
	c.items.Total += uint64(s.Opens)
	if s.Planned > 0 {
		return
	}
	c.work.Total += s.Work
	switch s.State {
	case lease.Done:
		c.items.Done += uint64(s.Settles - min(s.Settles, s.Result.Failed))
		c.items.Failed += uint64(s.Result.Failed)
		c.work.Done += s.Work
	case lease.Failed:
		c.items.Failed += uint64(s.Settles)
		c.work.Failed += s.Work
	case lease.Blocked, lease.Ready, lease.Leased, lease.Canceled:
	}
}

// jobRows compares each job's row with its own events and its shards.
func (v *verifier) jobRows() {
	seen := map[lease.JobID]bool{}
	v.snap.Jobs(func(j lease.Job, next uint32, sum uint64, err error) bool {
		seen[j.ID] = true
		f := v.shards[lease.ShardID{Job: j.ID}]
		if f != nil {
			f.seen = true
		}
		id := j.ID.String()
		switch {
		case err != nil:
			v.add("row_unreadable", id, "%v", err)
			return true
		case f == nil:
			v.add("no_creation_event", id, "the job has no events")
			return true
		case sum != f.last.Sum || j.Events != f.n || j.Last != f.last.Seq || j.Canceled != f.canceled || j.Pause.IsZero() == f.paused:
			v.add("row_edited", id, "its bytes are not those that event %d left", f.last.Seq)
		}
		c := v.recount(j.ID)
		if c.shards != j.Shards || c.old != j.Old || c.plans != j.Plans || c.next > next || j.Plans == 0 && !j.Canceled && c.next != next {
			v.add("counts_disagree", id, "the job counts %+v, superseded %+v, with %d plans and next shard %d, its shards add up to %+v, %+v, %d and %d", j.Shards, j.Old, j.Plans, next, c.shards, c.old, c.plans, c.next)
		}
		if whole := j.Plans == 0 && !j.Canceled; whole && c.cut != j.Input.Bytes || c.cut > j.Input.Bytes || c.misnumbered {
			v.add("input_not_covered", id, "its shards hold %d bytes of an input of %d in %d items, or number them otherwise", c.cut, j.Input.Bytes, c.numbered)
		}
		v.input(&j)
		if c.items != j.Items || c.work != j.Work {
			v.add("counts_disagree", id, "the job counts items %+v and work %+v, its shards add up to %+v and %+v", j.Items, j.Work, c.items, c.work)
		}
		return true
	})
	for id := range v.jobs {
		if !seen[id] {
			v.add("shard_without_job", id.String(), "%d shards, but no job", v.jobs[id].next-1)
		}
	}
}

// pauseRows compares what is paused beside jobs with the store's own events.
func (v *verifier) pauseRows() {
	v.snap.Pauses(func(p lease.Pause, sum uint64, err error) bool {
		began, ok := v.pauses[p.Kind]
		delete(v.pauses, p.Kind)
		switch {
		case err != nil:
			v.add("row_unreadable", p.Target.String(), "%v", err)
		case !ok:
			v.add("pause_disagrees", p.Target.String(), "the row says that it is paused, its events do not")
		case sum != began.Sum:
			v.add("row_edited", p.Target.String(), "its bytes are not those that event %d left", began.Seq)
		}
		return true
	})
	for kind, ev := range v.pauses {
		v.add("pause_disagrees", lease.Target{Kind: kind, All: kind == ""}.String(), "event %d paused it, but there is no row", ev.Seq)
	}
}
