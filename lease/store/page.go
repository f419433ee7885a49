package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// page is work that follows a decision in commits of bounded size: the shards of
// a canceled job, or those of a plan.
type page struct {
	job  lease.JobID
	plan lease.ShardID // whose result plans them; number 0: the job's input; zero: cancel
	next uint32        // cancel: the first number not yet looked at
	all  lease.Plan    // of a result, once it is known: it is not planned anew for each page
}

// maxPlan is how many shards an accepted result may plan in its own commit.
const maxPlan = 256

// nextPage is the command that writes one more page, or nil when none is due.
// What it needs to read is read before its transaction.
func (s *Store) nextPage() *command {
	s.mu.Lock()
	if s.rest {
		s.rest = false
		s.mu.Unlock()
		return nil
	}
	if len(s.paging) == 0 {
		s.mu.Unlock()
		return s.nextCare()
	}
	p := s.paging[0]
	s.mu.Unlock()
	c := &command{done: make(chan error, 1)}
	if p.plan.IsZero() {
		c.run, c.frees = func(t *tx) error { return t.cancelPage(p) }, true
		return c
	}
	var err error
	var plan lease.Plan
	var next place
	switch {
	case p.plan.Seq == 0:
		plan, next, err = s.cut(p.job)
	case p.all == nil:
		p.all, err = s.planOf(p.plan)
	}
	if errors.Is(err, errUnread) {
		s.log.Warn("plan shards, later again", "shard", p.plan.String(), "error", err)
		s.mu.Lock()
		s.rest = true
		s.mu.Unlock()
		return nil
	}
	c.run = func(t *tx) error {
		if err != nil {
			// It was valid when it was accepted; it is gone or damaged now.
			s.log.Error("plan shards", "shard", p.plan.String(), "error", err)
			return t.dropPlan(p, err)
		}
		if p.plan.Seq == 0 {
			return t.listPage(p, plan, next)
		}
		return t.planPage(p, p.all)
	}
	return c
}

// planning reports whether a result's plan, whose shards may need blobs, is being
// added in pages. s.mu is held.
func (s *Store) planning() bool {
	return slices.ContainsFunc(s.paging, func(p *page) bool { return p.plan.Seq != 0 })
}

func (t *tx) pageDone() { t.s.paging = t.s.paging[1:] }

// pageNext leaves a page's rest for later: other jobs' pages come between.
func (t *tx) pageNext() { t.s.paging = append(t.s.paging[1:], t.s.paging[0]) }

// maxLooked bounds the rows one page of a cancel reads, most of which may be terminal.
const maxLooked = 10 * pageRows

func (t *tx) cancelPage(p *page) error {
	j, err := t.job(p.job)
	if isNotFound(err) { // pruned: nothing of it was open any more
		t.pageDone()
		return nil
	}
	if err != nil {
		return err
	}
	var ids []lease.ShardID
	last, looked := p.next, 0
	from := shardKey(keyShard, lease.ShardID{Job: p.job, Seq: p.next})
	var scanErr error
	t.g.w.Scan(from, prefixEnd(jobKey(keyShard, p.job)), func(k, v []byte) bool {
		id := shardOfKey(k)
		var row *lease.Shard
		if row, scanErr = decodeShard(id, v); scanErr != nil {
			return false
		}
		last = id.Seq + 1
		if !row.State.Terminal() {
			ids = append(ids, id)
		}
		looked++
		return len(ids) < pageRows && looked < maxLooked
	})
	if scanErr != nil {
		return scanErr
	}
	for _, id := range ids {
		sh, err := t.shard(id)
		if err != nil {
			return err
		}
		if sh.State.Terminal() {
			continue
		}
		if err := t.step(sh, lease.Cancel{Actor: j.Actor, Reason: j.Reason}); err != nil {
			return err
		}
	}
	if p.next = last; len(ids) < pageRows && looked < maxLooked {
		t.pageDone()
	} else {
		t.pageNext()
	}
	return nil
}

// plan adds what a result planned: at once when it is little, else in pages.
func (t *tx) plan(j *jobRow, sh *shardTx, plan lease.Plan) error {
	base := j.NextSeq
	j.NextSeq += uint32(len(plan))
	t.marked[j.ID] = true
	adopt(plan, &sh.Shard)
	if len(plan) <= maxPlan {
		return t.addShards(j, plan, base, 0, len(plan))
	}
	j.Plans++
	t.put(shardKey(keyPlan, sh.ID), encodeSpan(sh.ID, span{base, 0}))
	t.s.paging = append(t.s.paging, &page{job: j.ID, plan: sh.ID, all: plan})
	return nil
}

// adopt notes in a plan whose result planned it.
func adopt(plan lease.Plan, by *lease.Shard) {
	for i := range plan {
		plan[i].Parent, plan[i].Generation, plan[i].Fresh = by.ID.Seq, by.Generation, by.Fresh
	}
}

func (t *tx) planPage(p *page, plan lease.Plan) error {
	j, err := t.job(p.job)
	if err != nil {
		return err
	}
	at, err := decodeSpan(p.plan, t.get(shardKey(keyPlan, p.plan)))
	if err != nil || int(at.next) > len(plan) {
		return t.dropPlan(p, cmp.Or(err, fmt.Errorf("%d shards of %d are added", at.next, len(plan))))
	}
	to := min(int(at.next)+pageRows, len(plan))
	if j.Canceled {
		to = int(at.next)
		for _, sp := range plan[min(to, len(plan)):] {
			t.gone = append(t.gone, sp.Inputs...)
		}
	}
	parent, err := t.shard(p.plan)
	if err != nil {
		return err
	}
	adopt(plan, &parent.Shard)
	if err := t.addShards(j, plan, at.base, int(at.next), to); err != nil {
		return err
	}
	if to == len(plan) || j.Canceled {
		return t.dropPlan(p, nil)
	}
	t.put(shardKey(keyPlan, p.plan), encodeSpan(p.plan, span{at.base, uint32(to)}))
	t.pageNext()
	return nil
}

// dropPlan ends the paging of a plan, with an error when it can't be known any more.
func (t *tx) dropPlan(p *page, cause error) error {
	j, err := t.job(p.job)
	if err != nil {
		return err
	}
	t.remove(shardKey(keyPlan, p.plan))
	if p.plan.Seq == 0 {
		t.s.index.whole(j.ID)
	}
	j.Plans--
	t.marked[j.ID] = true
	if cause != nil && !j.Canceled {
		t.s.index.resumed(lease.Target{Job: j.ID})
		j.Pause = lease.Pause{}
		j.Canceled, j.Reason = true, clip(fmt.Sprintf("plan of shard %v: %v", p.plan, cause))
		t.tell(j, lease.Event{Kind: lease.EventCanceled, Reason: j.Reason})
		t.s.index.stop(j.ID, markCanceled)
		t.s.paging = append(t.s.paging, &page{job: j.ID})
	}
	t.pageDone()
	return nil
}

// planOf plans again what an accepted result means.
func (s *Store) planOf(id lease.ShardID) (plan lease.Plan, err error) {
	var j *jobRow
	var row *lease.Shard
	err = s.engine.View(func(r kv.Reader) error {
		if j, row, err = rows(r, id); err != nil {
			return err
		}
		row.Result.Inline, err = inline(r, row)
		return err
	})
	if err != nil {
		return nil, err
	}
	b := []byte(row.Result.Inline)
	if row.Result.Blob {
		if b, err = s.readBlob(row.Result.Digest, row.Result.Bytes); err != nil {
			return nil, err
		}
	}
	means, err := s.planner.Accept(&j.Job, row, b, nil)
	return means.Plan, err
}
