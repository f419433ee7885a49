package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// list is a submission's input as it was looked at before the transaction.
type list struct {
	reuse lease.Digest
	plan  lease.Plan // of its beginning
	next  place      // where the rest of it begins
}

// list reads the whole input once, so that what is wrong with it is told to who
// submits it, and not found by the pages that follow.
func (s *Store) list(p lease.Project, kind lease.Kind, params []byte, in lease.Input) (*list, error) {
	packing, err := s.planner.List(kind, params)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	size, here := s.present[in.Digest], s.knows(p, in.Digest)
	s.mu.Unlock()
	switch {
	case !here:
		return nil, fmt.Errorf("input %v: %w", in.Digest, lease.ErrNeedBlob)
	case size != in.Bytes:
		return nil, fmt.Errorf("input %v has %d bytes, not %d", in.Digest, size, in.Bytes)
	case size == 0:
		return nil, errors.New("the input is empty")
	}
	r, err := s.openAt(in.Digest, 0, in.Bytes)
	if isNotFound(err) { // somebody took it away behind the store's back
		return nil, fmt.Errorf("input %v: %w", in.Digest, lease.ErrNeedBlob)
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	pack := newPacker(packing, r, place{})
	l := &list{reuse: packing.Reuse}
	if l.plan, err = pack.page(maxPlan); err != nil {
		return nil, err
	}
	l.next = pack.at
	_, err = pack.rest()
	return l, err
}

// openAt opens the bytes from ≤ offset < to of a blob.
func (s *Store) openAt(d lease.Digest, from, to int64) (io.ReadCloser, error) {
	r, size, err := s.blobs.Open(d)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %v: %w", d, lease.ErrNotFound)
	}
	if err == nil && size < to {
		err = errors.Join(fmt.Errorf("blob %v has %d bytes, not %d", d, size, to), r.Close())
	} else if err == nil && from > 0 {
		if _, err = r.Seek(from, io.SeekStart); err != nil {
			err = errors.Join(err, r.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	return &part{io.LimitReader(r, to-from), r}, nil
}

// part is some of a blob's bytes.
type part struct {
	io.Reader
	io.Closer
}

// cut reads the next page of a list job's shards.
func (s *Store) cut(id lease.JobID) (plan lease.Plan, next place, err error) {
	var j *jobRow
	err = s.engine.View(func(r kv.Reader) (err error) {
		key := jobKey(keyJob, id)
		if j, _, err = decodeJob(id, r.Get(key)); err != nil {
			return err
		}
		next, err = decodePlace(id, r.Get(shardKey(keyPlan, lease.ShardID{Job: id})))
		return err
	})
	if err != nil || j.Canceled {
		return nil, next, err
	}
	packing, err := s.planner.List(j.Kind, j.Params)
	if err != nil {
		return nil, next, err
	}
	r, err := s.openAt(j.Input.Digest, next.offset, j.Input.Bytes)
	if err != nil {
		return nil, next, err
	}
	defer r.Close()
	p := newPacker(packing, r, next)
	if plan, err = p.page(pageRows); err == nil && len(plan) == 0 {
		err = fmt.Errorf("input %v ends at byte %d of %d", j.Input.Digest, next.offset, j.Input.Bytes)
	}
	return plan, p.at, err
}

// listPage adds the shards of one page to a list job.
func (t *tx) listPage(p *page, plan lease.Plan, next place) error {
	j, err := t.job(p.job)
	if err != nil {
		return err
	}
	if j.Canceled {
		return t.dropPlan(p, nil)
	}
	if err := t.addList(j, plan, next); err != nil {
		return err
	}
	if next.offset == j.Input.Bytes {
		return t.dropPlan(p, nil)
	}
	t.pageNext()
	return nil
}

// addList adds shards and notes where the rest of the input begins.
func (t *tx) addList(j *jobRow, plan lease.Plan, next place) error {
	base := j.NextSeq
	j.NextSeq += uint32(len(plan))
	if next.offset < j.Input.Bytes {
		id := lease.ShardID{Job: j.ID}
		t.put(shardKey(keyPlan, id), encodePlace(j.ID, next))
	}
	return t.addShards(j, plan, base, 0, len(plan))
}

// Input implements lease.Control.
func (c *control) Input(_ context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	if c.s.broken.Load() {
		return nil, lease.ErrUnknownOutcome
	}
	actor, err := c.actor.now()
	reads := actor.May(lease.Reader)
	if err == nil && !reads && !actor.May(lease.WorkerRole) {
		err = lease.ErrForbidden
	}
	if err != nil {
		return nil, fmt.Errorf("input of job %v: %w", of.Job, err)
	}
	c.s.mu.Lock()
	l := c.s.index.leases[of]
	holds := l != nil && l.holder.Actor == c.actor.ID
	c.s.mu.Unlock()
	var in lease.Input
	var span lease.Range
	err = c.s.engine.View(func(r kv.Reader) error {
		j, err := c.job(r, of.Job)
		if err != nil {
			return err
		}
		in, span = j.Input, lease.Range{To: j.Input.Bytes}
		if of.Seq != 0 {
			_, row, err := rows(r, of)
			if err != nil {
				return err
			}
			span = row.Range
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !reads && !holds || in == (lease.Input{}) {
		return nil, fmt.Errorf("input of job %v: %w", of.Job, lease.ErrNotFound)
	}
	if from < span.From || to > span.To || from > to {
		return nil, fmt.Errorf("bytes %d to %d of the input: %d to %d are there: %w", from, to, span.From, span.To, lease.ErrInvalid)
	}
	return c.s.openAt(in.Digest, from, to)
}
