package store

import (
	"context"
	"fmt"
	"slices"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Prune implements lease.Control: the jobs are gone at once, with one commit;
// their rows follow in pages, and then the ledger is cut.
func (c *control) Prune(ctx context.Context, ids []lease.JobID) error {
	if err := c.admin("prune"); err != nil {
		return err
	}
	if len(ids) > lease.MaxPage {
		return fmt.Errorf("prune %d jobs: %w", len(ids), lease.ErrTooLarge)
	}
	return c.s.doFreeing(ctx, func(t *tx) error {
		var jobs []*jobRow
		for _, id := range ids {
			j, err := t.job(id)
			if isNotFound(err) || slices.Contains(jobs, j) {
				continue // it is gone, as it shall be
			}
			if err != nil {
				return err
			}
			if !j.Derive().Terminal() || j.Shards.Open() > 0 || j.Plans > 0 {
				return fmt.Errorf("prune job %v: it has not ended: %w", id, lease.ErrNotAllowed)
			}
			jobs = append(jobs, j)
		}
		keys := map[string]lease.JobID{}
		for _, j := range jobs {
			t.pruneJob(c.actor.ID, j, keys)
		}
		if err := t.rekey(keys); err != nil {
			return err
		}
		t.head.Want = true
		t.touchHead()
		return nil
	})
}

// pruneJob takes a job's row away and marks its shards as to be removed. It adds its
// key to those that lead nowhere now.
func (t *tx) pruneJob(actor lease.ActorID, j *jobRow, keys map[string]lease.JobID) {
	t.tell(j, lease.Event{Kind: lease.EventPruned, Actor: actor})
	t.remove(jobKey(keyJob, j.ID))
	t.put(jobKey(keyDrop, j.ID), []byte{})
	if key := j.key(); key != nil && string(t.get(key)) == string(jobKey(keyKey, j.ID)[1:]) {
		t.index(&t.head.Keys, key, nil)
		keys[string(key)] = 0
	}
	delete(t.s.index.marks, j.ID)
	if d := j.Input.Digest; !d.IsZero() {
		if t.s.index.lists[d]--; t.s.index.lists[d] <= 0 {
			delete(t.s.index.lists, d)
			t.s.sweeper.add(map[lease.Digest]bool{d: true})
		}
	}
	t.s.drops = append(t.s.drops, j.ID)
}

// rekey lets each of the keys lead to the newest job that has it, if there is one:
// an earlier one, which failed or was canceled before the key was used again.
func (t *tx) rekey(keys map[string]lease.JobID) (err error) {
	if len(keys) == 0 {
		return nil
	}
	scan(t.g.w, []byte{keyJob}, func(k, v []byte) bool {
		id := lease.JobID(decodeKey(k))
		if t.get(k) == nil {
			return true
		}
		var j *jobRow
		if j, _, err = decodeJob(id, v); err != nil {
			return false
		}
		if _, one := keys[string(j.key())]; one {
			keys[string(j.key())] = id
		}
		return true
	})
	if err != nil {
		return err
	}
	for key, id := range keys {
		if id != 0 {
			t.index(&t.head.Keys, []byte(key), jobKey(keyKey, id)[1:])
		}
	}
	return nil
}

// dropper removes what belongs to pruned jobs. It lives in memory only: after a
// restart it begins again with the jobs still marked.
type dropper struct {
	jobs  []lease.JobID // whose marks it will remove; empty: not begun
	stage dropStage
	at    []byte                 // the key to go on from
	refs  map[lease.ShardID]bool // values of shards that are gone which others reuse
	blobs map[lease.Digest]bool  // results of the rows removed
}

type dropStage uint8

const (
	dropRefs   dropStage = iota // find the values that must stay
	dropRows                    // shards
	dropReuse                   // entries that point to shards that are gone
	dropValues                  // results, but those found
	dropMarks
)

// dropStep removes the next rows of pruned jobs.
func (s *Store) dropStep() *command {
	d := &s.dropper
	if len(d.jobs) == 0 {
		s.mu.Lock()
		*d = dropper{jobs: slices.Clone(s.drops), at: []byte{keyShard}, refs: map[lease.ShardID]bool{}, blobs: map[lease.Digest]bool{}}
		s.mu.Unlock()
		slices.Sort(d.jobs)
	}
	stage := d.stage
	var keys [][]byte
	err := s.engine.View(func(r kv.Reader) (err error) {
		switch stage {
		case dropRefs:
			err = d.scanRefs(r)
		case dropRows:
			keys, err = d.scanRows(r)
		case dropReuse:
			keys = d.scanReuse(r)
		case dropValues:
			keys = d.scanValues(r)
		case dropMarks:
			for _, id := range d.jobs {
				keys = append(keys, jobKey(keyDrop, id))
			}
		}
		return err
	})
	c := s.care(func(t *tx) error {
		if err != nil {
			return t.putOff("remove rows of pruned jobs", err)
		}
		for _, k := range keys {
			switch {
			case stage != dropReuse:
				t.remove(k)
			case gone(t, t.get(k)): // else it was done again meanwhile
				t.index(&t.head.Reuses, k, nil)
			}
		}
		return nil
	})
	c.frees = true
	if err == nil && stage == dropMarks {
		c.after = s.dropped
	}
	return c
}

// dropped ends a dropper once its marks are gone.
func (s *Store) dropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops = slices.DeleteFunc(s.drops, func(id lease.JobID) bool { return slices.Contains(s.dropper.jobs, id) })
	s.sweeper.add(s.dropper.blobs)
	s.dropper = dropper{}
}

func (d *dropper) next(stage dropStage, at byte) { d.stage, d.at = stage, []byte{at} }

// getter reads a key.
type getter interface{ get(key []byte) []byte }

type readGetter struct{ kv.Reader }

func (r readGetter) get(key []byte) []byte { return r.Get(key) }

// gone tells whether a reuse entry points to a job that is not there.
func gone(r getter, entry []byte) bool {
	return len(entry) == 12 && r.get(append([]byte{keyJob}, entry[:8]...)) == nil
}

// walk visits up to careScan keys of one kind from d.at on, and moves d.at along.
// It returns whether it came to the end. fn returns false to stop before its key.
func (d *dropper) walk(r kv.Reader, kind byte, fn func(k, v []byte) bool) (ended bool) {
	n := 0
	ended = true
	r.Scan(d.at, []byte{kind + 1}, func(k, v []byte) bool {
		if n++; n > careScan || !fn(k, v) {
			d.at, ended = slices.Clone(k), false
		}
		return ended
	})
	return ended
}

func (d *dropper) scanRefs(r kv.Reader) (err error) {
	alive := map[lease.JobID]bool{}
	is := func(id lease.JobID) bool {
		a, known := alive[id]
		if !known {
			a = r.Get(jobKey(keyJob, id)) != nil
			alive[id] = a
		}
		return a
	}
	ended := d.walk(r, keyShard, func(k, v []byte) bool {
		var row *lease.Shard
		if row, err = decodeShard(shardOfKey(k), v); err != nil {
			return false
		}
		if row.State == lease.Done && !row.Result.Blob && !row.From.IsZero() && !is(row.From.Job) && is(row.ID.Job) {
			d.refs[row.From] = true
		}
		return true
	})
	if ended {
		d.next(dropRows, keyShard)
		d.at = jobKey(keyShard, d.jobs[0])
	}
	return err
}

func (d *dropper) scanRows(r kv.Reader) (keys [][]byte, err error) {
	for _, id := range d.jobs {
		end := prefixEnd(jobKey(keyShard, id))
		if string(d.at) >= string(end) {
			continue
		}
		from := jobKey(keyShard, id)
		if string(d.at) > string(from) {
			from = d.at
		}
		r.Scan(from, end, func(k, v []byte) bool {
			if len(keys) >= careRows {
				return false
			}
			var row *lease.Shard
			if row, err = decodeShard(shardOfKey(k), v); err != nil {
				return false
			}
			if row.State == lease.Done {
				for _, b := range keeps(&row.Result) {
					d.blobs[b] = true
				}
			}
			keys = append(keys, slices.Clone(k))
			if next := shardKey(keyNext, row.ID); r.Get(next) != nil {
				keys = append(keys, next)
			}
			d.at = append(slices.Clone(k), 0)
			return true
		})
		if len(keys) >= careRows || err != nil {
			return keys, err
		}
	}
	d.next(dropReuse, keyReuse)
	return keys, nil
}

func (d *dropper) scanReuse(r kv.Reader) (keys [][]byte) {
	ended := d.walk(r, keyReuse, func(k, v []byte) bool {
		if len(keys) == careRows {
			return false
		}
		if gone(readGetter{r}, v) {
			keys = append(keys, slices.Clone(k))
		}
		return true
	})
	if ended {
		d.next(dropValues, keyValue)
	}
	return keys
}

// scanValues passes over the values of jobs that are there with one step each.
func (d *dropper) scanValues(r kv.Reader) (keys [][]byte) {
	for range careScan {
		var first []byte
		r.Scan(d.at, []byte{keyValue + 1}, func(k, _ []byte) bool { first = slices.Clone(k); return false })
		if first == nil {
			d.next(dropMarks, keyDrop)
			return keys
		}
		job := shardOfKey(first).Job
		end := prefixEnd(jobKey(keyValue, job))
		later := r.Get(jobKey(keyDrop, job)) != nil && !slices.Contains(d.jobs, job) // who reuses its values is not known yet
		if later || r.Get(jobKey(keyJob, job)) != nil {
			d.at = end
			continue
		}
		n := 0
		r.Scan(first, end, func(k, _ []byte) bool {
			if n++; len(keys) == careRows || n > careScan {
				first = slices.Clone(k)
				return false
			}
			if !d.refs[shardOfKey(k)] {
				keys = append(keys, slices.Clone(k))
			}
			first = end
			return true
		})
		d.at = first
		if len(keys) == careRows || n > careScan {
			return keys
		}
	}
	return keys
}
