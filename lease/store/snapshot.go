package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/ledger"
)

// snapshot is the store at one moment, as the verifier reads it.
type snapshot struct {
	r     kv.Reader
	blobs finder
}

// finder tells whether a blob is there.
type finder interface {
	Has(lease.Digest) (bool, error)
}

var _ ledger.Snapshot = (*snapshot)(nil)

// Check verifies an engine at rest, which may be opened read-only.
func Check(e kv.Engine, blobs finder) ([]lease.Problem, error) {
	return CheckWithin(e, blobs, ledger.Limit)
}

// CheckWithin is Check with at most so many histories in memory at a time.
func CheckWithin(e kv.Engine, blobs finder, limit int) (problems []lease.Problem, err error) {
	err = e.View(func(r kv.Reader) error {
		id := r.Get([]byte{keyStore})
		if id == nil {
			return errNoIdentity
		}
		if err := checkIdentity(id); err != nil {
			return err
		}
		if id[0] < schemaVersion {
			return fmt.Errorf("its schema is %d, not %d: %w", id[0], schemaVersion, ErrOlder)
		}
		problems, err = ledger.Verify(&snapshot{r: r, blobs: blobs}, limit)
		return err
	})
	return problems, err
}

// Head implements ledger.Snapshot.
func (s *snapshot) Head() (ledger.Head, error) {
	h, err := decodeHead(s.r.Get([]byte{keyHead}))
	if err != nil {
		return ledger.Head{}, err
	}
	return ledger.Head{
		Seq: h.Seq, Chain: h.Chain, Seal: h.Seal, Base: h.Base, BaseChain: h.BaseChain, Cut: h.Cut, Carried: h.Carried,
		Identity: h.Identity, Keys: ledger.Entries(h.Keys), Reuses: ledger.Entries(h.Reuses),
	}, nil
}

// Records implements ledger.Snapshot.
func (s *snapshot) Records(after uint64, before lease.Digest, fn func(ledger.Record) bool) {
	s.r.Log(after+1, func(first uint64, b []byte) bool {
		rec := ledger.Record{First: first}
		if len(b) < 32 {
			rec.Err = fmt.Errorf("ledger record %d: too short", first)
			return fn(rec)
		}
		copy(rec.Chain[:], b[len(b)-32:])
		rec.Computed = chain(before, first, body(b))
		before = rec.Chain
		rec.Events, rec.Err = decodeRecord(first, body(b))
		return fn(rec)
	})
}

// Carried implements ledger.Snapshot.
func (s *snapshot) Carried(ev *lease.Event) (c ledger.Carried, err error) {
	switch {
	case ev.Subject != "":
		var a *actorRow
		if a, err = decodeActor(ev.Subject, ev.Row); err == nil {
			c.Actor, c.Sum = a.Identity, sum(actorKey(ev.Subject), ev.Row)
		}
		return c, err
	case ev.Project != "":
		var p *lease.Scope
		if p, err = decodeProject(ev.Project, ev.Row); err == nil {
			c.Project, c.Sum = *p, sum(projectKey(ev.Project), ev.Row)
		}
		return c, err
	case ev.Shard == 0:
		var j *jobRow
		if j, err = decodeJobMarks(ev.Job, ev.Row); err == nil {
			c.Job, c.Sum = j.Job, sum(jobKey(keyJob, ev.Job), ev.Row)
		}
		return c, err
	}
	row, err := decodeShard(ev.ShardID(), ev.Row)
	if err == nil {
		c.Shard, c.Sum = *row, sum(shardKey(keyShard, ev.ShardID()), ev.Row)
	}
	return c, err
}

// Jobs implements ledger.Snapshot.
func (s *snapshot) Jobs(from lease.JobID, fn func(j lease.Job, next uint32, sum uint64, err error) bool) {
	s.r.Scan(jobKey(keyJob, from), []byte{keyJob + 1}, func(k, v []byte) bool {
		if len(k) != 9 {
			return fn(lease.Job{}, 0, 0, fmt.Errorf("key %q is not a job's", k))
		}
		j, fixed, err := decodeJob(lease.JobID(decodeKey(k)), v)
		if err != nil {
			return fn(lease.Job{ID: lease.JobID(decodeKey(k))}, 0, 0, err)
		}
		return fn(j.Job, j.NextSeq, sum(k, v[:fixed]), nil)
	})
}

// Shards implements ledger.Snapshot.
func (s *snapshot) Shards(from lease.ShardID, fn func(sh lease.Shard, sum uint64, err error) bool) {
	s.r.Scan(shardKey(keyShard, from), []byte{keyShard + 1}, func(k, v []byte) bool {
		row, err := decodeShard(shardOfKey(k), v)
		if err != nil {
			return fn(lease.Shard{ID: shardOfKey(k)}, 0, err)
		}
		return fn(*row, sum(k, v), nil)
	})
}

// Pauses implements ledger.Snapshot.
func (s *snapshot) Pauses(fn func(p lease.Pause, sum uint64, err error) bool) {
	scan(s.r, []byte{keyPause}, func(k, v []byte) bool {
		p, err := decodePause(k, v)
		return fn(p, sum(k, v), err)
	})
}

// Successor implements ledger.Snapshot.
func (s *snapshot) Successor(id lease.ShardID) uint32 {
	return successor(s.r.Get(shardKey(keyNext, id)))
}

// Successors implements ledger.Snapshot.
func (s *snapshot) Successors(id lease.JobID) (n int) {
	scan(s.r, jobKey(keyNext, id), func(_, _ []byte) bool { n++; return true })
	return n
}

// Plans implements ledger.Snapshot.
func (s *snapshot) Plans(id lease.JobID) (n uint32, cut *ledger.Cut, err error) {
	scan(s.r, jobKey(keyPlan, id), func(k, v []byte) bool {
		n++
		var fault error
		if by := shardOfKey(k); by.Seq == 0 {
			var at place
			at, fault = decodePlace(id, v)
			cut = &ledger.Cut{Offset: at.offset, Items: at.item}
		} else {
			fault = s.span(by, v)
		}
		err = cmp.Or(err, fault)
		return true
	})
	return n, cut, err
}

// span tells what is wrong with the mark of a plan: it names the last shard that
// was added, and the next one that was not.
func (s *snapshot) span(by lease.ShardID, v []byte) error {
	at, err := decodeSpan(by, v)
	if err != nil {
		return err
	}
	here := func(seq uint32) bool { return s.r.Get(shardKey(keyShard, lease.ShardID{Job: by.Job, Seq: seq})) != nil }
	if at.next > 0 && !here(at.base+at.next-1) || here(at.base+at.next) {
		return fmt.Errorf("shard %v: the mark of its plan says that %d shards from %d on are added", by, at.next, at.base)
	}
	return nil
}

// Pruning implements ledger.Snapshot.
func (s *snapshot) Pruning(fn func(id lease.JobID) bool) {
	scan(s.r, []byte{keyDrop}, func(k, _ []byte) bool { return len(k) != 9 || fn(lease.JobID(decodeKey(k))) })
}

// Identity implements ledger.Snapshot.
func (s *snapshot) Identity() uint64 { return sum([]byte{keyStore}, s.r.Get([]byte{keyStore})) }

// Keys implements ledger.Snapshot.
func (s *snapshot) Keys(fn func(ledger.Entry) bool) {
	scan(s.r, []byte{keyKey}, func(k, v []byte) bool {
		e := ledger.Entry{Key: string(k[1:]), Sum: sum(k, v)}
		if len(v) != 8 {
			e.Err = errShort
			return fn(e)
		}
		e.Of.Job = lease.JobID(binary.BigEndian.Uint64(v))
		return fn(e)
	})
}

// Reuses implements ledger.Snapshot.
func (s *snapshot) Reuses(fn func(ledger.Entry) bool) {
	scan(s.r, []byte{keyReuse}, func(k, v []byte) bool {
		e := ledger.Entry{Key: string(k[1:]), Sum: sum(k, v)}
		if e.Of = shardOfKey(append([]byte{keyShard}, v...)); e.Of.IsZero() {
			e.Err = errShort
		}
		return fn(e)
	})
}

// Key implements ledger.Snapshot.
func (s *snapshot) Key(key string) lease.JobID {
	if v := s.r.Get(append([]byte{keyKey}, key...)); len(v) == 8 {
		return lease.JobID(binary.BigEndian.Uint64(v))
	}
	return 0
}

// Job implements ledger.Snapshot.
func (s *snapshot) Job(id lease.JobID) *lease.Job {
	b := s.r.Get(jobKey(keyJob, id))
	if b == nil {
		return nil
	}
	j, _, err := decodeJob(id, b)
	if err != nil {
		return nil
	}
	return &j.Job
}

// Shard implements ledger.Snapshot.
func (s *snapshot) Shard(id lease.ShardID) *lease.Shard {
	b := s.r.Get(shardKey(keyShard, id))
	if b == nil {
		return nil
	}
	row, err := decodeShard(id, b)
	if err != nil {
		return nil
	}
	return row
}

// Value implements ledger.Snapshot.
func (s *snapshot) Value(id lease.ShardID) []byte { return s.r.Get(shardKey(keyValue, id)) }

// HasBlob implements ledger.Snapshot.
func (s *snapshot) HasBlob(d lease.Digest) (bool, error) { return s.blobs.Has(d) }

// Projects implements ledger.Snapshot.
func (s *snapshot) Projects(fn func(p lease.Scope, sum uint64, err error) bool) {
	scan(s.r, []byte{keyProject}, func(k, v []byte) bool {
		p, err := decodeProject(lease.Project(k[1:]), v)
		if err != nil {
			return fn(lease.Scope{Project: lease.Project(k[1:])}, 0, err)
		}
		return fn(*p, sum(k, v), nil)
	})
}

// Actors implements ledger.Snapshot.
func (s *snapshot) Actors(fn func(a lease.Identity, sum uint64, err error) bool) {
	scan(s.r, []byte{keyActor}, func(k, v []byte) bool {
		a, err := decodeActor(lease.ActorID(k[1:]), v)
		if err == nil && a.Events == 0 {
			err = errors.New("it has no event")
		}
		if err != nil {
			return fn(lease.Identity{Actor: lease.Actor{ID: lease.ActorID(k[1:])}}, 0, err)
		}
		return fn(a.Identity, sum(k, v), nil)
	})
}
