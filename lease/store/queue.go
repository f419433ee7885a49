package store

import (
	"time"

	"github.com/google/btree"

	"macbatch/lease"
)

// classKey is what decides who may be granted a shard: its need and its project.
type classKey struct {
	need    lease.Need
	project lease.Project
}

// class holds the shards of one need in one project that may be claimed, first
// in first out.
type class struct {
	classKey
	lines *btree.BTreeG[*line] // those that have shards, of jobs that are not stopped
	first *line                // of them

	passed time.Time // since when its oldest shard is passed by those of loaded models; zero: it is not
}

// line is the queue of one job within a class. A shard that waits there costs its
// slot and no more: what the shards of a line share stands here once.
type line struct {
	classKey
	priority int32
	job      lease.JobID
	hidden   bool // its job is stopped
	largest  size // of all shards it ever had
	slots    *btree.BTreeG[slot]
	oldest   slot   // of them, at hand: a claim looks at that of each class
	class    *class // that it is in; nil: it is in none

	left  slot      // the oldest shard, when it is left to faster workers
	until time.Time // and for how long
}

// slot is a shard's place in its line.
type slot struct {
	item  uint32
	seq   uint32
	stage uint8
	size  size // not part of the order
}

// ticket is a shard's place in the order of grants.
type ticket struct {
	line *line
	slot
	suspect bool // to be leased alone; not part of the order
}

// openJob is a job with open shards.
type openJob struct {
	project lease.Project
	open    int    // shards that are not terminal
	left    uint64 // their work
	running uint64 // work that its open leases report to have done
	lines   []*line
}

// project is that of a job with open shards.
func (x *index) project(id lease.JobID) lease.Project {
	if j := x.jobs[id]; j != nil {
		return j.project
	}
	return ""
}

// lineKey finds a line.
type lineKey struct {
	job  lease.JobID
	need lease.Need
}

func (t ticket) id() lease.ShardID { return lease.ShardID{Job: t.line.job, Seq: t.seq} }

// before is the order within a line: by item, later stages first.
func (a slot) before(b slot) bool {
	switch {
	case a.item != b.item:
		return a.item < b.item
	case a.stage != b.stage:
		return a.stage > b.stage
	}
	return a.seq < b.seq
}

// before is the order of lines: priority, then first in first out.
func (l *line) before(o *line) bool {
	if l.priority != o.priority {
		return l.priority > o.priority
	}
	return l.job < o.job
}

// before is the order of grants.
func (t ticket) before(o ticket) bool {
	if t.line.priority == o.line.priority && t.line.job == o.line.job {
		return t.slot.before(o.slot)
	}
	return t.line.before(o.line)
}

// ticketOf returns the place of a shard that is open.
func (x *index) ticketOf(s *lease.Shard) ticket {
	return ticket{x.line(s), slot{s.Item, s.ID.Seq, s.Stage, sizeOf(s.Work)}, s.Suspect()}
}

// line returns the line of an open shard, made when there is none.
func (x *index) line(s *lease.Shard) *line {
	if l := x.latest; l != nil && l.job == s.ID.Job && l.need == s.Need {
		return l // it is mostly so, and finding one by its need costs more
	}
	key := lineKey{s.ID.Job, s.Need}
	l := x.lines[key]
	if l == nil {
		j := x.jobs[s.ID.Job]
		l = &line{
			classKey: classKey{s.Need, j.project}, priority: s.Priority, job: s.ID.Job,
			hidden: x.marks[s.ID.Job] != 0 || x.partial[s.ID.Job], slots: btree.NewWithFreeListG(32, slot.before, x.spareSlots),
		}
		x.lines[key] = l
		j.lines = append(j.lines, l)
	}
	x.latest = l
	return l
}

// offer makes a shard claimable.
func (x *index) offer(t ticket) {
	if !t.line.hidden {
		x.offered = true
	}
	x.offers++
	if t.suspect {
		x.suspects.ReplaceOrInsert(t)
		return
	}
	t.line.largest = max(t.line.largest, t.size)
	l := t.line
	l.slots.ReplaceOrInsert(t.slot)
	l.oldest, _ = l.slots.Min()
	if l.slots.Len() == 1 && !l.hidden {
		x.join(l)
	}
}

// withdraw makes a shard no longer claimable, if it was.
func (x *index) withdraw(t ticket) {
	if x.suspects.Len() > 0 {
		x.suspects.Delete(t)
	}
	delete(x.resting, t.id())
	delete(x.aside, t.id())
	l := t.line
	if _, had := l.slots.Delete(t.slot); !had {
		return
	}
	l.oldest, _ = l.slots.Min()
	if l.slots.Len() == 0 && !l.hidden {
		x.leave(l)
	}
}

// join puts a line into its class.
func (x *index) join(l *line) {
	c := x.classes[l.classKey]
	if c == nil {
		c = &class{classKey: l.classKey, lines: btree.NewWithFreeListG(32, (*line).before, x.spareLines)}
		x.classes[l.classKey] = c
	}
	c.lines.ReplaceOrInsert(l)
	c.first, _ = c.lines.Min()
	l.class = c
}

// leave takes a line out of its class.
func (x *index) leave(l *line) {
	c := l.class
	c.lines.Delete(l)
	if c.first, _ = c.lines.Min(); c.first == nil {
		delete(x.classes, l.classKey)
	}
	l.class = nil
}

// stop withholds all shards of a job at once, as a mark says.
func (x *index) stop(id lease.JobID, m mark) {
	x.marks[id] = m
	x.hide(id)
}

// resume offers again what stop withheld.
func (x *index) resume(id lease.JobID) {
	delete(x.marks, id)
	if !x.partial[id] {
		x.show(id)
	}
}

// hold withholds all shards of a job until it is whole.
func (x *index) hold(id lease.JobID) {
	x.partial[id] = true
	x.hide(id)
}

// whole offers what hold withheld.
func (x *index) whole(id lease.JobID) {
	delete(x.partial, id)
	if x.marks[id] == 0 {
		x.show(id)
	}
}

func (x *index) hide(id lease.JobID) {
	x.offers++
	j := x.jobs[id]
	if j == nil {
		return
	}
	for _, l := range j.lines {
		if !l.hidden && l.slots.Len() > 0 {
			x.leave(l)
		}
		l.hidden = true
	}
}

func (x *index) show(id lease.JobID) {
	x.offers++
	x.offered = true
	j := x.jobs[id]
	if j == nil {
		return
	}
	for _, l := range j.lines {
		if l.hidden && l.slots.Len() > 0 {
			x.join(l)
		}
		l.hidden = false
	}
}

// settled forgets a job whose last open shard has ended.
func (x *index) settled(id lease.JobID, work uint64) {
	j := x.jobs[id]
	j.left -= work
	if j.open--; j.open > 0 {
		return
	}
	for _, l := range j.lines {
		delete(x.lines, lineKey{l.job, l.need})
	}
	delete(x.jobs, id)
	if x.latest != nil && x.latest.job == id {
		x.latest = nil
	}
}
