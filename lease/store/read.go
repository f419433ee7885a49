package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/ledger"
)

func scan(r kv.Reader, prefix []byte, fn func(k, v []byte) bool) {
	r.Scan(prefix, prefixEnd(prefix), fn)
}

func decodeKey(k []byte) uint64 { return binary.BigEndian.Uint64(k[1:9]) }

func sortShards(ids []lease.ShardID) { slices.SortFunc(ids, lease.ShardID.Compare) }

// rows reads a shard and its job.
func rows(r kv.Reader, id lease.ShardID) (*jobRow, *lease.Shard, error) {
	jb, sb := r.Get(jobKey(keyJob, id.Job)), r.Get(shardKey(keyShard, id))
	if jb == nil || sb == nil {
		return nil, nil, fmt.Errorf("shard %v: %w", id, lease.ErrNotFound)
	}
	j, _, err := decodeJob(id.Job, jb)
	if err != nil {
		return nil, nil, err
	}
	row, err := decodeShard(id, sb)
	if err != nil {
		return nil, nil, err
	}
	row.Project, row.Priority = j.Project, j.Priority
	return j, row, nil
}

// view reads one consistent snapshot.
func (c *control) view(fn func(kv.Reader) error) error {
	if c.s.broken.Load() {
		return lease.ErrUnknownOutcome
	}
	if err := c.may(lease.Reader); err != nil {
		return err
	}
	return c.s.engine.View(fn)
}

// job reads a job the actor may see.
func (c *control) job(r kv.Reader, id lease.JobID) (*jobRow, error) {
	if b := r.Get(jobKey(keyJob, id)); b != nil {
		j, _, err := decodeJob(id, b)
		if err != nil {
			return nil, err
		}
		if c.actor.Sees(j.Project) {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %v: %w", id, lease.ErrNotFound)
}

// Job implements lease.Control.
func (c *control) Job(_ context.Context, id lease.JobID) (out lease.Job, err error) {
	err = c.view(func(r kv.Reader) error {
		j, err := c.job(r, id)
		if err == nil {
			out = j.Job
		}
		return err
	})
	if err != nil || out.State.Terminal() {
		return out, err
	}
	rests := c.standing(&out)
	if rests.IsZero() {
		return out, nil
	}
	err = c.view(func(r kv.Reader) error { // why it does
		_, row, err := rows(r, rests)
		if err == nil && row.Reason != "" {
			out.Waits += ": " + row.Reason
		}
		return err
	})
	if isNotFound(err) { // pruned meanwhile
		err = nil
	}
	return out, err
}

// standing adds to a job what only memory knows of it, and names a shard that rests.
func (c *control) standing(out *lease.Job) (rests lease.ShardID) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if j := c.s.index.jobs[out.ID]; j != nil {
		out.Work.Running = j.running
	}
	out.Parked = c.s.index.parked(out.ID, c.s.now())
	out.Waits, rests = c.s.waits(out, c.s.now())
	return rests
}

// Jobs implements lease.Control.
func (c *control) Jobs(_ context.Context, before lease.JobID, limit int) (out []lease.Job, err error) {
	if before == 0 {
		before = ^lease.JobID(0)
	}
	limit = clampPage(limit)
	err = c.view(func(r kv.Reader) (err error) {
		var keys [][]byte
		r.Scan([]byte{keyJob}, jobKey(keyJob, before), func(k, _ []byte) bool {
			keys = append(keys, k)
			return true
		})
		for i := len(keys) - 1; i >= 0 && len(out) < limit && err == nil; i-- {
			var j *jobRow
			if j, err = c.job(r, lease.JobID(decodeKey(keys[i]))); err == nil {
				out = append(out, j.Job)
			} else if isNotFound(err) {
				err = nil
			}
		}
		return err
	})
	return out, err
}

func clampPage(limit int) int {
	if limit <= 0 || limit > lease.MaxPage {
		return lease.MaxPage
	}
	return limit
}

// Shards implements lease.Control.
func (c *control) Shards(_ context.Context, id lease.JobID, after uint32, limit int, results bool) (out []lease.Shard, err error) {
	limit = clampPage(limit)
	size := 0
	err = c.view(func(r kv.Reader) error {
		j, err := c.job(r, id)
		if err != nil || after == ^uint32(0) {
			return err
		}
		from := shardKey(keyShard, lease.ShardID{Job: id, Seq: after + 1})
		var fault error
		r.Scan(from, prefixEnd(jobKey(keyShard, id)), func(k, v []byte) bool {
			var row *lease.Shard
			if row, fault = decodeShard(shardOfKey(k), v); fault != nil {
				return false
			}
			row.Project, row.Priority = j.Project, j.Priority
			if results {
				if row.Result.Inline, fault = inline(r, row); fault != nil {
					return false
				}
			}
			if j.Old != (lease.Counts{}) {
				row.Successor = successor(r.Get(shardKey(keyNext, row.ID)))
			}
			size += len(v) + len(row.Result.Inline)
			out = append(out, *row)
			return len(out) < limit && size < maxPageBytes
		})
		return fault
	})
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for i := range out {
		if l := c.s.index.leases[out[i].ID]; l != nil && l.fence == out[i].Fence {
			out[i].Deadline = l.deadline
		}
	}
	return out, nil
}

// maxPageBytes ends a page early.
const maxPageBytes = 4 << 20

// body is a ledger record without its chain digest.
func body(b []byte) []byte { return b[:max(0, len(b)-32)] }

// Workers implements lease.Control. A worker is seen by those who share a project
// with its actor; of its leases, those in their projects count.
func (c *control) Workers(context.Context) (out []lease.Worker, err error) {
	if err := c.may(lease.Reader); err != nil {
		return nil, err
	}
	actor, err := c.actor.now()
	if err != nil {
		return nil, err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	now, stops := c.s.now(), &c.s.index.stops
	for id, w := range c.s.index.workers {
		if w.seen.IsZero() || !c.s.shared(&actor, w.actor) {
			continue
		}
		leases := 0
		for id := range w.leases {
			if actor.Sees(c.s.index.project(id.Job)) {
				leases++
			}
		}
		out = append(out, lease.Worker{
			ID: id, Incarnation: w.hello.Incarnation, Host: w.hello.Host, Version: w.hello.Version,
			Offer: w.hello.Offer, Seen: w.seen.Round(0).UTC(), Leases: leases, Facts: w.facts,
			Away: now.Sub(w.seen) >= c.s.term, Drain: stops.of(lease.Target{Worker: id}, now), Withdrawn: w.lacks(now),
		})
	}
	if actor.Role == lease.Admin { // whose worker one is that was not seen yet only an admin may guess
		for id := range stops.workers {
			if w := c.s.index.workers[id]; w == nil || w.seen.IsZero() {
				out = append(out, lease.Worker{ID: id, Away: true, Drain: stops.of(lease.Target{Worker: id}, now)})
			}
		}
	}
	slices.SortFunc(out, func(a, b lease.Worker) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

// shared reports whether an actor may know of what another one does somewhere.
func (s *Store) shared(a *lease.Actor, other lease.ActorID) bool {
	if a.Role == lease.Admin {
		return true
	}
	row := s.scope.Load().actors[other]
	return row != nil && (row.Role == lease.Admin || slices.ContainsFunc(row.Projects, a.Sees))
}

// Verify implements lease.Control.
func (c *control) Verify(context.Context) (problems []lease.Problem, err error) {
	if err := c.admin("verify"); err != nil {
		return nil, err
	}
	err = c.view(func(r kv.Reader) (err error) {
		problems, err = ledger.Verify(&snapshot{r: r, blobs: c.s.blobs}, ledger.Limit)
		return err
	})
	return problems, err
}
