package store

import (
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
func Check(e kv.Engine, blobs finder) (problems []lease.Problem, err error) {
	err = e.View(func(r kv.Reader) error {
		if r.Get([]byte{keyStore}) == nil {
			return fmt.Errorf("not a macbatch store: it has no identity")
		}
		problems, err = ledger.Verify(&snapshot{r: r, blobs: blobs})
		return err
	})
	return problems, err
}

// Head implements ledger.Snapshot.
func (s *snapshot) Head() (uint64, lease.Digest, error) {
	h, err := decodeHead(s.r.Get([]byte{keyHead}))
	return h.Seq, h.Chain, err
}

// Records implements ledger.Snapshot.
func (s *snapshot) Records(fn func(ledger.Record) bool) {
	var before lease.Digest
	s.r.Log(0, func(first uint64, b []byte) bool {
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

// Jobs implements ledger.Snapshot.
func (s *snapshot) Jobs(fn func(j lease.Job, next uint32, sum uint64, err error) bool) {
	scan(s.r, []byte{keyJob}, func(k, v []byte) bool {
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
func (s *snapshot) Shards(fn func(sh lease.Shard, sum uint64, err error) bool) {
	scan(s.r, []byte{keyShard}, func(k, v []byte) bool {
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
func (s *snapshot) Successors() (n int) {
	scan(s.r, []byte{keyNext}, func(_, _ []byte) bool { n++; return true })
	return n
}

// Plans implements ledger.Snapshot.
func (s *snapshot) Plans(fn func(id lease.ShardID, err error) bool) {
	scan(s.r, []byte{keyPlan}, func(k, v []byte) (more bool) {
		id, err := shardOfKey(k), error(nil)
		if id.Seq == 0 {
			_, err = decodePlace(id.Job, v)
		}
		return fn(id, err)
	})
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
			err = errors.New("it is of an older form: start its control plane once")
		}
		if err != nil {
			return fn(lease.Identity{Actor: lease.Actor{ID: lease.ActorID(k[1:])}}, 0, err)
		}
		return fn(a.Identity, sum(k, v), nil)
	})
}
