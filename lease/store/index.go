package store

import (
	"container/heap"
	"time"

	"github.com/google/btree"

	"macbatch/lease"
)

// index is what the store keeps in memory to decide fast: derived from the rows
// at start, moved along with them by tx.step. The rows stay the truth: memory
// nominates a shard, its row decides.
type index struct {
	classes  map[lease.Need]*class
	suspects *btree.BTreeG[ticket]          // ready or lapsed, to be leased alone
	leases   map[lease.ShardID]*openLease   // open leases
	lapses   timeHeap                       // when leases may lapse; renewals are looked up when due
	rests    timeHeap                       // when resting shards become ready
	resting  map[lease.ShardID]ticket       //
	waiting  map[lease.ShardID]int          // blocked shards: how many they still wait for
	inputs   map[lease.Digest]int           // blobs: how many open shards need them
	needing  map[lease.JobID]int            // jobs: how many blobs their open shards need
	silent   map[lease.ShardID]int          // open shards: lapses before any heartbeat told that they ran
	workers  map[lease.WorkerID]*workerSeen //
	marks    map[lease.JobID]mark           // jobs whose shards are not to be granted
	stops    stops                          // what else is paused, and until when
	projects map[lease.JobID]lease.Project  // of jobs with open shards
	alone    lease.WorkerID                 // is drained to take a suspect
	offered  bool                           // something became claimable since this was cleared
}

// class holds the shards of one need that may be claimed, first in first out.
type class struct {
	need lease.Need
	jobs *btree.BTreeG[*line]
}

// line is the queue of one job within a class.
type line struct {
	priority int32
	job      lease.JobID
	project  lease.Project
	shards   *btree.BTreeG[ticket]
}

// ticket is a shard's place in the order of grants.
type ticket struct {
	priority int32
	stage    uint8
	suspect  bool // to be leased alone; not part of the order
	item     uint32
	id       lease.ShardID
	need     lease.Need
}

// mark stops a job.
type mark uint8

const (
	markCanceled mark = iota + 1 // its shards are in no queue
	markPaused                   // they keep their places
)

// openLease is the part of a lease that only memory holds.
type openLease struct {
	id       lease.ShardID
	fence    lease.Fence
	holder   lease.Holder
	deadline time.Time
	ran      bool   // a heartbeat reported it running
	work     uint64 // done so far, as last reported
	lapses   uint16 // counted before it
	ticket   ticket
	lapsed   bool // past its deadline, and claimable
}

// workerSeen is a worker since the control plane started.
type workerSeen struct {
	hello   lease.Hello
	actor   lease.ActorID
	seen    time.Time
	claimed time.Time // when it last asked for work
	request uint64    // newest claim
	leases  map[lease.ShardID]*openLease
}

func newIndex() *index {
	return &index{
		classes: map[lease.Need]*class{}, suspects: btree.NewG(32, ticket.before),
		leases: map[lease.ShardID]*openLease{}, resting: map[lease.ShardID]ticket{},
		waiting: map[lease.ShardID]int{}, inputs: map[lease.Digest]int{}, needing: map[lease.JobID]int{}, silent: map[lease.ShardID]int{},
		workers: map[lease.WorkerID]*workerSeen{}, marks: map[lease.JobID]mark{}, stops: newStops(),
		projects: map[lease.JobID]lease.Project{},
	}
}

// before is the order of grants: priority, job, item, later stages first.
func (a ticket) before(b ticket) bool {
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.id.Job != b.id.Job:
		return a.id.Job < b.id.Job
	case a.item != b.item:
		return a.item < b.item
	case a.stage != b.stage:
		return a.stage > b.stage
	}
	return a.id.Seq < b.id.Seq
}

func (a *line) before(b *line) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.job < b.job
}

func ticketOf(s *lease.Shard) ticket {
	return ticket{priority: s.Priority, stage: s.Stage, suspect: s.Suspect(), item: s.Item, id: s.ID, need: s.Need}
}

// offer makes a shard claimable.
func (x *index) offer(t ticket) {
	x.offered = true
	if t.suspect {
		x.suspects.ReplaceOrInsert(t)
		return
	}
	c := x.classes[t.need]
	if c == nil {
		c = &class{need: t.need, jobs: btree.NewG(32, (*line).before)}
		x.classes[t.need] = c
	}
	l, ok := c.jobs.Get(&line{priority: t.priority, job: t.id.Job})
	if !ok {
		l = &line{priority: t.priority, job: t.id.Job, project: x.projects[t.id.Job], shards: btree.NewG(32, ticket.before)}
		c.jobs.ReplaceOrInsert(l)
	}
	l.shards.ReplaceOrInsert(t)
}

// withdraw makes a shard no longer claimable, if it was.
func (x *index) withdraw(t ticket) {
	x.suspects.Delete(t)
	delete(x.resting, t.id)
	c := x.classes[t.need]
	if c == nil {
		return
	}
	if l, ok := c.jobs.Get(&line{priority: t.priority, job: t.id.Job}); ok {
		if _, _ = l.shards.Delete(t); l.shards.Len() == 0 {
			c.jobs.Delete(l)
		}
	}
	if c.jobs.Len() == 0 {
		delete(x.classes, t.need)
	}
}

// drop withdraws all shards of a job at once.
func (x *index) drop(j *jobRow) {
	for need, c := range x.classes {
		c.jobs.Delete(&line{priority: j.Priority, job: j.ID})
		if c.jobs.Len() == 0 {
			delete(x.classes, need)
		}
	}
	var suspects []ticket
	x.suspects.Ascend(func(t ticket) bool {
		if t.id.Job == j.ID {
			suspects = append(suspects, t)
		}
		return true
	})
	for _, t := range suspects {
		x.suspects.Delete(t)
	}
}

// moved follows a shard from one state to the next and returns the blobs that
// no open shard needs any longer. It also takes in a row at start (was == 0).
func (x *index) moved(s *lease.Shard, was lease.State, now time.Time) (gone []lease.Digest) {
	t := ticketOf(s)
	if was == 0 && !s.State.Terminal() {
		x.projects[s.ID.Job] = s.Project
	}
	if l := x.leases[s.ID]; l != nil {
		x.close(l)
	}
	if was == lease.Ready {
		x.withdraw(t)
	}
	delete(x.waiting, s.ID)
	switch s.State {
	case lease.Blocked:
		x.waiting[s.ID] = len(s.After)
	case lease.Ready:
		if s.Delay > 0 {
			x.resting[s.ID] = t
			heap.Push(&x.rests, due{now.Add(s.Delay), s.ID, 0})
		} else if x.marks[s.ID.Job] != markCanceled {
			x.offer(t)
		}
	case lease.Leased:
		x.open(s)
	case lease.Done, lease.Failed, lease.Canceled:
		delete(x.silent, s.ID)
		if was == 0 {
			return nil
		}
		if n := x.needing[s.ID.Job] - len(s.Inputs); n > 0 {
			x.needing[s.ID.Job] = n
		} else if len(s.Inputs) > 0 {
			delete(x.needing, s.ID.Job)
			x.offered = true // its bulky work may go on
		}
		for _, d := range s.Inputs {
			if x.inputs[d]--; x.inputs[d] <= 0 {
				delete(x.inputs, d)
				gone = append(gone, d)
				x.offered = true // bulky work may go on
			}
		}
		return gone
	}
	if was == 0 && len(s.Inputs) > 0 {
		x.needing[s.ID.Job] += len(s.Inputs)
		for _, d := range s.Inputs {
			x.inputs[d]++
		}
	}
	return nil
}

func (x *index) open(s *lease.Shard) {
	l := &openLease{id: s.ID, fence: s.Fence, holder: s.Holder, deadline: s.Deadline, lapses: s.Lapses, ticket: ticketOf(s)}
	x.leases[s.ID] = l
	heap.Push(&x.lapses, due{l.deadline, l.id, l.fence})
	if w := x.workers[s.Holder.Worker]; w != nil {
		w.leases[s.ID] = l
	}
}

func (x *index) close(l *openLease) {
	delete(x.leases, l.id)
	if w := x.workers[l.holder.Worker]; w != nil {
		delete(w.leases, l.id)
	}
	if l.lapsed {
		x.withdraw(l.ticket)
	}
}

// counts reports whether the lapse of a lease counts: when its shard was told to
// run, or when it lapsed too often for chance before that could be told.
func (x *index) counts(l *openLease) bool {
	return l.ran || x.silent[l.id] >= 2*lease.SuspectLapses
}

// lapse tells whether a lease that ends by silence counts, and keeps count of those that don't.
func (x *index) lapse(l *openLease) bool {
	count := x.counts(l)
	if !l.ran {
		x.silent[l.id]++
	}
	return count
}

// renew gives a lease a new deadline; a lapsed one is no longer claimable.
func (x *index) renew(l *openLease, deadline time.Time) {
	l.deadline = deadline
	if l.lapsed {
		x.withdraw(l.ticket)
		l.lapsed = false
		heap.Push(&x.lapses, due{l.deadline, l.id, l.fence})
	}
}

// lessWaiting tells that one shard that id waits for is done; true: it was the last.
func (x *index) lessWaiting(id lease.ShardID) bool {
	n, ok := x.waiting[id]
	if ok {
		x.waiting[id] = n - 1
	}
	return ok && n == 1
}

// worker returns what is known of a worker, made from its open leases when new.
func (x *index) worker(id lease.WorkerID) *workerSeen {
	w := x.workers[id]
	if w == nil {
		w = &workerSeen{leases: map[lease.ShardID]*openLease{}}
		for _, l := range x.leases {
			if l.holder.Worker == id {
				w.leases[l.id] = l
			}
		}
		x.workers[id] = w
	}
	return w
}

// due is a moment at which something about a shard may change.
type due struct {
	at    time.Time
	id    lease.ShardID
	fence lease.Fence
}

type timeHeap []due

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(v any)        { *h = append(*h, v.(due)) }
func (h *timeHeap) Pop() any {
	old := *h
	v := old[len(old)-1]
	*h = old[:len(old)-1]
	return v
}
