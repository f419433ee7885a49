package store

import (
	"container/heap"
	"slices"
	"time"

	"github.com/google/btree"

	"macbatch/lease"
)

// index is what the store keeps in memory to decide fast: derived from the rows
// at start, moved along with them by tx.step. The rows stay the truth: memory
// nominates a shard, its row decides.
type index struct {
	jobs     map[lease.JobID]*openJob       // jobs with open shards
	lines    map[lineKey]*line              // their queues
	latest   *line                          // of lines, the one that was asked for last
	classes  map[classKey]*class            // what may be claimed
	suspects *btree.BTreeG[ticket]          // ready or lapsed, to be leased alone
	leases   map[lease.ShardID]*openLease   // open leases
	lapses   timeHeap                       // when leases may lapse; renewals are looked up when due
	rests    timeHeap                       // when resting shards become ready
	resting  map[lease.ShardID]ticket       //
	making   map[lease.Digest]*openLease    // what is being worked on, by the identity of the work
	aside    map[lease.ShardID]ticket       // ready shards whose twin is being worked on
	waiting  map[lease.ShardID]int          // blocked shards: how many they still wait for
	inputs   map[lease.Digest]int           // blobs: how many open shards need them
	present  map[lease.Digest]int64         // blobs that are here, and their sizes: the store's own
	backlog  int64                          // bytes of the blobs here that open shards need
	needing  map[lease.JobID]int            // jobs: how many blobs their open shards need
	silent   map[lease.ShardID]int          // open shards: lapses before any heartbeat told that they ran
	workers  map[lease.WorkerID]*workerSeen //
	marks    map[lease.JobID]mark           // jobs whose shards are not to be granted
	stops    stops                          // what else is paused, and until when
	partial  map[lease.JobID]bool           // jobs whose input is still being cut: nothing of them is granted
	lists    map[lease.Digest]int           // blobs: how many jobs have them as their input
	alone    lease.WorkerID                 // is drained to take a suspect
	offered  bool                           // something became claimable since this was cleared
	offers   uint64                         // rises when something becomes claimable, or stops to be for a mark

	spareSlots *btree.FreeListG[slot] // nodes of trees, shared by all lines
	spareLines *btree.FreeListG[*line]
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
	ran      bool      // a heartbeat reported it running
	work     uint64    // done so far, as last reported
	signs    uint64    // of progress, as last reported
	size     uint64    // of all its work
	moved    time.Time // when a heartbeat told last of progress, or that it did not run; zero: none did yet
	lapses   uint16    // counted before it
	ticket   ticket
	lapsed   bool            // past its deadline, and claimable unless it intends to spend
	spends   bool            // there is an intent
	asks     asks            // for more than its intent, in vain
	key      lease.Digest    // identity of the work; zero: it has none
	twins    []lease.ShardID // set aside until it ends
}

// workerSeen is a worker since the control plane started.
type workerSeen struct {
	hello   lease.Hello
	facts   lease.Facts
	actor   lease.ActorID
	seen    time.Time
	claimed time.Time   // when it last asked for work
	request uint64      // newest claim
	job     lease.JobID // that its newest claim was bound to; 0: to none
	leases  map[lease.ShardID]*openLease

	paces     []lease.Pace       // as of its newest claim
	waits     *lease.Exchange    // waits for work; nil: none of it does
	promised  int                // shards that others were asked to give back, since it last claimed
	withdrawn []lease.Withdrawal // as its last heartbeat said
	told      time.Time          // when
}

func newIndex(present map[lease.Digest]int64) *index {
	return &index{
		jobs: map[lease.JobID]*openJob{}, lines: map[lineKey]*line{}, classes: map[classKey]*class{}, suspects: btree.NewG(32, ticket.before),
		leases: map[lease.ShardID]*openLease{}, resting: map[lease.ShardID]ticket{}, present: present,
		making: map[lease.Digest]*openLease{}, aside: map[lease.ShardID]ticket{},
		waiting: map[lease.ShardID]int{}, inputs: map[lease.Digest]int{}, needing: map[lease.JobID]int{}, silent: map[lease.ShardID]int{},
		workers: map[lease.WorkerID]*workerSeen{}, marks: map[lease.JobID]mark{}, stops: newStops(),
		partial: map[lease.JobID]bool{}, lists: map[lease.Digest]int{},
		spareSlots: btree.NewFreeListG[slot](64), spareLines: btree.NewFreeListG[*line](64),
	}
}

// moved follows a shard from one state to the next and returns the blobs that
// no open shard needs any longer. It also takes in a row at start (was == 0).
func (x *index) moved(s *lease.Shard, was lease.State, now time.Time) (gone []lease.Digest) {
	if was == 0 {
		if s.State.Terminal() {
			return nil
		}
		x.opened(s)
	}
	if l := x.leases[s.ID]; l != nil && s.State == lease.Leased && l.fence == s.Fence {
		l.spends = s.Intent.Fence != 0
		return nil
	} else if l != nil {
		x.close(l)
	}
	if was == lease.Ready {
		x.withdraw(x.ticketOf(s))
	}
	delete(x.waiting, s.ID)
	switch s.State {
	case lease.Blocked:
		x.waiting[s.ID] = len(s.After)
	case lease.Ready:
		if s.Delay > 0 {
			x.resting[s.ID] = x.ticketOf(s)
			heap.Push(&x.rests, due{now.Add(s.Delay), s.ID, 0})
		} else {
			x.offer(x.ticketOf(s))
		}
	case lease.Leased:
		x.open(s)
	case lease.Done, lease.Failed, lease.Canceled:
		delete(x.silent, s.ID)
		x.settled(s.ID.Job, s.Work)
		return x.needless(s)
	}
	return nil
}

// opened takes in a shard that is new, or was open already at start.
func (x *index) opened(s *lease.Shard) {
	j := x.jobs[s.ID.Job]
	if j == nil {
		j = &openJob{project: s.Project}
		x.jobs[s.ID.Job] = j
	}
	j.open++
	j.left += s.Work
	if len(s.Inputs) == 0 {
		return
	}
	x.needing[s.ID.Job] += len(s.Inputs)
	for _, d := range s.Inputs {
		if x.inputs[d]++; x.inputs[d] == 1 {
			x.backlog += x.present[d]
		}
	}
}

// needless returns the blobs that nobody needs any longer once s has ended.
func (x *index) needless(s *lease.Shard) (gone []lease.Digest) {
	if len(s.Inputs) == 0 {
		return nil
	}
	if n := x.needing[s.ID.Job] - len(s.Inputs); n > 0 {
		x.needing[s.ID.Job] = n
	} else {
		delete(x.needing, s.ID.Job)
		x.offered = true // its bulky work may go on
		x.offers++
	}
	for _, d := range s.Inputs {
		if x.inputs[d]--; x.inputs[d] <= 0 {
			delete(x.inputs, d)
			x.backlog -= x.present[d]
			gone = append(gone, d)
			x.offered = true // bulky work may go on
		}
	}
	return gone
}

// arrived notes a blob that is here now, and left one that is no longer.
func (x *index) arrived(d lease.Digest, size int64) {
	if x.inputs[d] > 0 {
		x.backlog += size - x.present[d]
	}
	x.present[d] = size
}

func (x *index) left(d lease.Digest) {
	if x.inputs[d] > 0 {
		x.backlog -= x.present[d]
	}
	delete(x.present, d)
}

func (x *index) open(s *lease.Shard) {
	l := &openLease{id: s.ID, fence: s.Fence, holder: s.Holder, deadline: s.Deadline, size: s.Work, lapses: s.Lapses, spends: s.Intent.Fence != 0, ticket: x.ticketOf(s)}
	x.leases[s.ID] = l
	x.watch(l)
	x.worker(s.Holder.Worker).leases[s.ID] = l
}

// watch looks at a lease again at its deadline. Leases mostly end long before, so
// that the heap is cleared of those that did once they are the most of it.
func (x *index) watch(l *openLease) {
	if len(x.lapses) > 1024 && len(x.lapses) > 2*len(x.leases) {
		x.lapses = slices.DeleteFunc(x.lapses, func(d due) bool {
			l := x.leases[d.id]
			return l == nil || l.fence != d.fence || l.lapsed
		})
		heap.Init(&x.lapses)
	}
	heap.Push(&x.lapses, due{l.deadline, l.id, l.fence})
}

func (x *index) close(l *openLease) {
	delete(x.leases, l.id)
	x.progress(l, 0)
	w := x.workers[l.holder.Worker]
	if delete(w.leases, l.id); len(w.leases) == 0 && w.seen.IsZero() {
		delete(x.workers, l.holder.Worker)
	}
	if l.lapsed {
		x.withdraw(l.ticket)
	}
	x.unmake(l)
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
		x.watch(l)
	}
}

// progress notes how much of its work a lease reports to have done.
func (x *index) progress(l *openLease, work uint64) {
	x.jobs[l.id.Job].running += work - l.work
	l.work = work
}

// lessWaiting tells that one shard that id waits for is done; true: it was the last.
func (x *index) lessWaiting(id lease.ShardID) bool {
	n, ok := x.waiting[id]
	if ok {
		x.waiting[id] = n - 1
	}
	return ok && n == 1
}

// worker returns what is known of a worker: its open leases, if it never spoke.
func (x *index) worker(id lease.WorkerID) *workerSeen {
	w := x.workers[id]
	if w == nil {
		w = &workerSeen{leases: map[lease.ShardID]*openLease{}}
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
