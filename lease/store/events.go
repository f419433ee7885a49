package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Events implements lease.Control.
func (c *control) Events(_ context.Context, of lease.ShardID, after uint64, limit int) ([]lease.Event, error) {
	out, _, err := c.events(of, after, limit)
	return out, err
}

// Follow implements lease.Control.
func (c *control) Follow(ctx context.Context, of lease.ShardID, after uint64, limit int, wait time.Duration) ([]lease.Event, error) {
	timer := time.NewTimer(min(max(wait, 0), lease.MaxWait))
	defer timer.Stop()
	for {
		grown := c.s.growth()
		out, looked, err := c.events(of, after, limit)
		if err != nil || len(out) > 0 {
			return out, err
		}
		after = max(after, looked) // not twice at the same
		select {
		case <-grown:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.s.stopped:
			return nil, lease.ErrUnreachable
		}
	}
}

// growth returns a channel that is closed when the ledger has grown.
func (s *Store) growth() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grown == nil {
		s.grown = make(chan struct{})
	}
	return s.grown
}

// grew wakes those who wait for the ledger to grow.
func (s *Store) grew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
}

// events reads a page, and tells how far it looked: there is none of these events
// beyond the last one returned and up to there.
func (c *control) events(of lease.ShardID, after uint64, limit int) (out []lease.Event, looked uint64, err error) {
	limit = clampPage(limit)
	err = c.view(func(r kv.Reader) error {
		var j *jobRow
		if of.Job != 0 {
			if j, err = c.job(r, of.Job); err != nil {
				return err
			}
		} else if err := c.admin("events of everything"); err != nil {
			return err
		}
		h, err := decodeHead(r.Get([]byte{keyHead}))
		if err != nil {
			return err
		}
		if looked = h.Seq; after >= looked { // also where after + 1 is 0
			return nil
		}
		if of.Seq != 0 {
			out, err = history(r, of, after, limit)
			return err
		}
		from := after + 1
		if j != nil && after == 0 {
			if from, err = begun(r, j); err != nil {
				return err
			}
		}
		out, err = ledgerFrom(r, j, from, limit)
		return err
	})
	return out, looked, err
}

// begun is the sequence of a job's first event that the ledger still holds.
func begun(r kv.Reader, j *jobRow) (uint64, error) {
	for seq := j.Last; ; {
		ev, err := eventAt(r, seq)
		if err != nil || ev == nil || ev.ShardID() != (lease.ShardID{Job: j.ID}) {
			return seq, err
		}
		if ev.Prev == 0 || ev.Kind == lease.EventCarried {
			return seq, nil
		}
		seq = ev.Prev
	}
}

// maxForeign is how many events of other jobs are passed over before it is looked
// up whether any of this one's can follow.
const maxForeign = 200_000

// ledgerFrom reads the events of a job, or with nil all, from a sequence on.
// Events of others are not decoded.
func ledgerFrom(r kv.Reader, j *jobRow, from uint64, limit int) (out []lease.Event, err error) {
	start, last := from, ^uint64(0)
	r.LogBack(from, func(seq uint64, _ []byte) bool { start = seq; return false })
	foreign := 0
	r.Log(start, func(first uint64, b []byte) bool {
		d := decoder{b: body(b)}
		for seq := first; len(d.b) > 0 && d.err == nil && len(out) < limit; seq++ {
			raw := d.bytes()
			switch {
			case seq < from:
			case j != nil && eventJob(raw) != j.ID:
				foreign++
			default:
				var ev lease.Event
				if ev, err = decodeEvent(seq, raw); err != nil {
					err = fmt.Errorf("ledger event %d: damaged: %w", seq, err)
					return false
				}
				ev.Row = nil // the verifier's
				out, foreign = append(out, ev), 0
			}
		}
		if err = d.err; err != nil {
			return false
		}
		if foreign > maxForeign && last == ^uint64(0) {
			if last, err = newestOf(r, j); err != nil {
				return false
			}
		}
		return len(out) < limit && first <= last
	})
	return out, err
}

// newestOf is the sequence of the newest event of a job and its shards.
func newestOf(r kv.Reader, j *jobRow) (newest uint64, err error) {
	newest = j.Last
	names := names{}
	var row lease.Shard
	scan(r, jobKey(keyShard, j.ID), func(k, v []byte) bool {
		row = lease.Shard{}
		err = readShard(&row, shardOfKey(k), v, names)
		newest = max(newest, row.Last)
		return err == nil
	})
	return newest, err
}

// eventAt reads one event; nil when the ledger does not hold it.
func eventAt(r kv.Reader, seq uint64) (found *lease.Event, err error) {
	r.LogBack(seq, func(first uint64, b []byte) bool {
		d := decoder{b: body(b)}
		for at := first; len(d.b) > 0 && d.err == nil; at++ {
			raw := d.bytes()
			if at != seq {
				continue
			}
			var ev lease.Event
			if ev, err = decodeEvent(seq, raw); err == nil {
				found = &ev
			}
			break
		}
		return false
	})
	return found, err
}

// history follows a shard's events backwards, each naming the one before it.
func history(r kv.Reader, id lease.ShardID, after uint64, limit int) (out []lease.Event, err error) {
	_, row, err := rows(r, id)
	if err != nil {
		return nil, err
	}
	for seq := row.Last; seq > after; {
		found, err := eventAt(r, seq)
		if err != nil {
			return nil, err
		}
		if found == nil || found.ShardID() != id {
			return nil, fmt.Errorf("shard %v: its event %d is missing", id, seq)
		}
		found.Row = nil // the verifier's
		out = append(out, *found)
		if seq = found.Prev; found.Kind == lease.EventCarried {
			break // what came before it may be gone
		}
	}
	slices.Reverse(out)
	return out[:min(limit, len(out))], nil
}
