package ledger

import "macbatch/lease"

// rows compares the row of each shard of the pass with its history and adds it to
// its job's counts.
func (v *verifier) rows() {
	v.snap.Shards(v.from, func(s lease.Shard, sum uint64, err error) bool {
		if !v.to.IsZero() && s.ID.Compare(v.to) >= 0 {
			return false
		}
		f := v.folds[s.ID]
		if f != nil {
			f.seen = true
		}
		if v.pruned(s.ID.Job) {
			if _, marked := v.pruning[s.ID.Job]; !marked {
				v.add("prune_disagrees", s.ID.String(), "its job was pruned, and nobody is removing this row")
			}
			return true
		}
		v.count(s.ID)
		switch {
		case err != nil:
			v.add("row_unreadable", s.ID.String(), "%v", err)
		case f == nil:
			v.add("no_creation_event", s.ID.String(), "the row has no events")
		default:
			v.row(&s, f, sum)
			v.result(&s)
			v.counts.add(&s, v.snap.Successor(s.ID) != 0)
			v.supersedes(&s)
		}
		return true
	})
}

// supersedes compares what a shard is of a higher generation of with what is noted.
func (v *verifier) supersedes(s *lease.Shard) {
	for _, old := range s.Supersedes {
		if by := v.snap.Successor(lease.ShardID{Job: s.ID.Job, Seq: old}); by != s.ID.Seq {
			v.add("successor_disagrees", s.ID.String(), "the row supersedes number %d, which is noted to be superseded by %d", old, by)
		}
		v.counts.superseded++
	}
}

func (v *verifier) row(s *lease.Shard, f *fold, sum uint64) {
	id := s.ID.String()
	switch {
	case s.State.Terminal() && f.end == 0:
		v.add("terminal_without_event", id, "the row is %s, its last event is %q", s.State, f.kind)
	case s.State.Terminal() && f.end != s.State:
		v.add("terminal_events_disagree", id, "the row is %s, its events ended it as %s", s.State, f.end)
	case !s.State.Terminal() && f.end != 0:
		v.add("event_without_terminal", id, "the row is %s, its events ended it as %s", s.State, f.end)
	case s.State == lease.Ready && f.granted:
		v.add("ready_after_claim", id, "the row is ready, its last event is a grant")
	case s.State == lease.Leased && !f.granted:
		v.add("leased_without_claim", id, "the row is leased, its last event is %q", f.kind)
	}
	if s.Fence != f.fence {
		v.add("fence_disagrees", id, "the row has fence %v, its last grant %v", s.Fence, f.fence)
	}
	if s.Events != f.n || s.Last != f.last {
		v.add("history_gap", id, "the row counts %d events up to %d, the ledger has %d up to %d", s.Events, s.Last, f.n, f.last)
	}
	if s.Failures != f.failures || s.Lapses != f.lapses {
		v.add("row_edited", id, "the row counts %d failures and %d lapses, its events %d and %d", s.Failures, s.Lapses, f.failures, f.lapses)
	}
	if s.Spent != f.spent || s.Intent.Reserved != f.reserved || (s.Intent.Fence != 0) != f.intends || f.intends && s.Intent.Fence != f.fence {
		v.add("intent_disagrees", id, "the row has %v spent and %v reserved under fence %v, its events %v and %v", s.Spent, s.Intent.Reserved, s.Intent.Fence, f.spent, f.reserved)
	}
	if sum != f.sum {
		v.add("row_edited", id, "its bytes are not those that event %d left", f.last)
	}
}

func (v *verifier) result(s *lease.Shard) {
	if s.State != lease.Done {
		return
	}
	for _, d := range s.Result.Keeps {
		if here, err := v.snap.HasBlob(d); err != nil {
			v.add("result_missing", s.ID.String(), "%v", err)
		} else if !here {
			v.add("result_missing", s.ID.String(), "blob %v, which belongs to it, is not there", d)
		}
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

// recount is a job's counters as its shards add them up.
type recount struct {
	shards      lease.Counts
	old         lease.Counts // of these: superseded
	items, work lease.Progress
	rows        uint64
	next        uint32
	cut         int64  // so many bytes of the input are in shards, without a gap
	numbered    uint32 // items in them
	misnumbered bool   // one of these shards begins with another item
	superseded  int    // by the rows' own word
	reserved    lease.Cost
	spent       lease.Cost
}

// add counts a shard. One that was superseded counts as a shard and no more: items
// and work are those of the newest generation.
func (c *recount) add(s *lease.Shard, superseded bool) {
	*c.shards.Of(s.State)++
	c.reserved, c.spent = c.reserved.Plus(s.Intent.Reserved), c.spent+s.Spent
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

// count begins another job's counts when its first shard comes. Shards come in
// the order of their jobs, over all passes.
func (v *verifier) count(id lease.ShardID) {
	if v.counting != id.Job {
		v.counted()
		v.counting = id.Job
	}
	v.counts.rows++
	v.counts.next = max(v.counts.next, id.Seq+1)
}

// counted compares the job whose shards have all been added up.
func (v *verifier) counted() {
	id, c := v.counting, v.counts
	v.counting, v.counts = 0, recount{next: 1}
	if c.rows == 0 {
		return
	}
	found := false
	v.snap.Jobs(id, func(j lease.Job, next uint32, _ uint64, err error) bool {
		if found = j.ID == id; found && err == nil {
			v.compare(&j, next, &c)
		}
		return false
	})
	if !found {
		v.add("shard_without_job", id.String(), "%d shards, but no job", c.rows)
	}
}

func (v *verifier) compare(j *lease.Job, next uint32, c *recount) {
	id := j.ID.String()
	plans, cut, err := v.snap.Plans(j.ID)
	if err != nil {
		v.add("row_unreadable", id, "%v", err)
	}
	if c.shards != j.Shards || c.old != j.Old || plans != j.Plans || c.next > next || j.Plans == 0 && !j.Canceled && c.next != next {
		v.add("counts_disagree", id, "the job counts %+v, superseded %+v, with %d plans and next shard %d, its shards add up to %+v, %+v, %d and %d", j.Shards, j.Old, j.Plans, next, c.shards, c.old, plans, c.next)
	}
	if whole := j.Plans == 0 && !j.Canceled; whole && c.cut != j.Input.Bytes || c.cut > j.Input.Bytes || c.misnumbered {
		v.add("input_not_covered", id, "its shards hold %d bytes of an input of %d in %d items, or number them otherwise", c.cut, j.Input.Bytes, c.numbered)
	}
	if cut != nil && (cut.Offset != c.cut || cut.Items != c.numbered) {
		v.add("input_not_covered", id, "its shards hold %d bytes and %d items of the input, the mark says %d and %d", c.cut, c.numbered, cut.Offset, cut.Items)
	}
	if n := v.snap.Successors(j.ID); n != c.superseded {
		v.add("successor_disagrees", id, "%d shards are noted to be superseded, %d are", n, c.superseded)
	}
	if c.reserved != j.Cost.Reserved || c.spent != j.Cost.Spent {
		v.add("counts_disagree", id, "the job counts %v reserved and %v spent, its shards add up to %v and %v", j.Cost.Reserved, j.Cost.Spent, c.reserved, c.spent)
	}
	if c.items != j.Items || c.work != j.Work {
		v.add("counts_disagree", id, "the job counts items %+v and work %+v, its shards add up to %+v and %+v", j.Items, j.Work, c.items, c.work)
	}
}

// idle compares the jobs that have no shards at all.
func (v *verifier) idle() {
	v.snap.Jobs(0, func(j lease.Job, next uint32, _ uint64, err error) bool {
		any := false
		v.snap.Shards(lease.ShardID{Job: j.ID}, func(s lease.Shard, _ uint64, _ error) bool {
			any = s.ID.Job == j.ID
			return false
		})
		if !any && err == nil {
			v.compare(&j, next, &recount{next: 1})
		}
		return true
	})
}

// jobRows compares the row of each job of the pass with its own events.
func (v *verifier) jobRows() {
	v.snap.Jobs(v.from.Job, func(j lease.Job, _ uint32, sum uint64, err error) bool {
		own := lease.ShardID{Job: j.ID}
		if !v.to.IsZero() && own.Compare(v.to) >= 0 {
			return false
		}
		if own.Compare(v.from) < 0 {
			return true
		}
		f := v.folds[own]
		if f != nil {
			f.seen = true
		}
		id := j.ID.String()
		switch {
		case err != nil:
			v.add("row_unreadable", id, "%v", err)
		case f == nil:
			v.add("no_creation_event", id, "the job has no events")
		case f.pruned:
			v.add("prune_disagrees", id, "the job was pruned, and is there")
		case sum != f.sum || j.Events != f.n || j.Last != f.last || j.Canceled != f.canceled || j.Pause.IsZero() == f.paused:
			v.add("row_edited", id, "its bytes are not those that event %d left", f.last)
		}
		if err == nil {
			v.input(&j)
			v.key(&j)
			if j.Ended.IsZero() == j.State.Terminal() {
				v.add("end_disagrees", id, "the job is %s, and its end %v", j.State, j.Ended)
			}
		}
		return true
	})
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

// pauseRows compares what is paused beside jobs with the store's own events.
func (v *verifier) pauseRows() {
	v.snap.Pauses(func(p lease.Pause, sum uint64, err error) bool {
		began, ok := v.pauses[p.Target]
		delete(v.pauses, p.Target)
		switch {
		case err != nil:
			v.add("row_unreadable", p.Target.String(), "%v", err)
		case !ok:
			v.add("pause_disagrees", p.Target.String(), "the row says that it is paused, its events do not")
		case sum != began.sum:
			v.add("row_edited", p.Target.String(), "its bytes are not those that event %d left", began.seq)
		}
		return true
	})
	for of, p := range v.pauses {
		v.add("pause_disagrees", of.String(), "event %d paused it, but there is no row", p.seq)
	}
}
