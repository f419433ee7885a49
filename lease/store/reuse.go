package store

import (
	"macbatch/lease"
)

// maxReuse bounds the shards that one claim settles with earlier results.
const maxReuse = 256

// reuseOf is the identity of a shard's work including the results it waited for;
// zero when it is not to be reused.
func (t *tx) reuseOf(sh *shardTx) lease.Digest {
	parts := []string{string(sh.Project), string(sh.Reuse[:])}
	if sh.Range != (lease.Range{}) {
		j, err := t.job(sh.ID.Job)
		if err != nil || j.Reuse.IsZero() {
			return lease.Digest{}
		}
		parts = []string{string(sh.Project), string(j.Reuse[:]), string(sh.Range.Digest[:])}
	} else if sh.Reuse.IsZero() {
		return lease.Digest{}
	}
	for _, seq := range sh.After {
		on, err := t.shard(lease.ShardID{Job: sh.ID.Job, Seq: seq})
		if err != nil || on.State != lease.Done {
			return lease.Digest{}
		}
		parts = append(parts, string(on.Result.Digest[:]))
	}
	return lease.ReuseDigest(parts...)
}

// earlier returns the done shard whose work has the identity key; nil: there is
// none. The entry nominates, the rows decide: one that was damaged must not hand on
// the result of other work, or of another project.
func (t *tx) earlier(key lease.Digest) *shardTx {
	b := t.get(reuseKey(key))
	if b == nil {
		return nil
	}
	from, err := t.shard(shardOfKey(append([]byte{keyShard}, b...)))
	if err != nil || from.State != lease.Done || t.reuseOf(from) != key {
		return nil
	}
	return from
}

// reuse settles a claimable shard with the result of equal work, of identity key,
// done earlier.
func (t *tx) reuse(sh *shardTx, key lease.Digest) (bool, error) {
	if sh.State != lease.Ready || sh.Fresh || key.IsZero() {
		return false, nil
	}
	from := t.earlier(key)
	if from == nil || from.ID == sh.ID {
		return false, nil
	}
	res, err := t.resultOf(&from.Shard)
	if err != nil {
		return false, nil
	}
	for _, d := range keeps(&res) {
		if _, here := t.s.present[d]; !here {
			return false, nil
		}
	}
	var plan lease.Plan
	if from.Planned > 0 {
		if res.Blob {
			return false, nil // what it plans is not known without reading it
		}
		j, err := t.job(sh.ID.Job)
		if err != nil {
			return false, err
		}
		means, err := t.s.planner.Accept(&j.Job, &sh.Shard, res.Inline, nil)
		if err != nil {
			return false, nil
		}
		plan = means.Plan
		if !t.runnable(sh, plan) {
			return false, nil
		}
	}
	if err := t.step(sh, lease.Reuse{From: from.ID, Result: res}); err != nil {
		return false, err
	}
	return true, t.done(sh, plan)
}

// runnable reports whether each shard of a plan could be done: it needs no blob
// that has been dropped, or has an earlier result itself.
func (t *tx) runnable(parent *shardTx, plan lease.Plan) bool {
	for _, sp := range plan {
		if len(t.s.missing(parent.Project, sp.Inputs)) == 0 {
			continue
		}
		if sp.Reuse.IsZero() || len(sp.After) > 0 {
			return false
		}
		key := lease.ReuseDigest(string(parent.Project), string(sp.Reuse[:]))
		from := t.earlier(key)
		if from == nil {
			return false
		}
		if _, here := t.s.present[from.Result.Digest]; from.Result.Blob && !here {
			return false
		}
	}
	return true
}
