package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"macbatch/lease"
)

// pageRows bounds the rows one commit writes for one job.
const pageRows = 1000

// control is the store as one actor sees it.
type control struct {
	s     *Store
	actor asker
}

// maxName bounds, in bytes, the names that callers choose: some are part of keys.
const maxName = 200

var _ lease.Control = (*control)(nil)

// As returns the store as an actor sees it. The row of the actor decides what
// that is; one without a row is taken as it is given.
func (s *Store) As(a lease.Actor) lease.Control { return &control{s, asker{a, s}} }

// Submit implements lease.Control.
func (c *control) Submit(ctx context.Context, sub lease.Submission) (id lease.JobID, err error) {
	if err := c.may(lease.Submitter); err != nil {
		return 0, err
	}
	if sub.Project == "" {
		sub.Project = lease.DefaultProject
	}
	if len(sub.Params) > lease.MaxParams || len(sub.Key) > maxName || len(sub.Project) > maxName {
		return 0, fmt.Errorf("submit %s: parameters, key or project: %w", sub.Kind, lease.ErrTooLarge)
	}
	if sub.Require, err = lease.ParseLabels(sub.Require); err != nil {
		return 0, fmt.Errorf("submit %s: %w", sub.Kind, err)
	}
	if err := c.enter(sub.Project); err != nil {
		return 0, err
	}
	if strings.ContainsRune(string(sub.Project), 0) || strings.ContainsRune(sub.Key, 0) {
		return 0, fmt.Errorf("submit %s: key or project with a NUL: %w", sub.Kind, lease.ErrInvalid)
	}
	plan, in, err := c.s.start(&sub)
	if err != nil {
		return 0, fmt.Errorf("submit %s: %w", sub.Kind, err)
	}
	err = c.s.do(ctx, func(t *tx) (err error) {
		if err := c.enter(sub.Project); err != nil {
			return err
		}
		id, err = t.submit(c.actor.ID, sub, plan, in)
		return err
	})
	return id, err
}

// start validates a submission and plans its first shards.
func (s *Store) start(sub *lease.Submission) (plan lease.Plan, in *list, err error) {
	if sub.Input == (lease.Input{}) {
		plan, err = s.planner.Start(sub.Kind, sub.Params)
	} else if in, err = s.list(sub.Project, sub.Kind, sub.Params, sub.Input); err == nil {
		plan = in.plan
	}
	if err != nil && !errors.Is(err, lease.ErrNeedBlob) && !errors.Is(err, errUnread) && !errors.Is(err, lease.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", lease.ErrInvalid, err)
	}
	return plan, in, err
}

// keyOf is what a submission is known by when it comes again; nil: by nothing.
// No key that a caller chose has a NUL.
func keyOf(sub *lease.Submission) []byte {
	switch {
	case sub.Key != "":
		return idempotencyKey(sub.Project, sub.Key)
	case sub.Input != (lease.Input{}):
		parts := []string{string(sub.Kind), string(sub.Params), string(sub.Input.Digest[:])}
		if sub.MaxCost > 0 { // under another limit it may come to more
			parts = append(parts, sub.MaxCost.String())
		}
		if len(sub.Require) > 0 { // others may be able to
			parts = append(parts, "require "+string(lease.TagsOf(sub.Require)))
		}
		d := lease.ReuseDigest(parts...)
		return idempotencyKey(sub.Project, "\x00"+string(d[:]))
	}
	return nil
}

// key is what the job's submission is known by.
func (j *jobRow) key() []byte {
	return keyOf(&lease.Submission{Project: j.Project, Kind: j.Kind, Params: j.Params, Key: j.Key, Input: j.Input, Require: j.Require, MaxCost: j.Cost.Max})
}

func (t *tx) submit(actor lease.ActorID, sub lease.Submission, plan lease.Plan, in *list) (lease.JobID, error) {
	key := keyOf(&sub)
	if key != nil {
		if b := t.get(key); b != nil {
			j, err := t.job(lease.JobID(decodeKey(append([]byte{keyKey}, b...))))
			if err != nil && !isNotFound(err) {
				return 0, err
			}
			if err != nil || !bytes.Equal(j.key(), key) { // it must not tell of what may be another's
				return 0, fmt.Errorf("key %q: the store is damaged: its entry leads to no job of that key", sub.Key)
			}
			if j.Kind != sub.Kind || !bytes.Equal(j.Params, sub.Params) || j.Input != sub.Input || j.Cost.Max != sub.MaxCost || !slices.Equal(j.Require, sub.Require) {
				return 0, fmt.Errorf("key %q: %w", sub.Key, lease.ErrKeyReused)
			}
			if st := j.Derive(); st != lease.JobFailed && st != lease.JobCanceled {
				return j.ID, nil
			}
		}
	}
	if in != nil && !t.s.knows(sub.Project, sub.Input.Digest) {
		return 0, fmt.Errorf("input %v: %w", sub.Input.Digest, lease.ErrNeedBlob)
	}
	t.head.Job++
	id := lease.JobID(uint64(t.head.Epoch)<<32 | uint64(t.head.Job))
	j := &jobRow{Job: lease.Job{
		ID: id, Project: sub.Project, Kind: sub.Kind, Params: bytes.Clone(sub.Params), Priority: sub.Priority,
		Require: sub.Require, Key: sub.Key, Input: sub.Input, Actor: actor, Submitted: t.now, Cost: lease.Bill{Max: sub.MaxCost},
	}, NextSeq: 1}
	t.jobs[id] = j
	t.tell(j, lease.Event{Kind: lease.EventSubmitted, Actor: actor, Digest: lease.DigestOf(j.Params)})
	if key != nil {
		t.index(&t.head.Keys, key, jobKey(keyKey, id)[1:])
	}
	if in != nil {
		return id, t.startList(j, in)
	}
	base := j.NextSeq
	j.NextSeq += uint32(len(plan))
	return id, t.addShards(j, plan, base, 0, len(plan))
}

// startList adds the first shards of a list job. What is not added at once follows in
// pages, and nothing of the job is granted before it is whole.
func (t *tx) startList(j *jobRow, in *list) error {
	j.Reuse = in.reuse
	t.s.index.lists[j.Input.Digest]++
	t.s.know(j.Project, j.Input.Digest)
	if in.next.offset < j.Input.Bytes {
		j.Plans++
		t.s.index.hold(j.ID)
		t.s.paging = append(t.s.paging, &page{job: j.ID, plan: lease.ShardID{Job: j.ID}})
	}
	return t.addList(j, in.plan, in.next)
}

// addShards adds the shards from..to of a plan whose first has number base.
func (t *tx) addShards(j *jobRow, plan lease.Plan, base uint32, from, to int) error {
	next := map[int][]uint32{}
	for i, sp := range plan {
		for _, a := range sp.After {
			if int(a) >= from && int(a) < to {
				next[int(a)] = append(next[int(a)], base+uint32(i))
			}
		}
	}
	tags := lease.TagsOf(j.Require)
	for i := from; i < to; i++ {
		sh := t.newShard()
		sh.Shard = lease.Shard{
			ID: lease.ShardID{Job: j.ID, Seq: base + uint32(i)}, Project: j.Project, Priority: j.Priority,
			Next: next[i], Spec: plan[i],
		}
		sh.Need.Tags = tags
		sh.After = make([]uint32, len(plan[i].After))
		for k, a := range plan[i].After {
			sh.After[k] = base + a
		}
		t.shards[sh.ID] = sh
		for _, d := range sh.Inputs {
			t.s.know(sh.Project, d)
		}
		j.Items.Total += uint64(sh.Opens)
		j.Work.Total += sh.Work
		if err := t.step(sh, lease.Queue{Actor: j.Actor}); err != nil {
			return err
		}
		if err := t.lookBack(sh); err != nil {
			return err
		}
	}
	return nil
}

// lookBack settles what a new shard waits for, where that ended before its page came.
func (t *tx) lookBack(sh *shardTx) error {
	for _, seq := range sh.After {
		if sh.State != lease.Blocked {
			return nil
		}
		on, err := t.shard(lease.ShardID{Job: sh.ID.Job, Seq: seq})
		switch {
		case isNotFound(err): // in a later page
		case err != nil:
			return err
		case on.State == lease.Done:
			if t.s.index.lessWaiting(sh.ID) {
				if err := t.step(sh, lease.Unblock{}); err != nil {
					return err
				}
			}
		case on.State.Terminal():
			if err := t.depend(sh, on); err != nil {
				return err
			}
		}
	}
	return nil
}

// Cancel implements lease.Control: the mark is one small commit, the rows follow.
func (c *control) Cancel(ctx context.Context, id lease.JobID, reason string) error {
	if err := c.may(lease.Submitter); err != nil {
		return err
	}
	return c.s.doFreeing(ctx, func(t *tx) error {
		j, err := t.seen(c.actor, id)
		if err != nil {
			return err
		}
		if j.Derive().Terminal() {
			return nil
		}
		t.s.index.resumed(lease.Target{Job: id})
		j.Canceled, j.Reason, j.Pause = true, clip(reason), lease.Pause{}
		t.tell(j, lease.Event{Kind: lease.EventCanceled, Actor: c.actor.ID, Reason: j.Reason})
		t.s.index.stop(id, markCanceled)
		t.s.paging = append(t.s.paging, &page{job: id})
		return nil
	})
}
