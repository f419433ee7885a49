package store

import (
	"bytes"
	"fmt"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// group is what the commands of one commit write together.
type group struct {
	w      kv.Writer
	writes *overlay
	rows   *arena // and keys, as bytes
	head   head
	record encoder // the events
	first  uint64  // sequence of the first of them
	trim   uint64  // ledger records before it go
}

// room is what a group needs while it is made and committed, kept for the next one.
type room struct {
	writes *overlay
	rows   arena
	record []byte
}

// maxRoom bounds, in keys and in bytes of events, what is kept.
const (
	maxRoom   = 16 << 10
	maxRecord = 1 << 20
)

func newGroup(w kv.Writer, h head, r *room) *group {
	if r.writes == nil {
		r.writes = newOverlay()
	}
	return &group{w: w, writes: r.writes, rows: &r.rows, head: h, record: encoder{r.record}, first: h.Seq + 1}
}

// end gives the room back. The engine must be done with what was written.
func (g *group) end(r *room) {
	r.record = nil
	if cap(g.record.b) <= maxRecord {
		r.record = g.record.b[:0]
	}
	if g.writes.len() > maxRoom {
		r.writes = nil
	} else {
		r.writes.clear()
	}
	r.rows.clear()
}

func (g *group) get(key []byte) []byte {
	if v, ok := g.writes.get(key); ok {
		return v
	}
	return g.w.Get(key)
}

// flush hands everything to the engine, in key order.
func (g *group) flush() error {
	g.head.Commits++
	if len(g.record.b) > 0 {
		g.head.Chain = chain(g.head.Chain, g.first, g.record.b)
		g.record.b = append(g.record.b, g.head.Chain[:]...)
		if err := g.w.Append(g.first, g.record.b); err != nil {
			return err
		}
	}
	if g.trim > 0 {
		if err := g.w.Trim(g.trim); err != nil {
			return err
		}
	}
	g.writes.put([]byte{keyHead}, encodeHead(&g.head))
	return g.writes.each(g.rows, func(key, value []byte) error {
		if value == nil {
			return g.w.Delete(key)
		}
		return g.w.Put(key, value)
	})
}

// tx is one command's view: it reads through its group and writes into an
// overlay of its own, so that a command that fails leaves nothing behind.
type tx struct {
	s      *Store
	g      *group
	now    time.Time
	head   head
	jobs   map[lease.JobID]*jobRow
	latest *jobRow // of jobs, the one that was asked for last
	shards map[lease.ShardID]*shardTx
	dirty  []*shardTx           // in the order they were first changed
	marked map[lease.JobID]bool // jobs with changes
	writes *overlay
	events []lease.Event
	gone   []lease.Digest // blobs that no open shard needs any longer
	fault  error          // of the store itself: the command must not be sealed
	unused []*shardTx     // zero, for newShard
}

// shardTx is a shard as this command sees it.
type shardTx struct {
	lease.Shard
	changed bool
	event   int // index of its newest event
}

func (g *group) begin(s *Store, now time.Time) *tx {
	t := s.spare
	s.spare = nil
	if t == nil {
		t = &tx{
			jobs: map[lease.JobID]*jobRow{}, shards: map[lease.ShardID]*shardTx{},
			marked: map[lease.JobID]bool{}, writes: newOverlay(),
		}
	}
	t.s, t.g, t.now, t.head, t.gone, t.fault = s, g, now, g.head, nil, nil
	return t
}

// maxSpare bounds, in shards, what is kept of one command for the next.
const maxSpare = 2 * lease.MaxGrants

// end gives what the command used to the next one. Nothing of it may be in use.
func (t *tx) end() {
	if len(t.shards) > maxSpare || len(t.events) > maxSpare || t.writes.len() > maxSpare {
		return
	}
	for _, sh := range t.shards {
		if len(t.unused) == maxSpare {
			break
		}
		*sh = shardTx{}
		t.unused = append(t.unused, sh)
	}
	clear(t.jobs)
	t.latest = nil
	clear(t.shards)
	clear(t.marked)
	t.writes.clear()
	clear(t.dirty)
	clear(t.events)
	t.dirty, t.events, t.g = t.dirty[:0], t.events[:0], nil
	t.s.spare = t
}

// newShard returns a zero shard of this command.
func (t *tx) newShard() *shardTx {
	last := len(t.unused) - 1
	if last < 0 {
		return &shardTx{}
	}
	sh := t.unused[last]
	t.unused = t.unused[:last]
	return sh
}

func (t *tx) get(key []byte) []byte {
	if v, ok := t.writes.get(key); ok {
		return v
	}
	return t.g.get(key)
}

func (t *tx) put(key, value []byte) { t.writes.put(key, value) }

// index is put, or remove when value is nil, for an entry that the head counts.
func (t *tx) index(n *entries, key, value []byte) {
	n.replace(key, t.get(key), value)
	t.put(key, value)
}

func (t *tx) remove(key []byte) { t.writes.put(key, nil) }

// job loads a job; ErrNotFound when there is none.
func (t *tx) job(id lease.JobID) (*jobRow, error) {
	if t.latest != nil && t.latest.ID == id {
		return t.latest, nil
	}
	if j := t.jobs[id]; j != nil {
		t.latest = j
		return j, nil
	}
	b := t.get(jobKey(keyJob, id))
	if b == nil {
		return nil, fmt.Errorf("job %v: %w", id, lease.ErrNotFound)
	}
	j, _, err := decodeJob(id, b)
	if err != nil {
		return nil, err
	}
	t.jobs[id] = j
	return j, nil
}

// shard loads a shard with the deadline of its open lease; ErrNotFound when there
// is none. Its payload is the engine's own: it must not outlive the transaction.
func (t *tx) shard(id lease.ShardID) (*shardTx, error) {
	return t.shardAs(id, nil, nil)
}

// shardAs is shard for one that was read before the transaction: where the row's
// bytes are still raw, row is what they say.
func (t *tx) shardAs(id lease.ShardID, raw []byte, row *lease.Shard) (*shardTx, error) {
	if sh := t.shards[id]; sh != nil {
		return sh, nil
	}
	b := t.get(shardKey(keyShard, id))
	if b == nil {
		return nil, fmt.Errorf("shard %v: %w", id, lease.ErrNotFound)
	}
	sh := t.newShard()
	if row != nil && bytes.Equal(raw, b) {
		sh.Shard = *row
	} else if err := readShard(&sh.Shard, id, b, t.s.names); err != nil {
		return nil, err
	}
	j, err := t.job(id.Job)
	if err != nil {
		return nil, err
	}
	sh.Project, sh.Priority = j.Project, j.Priority
	if l := t.s.index.leases[id]; l != nil {
		sh.Deadline = l.deadline
	}
	t.shards[id] = sh
	return sh, nil
}

// step runs a command on a shard: row, events, counts and index move together.
func (t *tx) step(sh *shardTx, c lease.Command) error {
	j, err := t.job(sh.ID.Job)
	if err != nil {
		return err
	}
	next, events, err := lease.Step(sh.Shard, c, t.now)
	if err != nil {
		return err
	}
	was := sh.State
	if next.Spent != sh.Spent || next.Intent != sh.Intent {
		j.Cost.Spent = j.Cost.Spent - sh.Spent + next.Spent
		j.Cost.Reserved = j.Cost.Reserved - sh.Intent.Reserved + next.Intent.Reserved
		t.marked[j.ID] = true
	}
	t.carry(sh)
	next.Events, next.Last = sh.Events, sh.Last
	sh.Shard = next
	for _, ev := range events {
		ev.Job, ev.Shard = sh.ID.Job, sh.ID.Seq
		ev.N, ev.Prev = sh.Events+1, sh.Last
		sh.event = t.append(ev)
		sh.Events, sh.Last = ev.N, t.events[sh.event].Seq
	}
	if was != sh.State {
		if was != 0 {
			*j.Shards.Of(was)--
		}
		*j.Shards.Of(sh.State)++
		t.marked[j.ID] = true
	}
	if !sh.changed {
		sh.changed = true
		t.dirty = append(t.dirty, sh)
	}
	t.gone = append(t.gone, t.s.index.moved(&sh.Shard, was, t.now)...)
	return nil
}

// append adds an event to the ledger and returns its index in the command.
func (t *tx) append(ev lease.Event) int {
	ev.At = t.now
	t.head.Seq++
	ev.Seq = t.head.Seq
	t.events = append(t.events, ev)
	return len(t.events) - 1
}

// tell adds an event of the job itself.
func (t *tx) tell(j *jobRow, ev lease.Event) {
	t.carryJob(j)
	ev.Job, ev.N, ev.Prev = j.ID, j.Events+1, j.Last
	i := t.append(ev)
	j.Events, j.Last = ev.N, t.events[i].Seq
	t.marked[j.ID] = true
	// Its sum is filled in by seal: the newest event of the job is the one whose
	// sequence the row names.
}

// tellStore adds an event of the store itself.
func (t *tx) tellStore(ev lease.Event) {
	ev.N, ev.Prev = t.head.Events+1, t.head.Last
	i := t.append(ev)
	t.head.Events, t.head.Last = ev.N, t.events[i].Seq
}

// settle counts what a shard's end means for its job, and what waited for it.
func (t *tx) settle(sh *shardTx) error {
	j, err := t.job(sh.ID.Job)
	if err != nil {
		return err
	}
	t.marked[j.ID] = true
	switch {
	case sh.Planned > 0: // its items and its size live on in its successors
		j.Work.Total -= sh.Work
	case sh.State == lease.Done:
		j.Items.Done += uint64(sh.Settles - sh.Result.Failed)
		j.Items.Failed += uint64(sh.Result.Failed)
		j.Work.Done += sh.Work
	case sh.State == lease.Failed:
		j.Items.Failed += uint64(sh.Settles)
		j.Work.Failed += sh.Work
	}
	for _, seq := range sh.Next {
		next, err := t.shard(lease.ShardID{Job: sh.ID.Job, Seq: seq})
		if isNotFound(err) {
			continue // its page is still to come, and will look
		}
		if err != nil {
			return err
		}
		if next.State != lease.Blocked {
			continue
		}
		if sh.State != lease.Done {
			if err := t.depend(next, sh); err != nil {
				return err
			}
		} else if t.s.index.lessWaiting(next.ID) {
			if err := t.step(next, lease.Unblock{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// depend ends a shard that waits for one that will never be done.
func (t *tx) depend(sh, on *shardTx) error {
	reason := fmt.Sprintf("%s shard %v %v: %s", on.Need.Kind, on.ID, on.State, on.Reason)
	if err := t.step(sh, lease.Depend{Reason: clip(reason)}); err != nil {
		return err
	}
	return t.settle(sh)
}

// seal encodes what changed into the group. After it the command is part of the commit.
func (t *tx) seal() {
	t.renew()
	for _, sh := range t.dirty {
		// Key and row in one piece, as they are summed.
		b := appendShard(appendShardKey(t.g.rows.room(shardBytes(&sh.Shard)), keyShard, sh.ID), &sh.Shard)
		b = t.g.rows.take(b)
		t.events[sh.event].Sum = sumOf(b)
		t.g.writes.put(b[:shardKeyBytes], b[shardKeyBytes:])
	}
	for id := range t.marked {
		j := t.jobs[id]
		if !j.Derive().Terminal() {
			j.Ended = time.Time{}
		} else if j.Ended.IsZero() {
			j.Ended = t.stamp()
		}
		key := jobKey(keyJob, id)
		row, fixed := encodeJob(j)
		if i := int(int64(j.Last) - int64(t.g.head.Seq) - 1); i >= 0 && i < len(t.events) {
			t.events[i].Sum = sum(key, row[:fixed])
		}
		t.g.writes.put(key, row)
	}
	t.g.writes.add(t.writes)
	for i := range t.events {
		encodeEvent(&t.g.record, &t.events[i])
	}
	t.g.head = t.head
}

// renew tells the rows of jobs that are written in this version's form for the
// first time without an event of their own: their sums were of a former one.
func (t *tx) renew() {
	for id := range t.marked {
		j := t.jobs[id]
		if !j.former || j.Last > t.g.head.Seq {
			continue
		}
		j.former = false
		i := t.append(lease.Event{Kind: lease.EventCarried, Job: id, N: j.Events + 1, Prev: j.Last})
		j.Events, j.Last = t.events[i].N, t.events[i].Seq
		row, fixed := encodeJob(j)
		t.events[i].Row = row[:fixed]
		if t.head.Cut > 0 {
			t.head.Carried++
		}
	}
}

// wrote reports whether the command changes anything.
func (t *tx) wrote() bool {
	return len(t.dirty) > 0 || len(t.marked) > 0 || t.writes.len() > 0 || len(t.events) > 0
}

// clip bounds a reason.
func clip(s string) string {
	if len(s) <= lease.MaxReason {
		return s
	}
	return s[:lease.MaxReason-3] + "..."
}
