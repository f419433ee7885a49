package ledger

import "macbatch/lease"

// indexes compares what no event tells of: the entries that lead to rows, and, with
// what the head keeps if that could be read, the sums of them and of the identity.
func (v *verifier) indexes(headed bool) {
	keys, reuses := v.keys(), v.reuses()
	if !headed {
		return
	}
	v.entries("key", "idempotency keys", v.head.Keys, keys)
	v.entries("reuse", "reusable work", v.head.Reuses, reuses)
	if v.head.Identity != v.snap.Identity() {
		v.add("identity_edited", "ledger", "the identity of the store is not the one that it was made with")
	}
}

// keyOf is what a job is found by when it is submitted again; "": by nothing.
func keyOf(j *lease.Job) string {
	switch {
	case j.Key != "":
		return string(j.Project) + "\x00" + j.Key
	case j.Input != lease.Input{}:
		parts := []string{string(j.Kind), string(j.Params), string(j.Input.Digest[:])}
		if j.Cost.Max > 0 {
			parts = append(parts, j.Cost.Max.String())
		}
		if len(j.Require) > 0 {
			parts = append(parts, "require "+string(lease.TagsOf(j.Require)))
		}
		d := lease.ReuseDigest(parts...)
		return string(j.Project) + "\x00\x00" + string(d[:])
	}
	return ""
}

// key looks for the entry of a job's key: it leads to the newest that has it.
func (v *verifier) key(j *lease.Job) {
	key := keyOf(j)
	if key == "" {
		return
	}
	switch of := v.snap.Key(key); {
	case of == 0:
		v.add("key_missing", j.ID.String(), "its key %.200q leads to no job", key)
	case of < j.ID:
		v.add("key_disagrees", j.ID.String(), "its key %.200q leads to the earlier job %v", key, of)
	}
}

// keys compares the entries of idempotency keys with the jobs that they lead to.
func (v *verifier) keys() (found Entries) {
	v.snap.Keys(func(e Entry) bool {
		found.N, found.Sum = found.N+1, found.Sum+e.Sum
		j := v.snap.Job(e.Of.Job)
		switch {
		case e.Err != nil:
			v.add("row_unreadable", "ledger", "key %.200q: %v", e.Key, e.Err)
		case j == nil:
			v.add("orphan_key", e.Of.Job.String(), "key %.200q leads to this job, which is not there", e.Key)
		case keyOf(j) != e.Key:
			v.add("key_disagrees", e.Of.Job.String(), "key %.200q leads to this job, whose key it is not", e.Key)
		}
		return true
	})
	return found
}

// reuses compares the entries of reusable work with the shards that did it.
func (v *verifier) reuses() (found Entries) {
	var j *lease.Job
	v.snap.Reuses(func(e Entry) bool {
		found.N, found.Sum = found.N+1, found.Sum+e.Sum
		if j == nil || j.ID != e.Of.Job {
			j = v.snap.Job(e.Of.Job)
		}
		s := v.snap.Shard(e.Of)
		_, pruning := v.pruning[e.Of.Job]
		switch {
		case e.Err != nil:
			v.add("row_unreadable", "ledger", "reusable work %x: %v", e.Key, e.Err)
		case j == nil && pruning: // the entry is to go, as the rows are
		case j == nil || s == nil:
			v.add("orphan_reuse", e.Of.String(), "work %x is said to be done by this shard, which is not there", e.Key)
		case s.State != lease.Done || !s.From.IsZero() || s.Result.Failed > 0 || v.workOf(j, s) != e.Key:
			v.add("reuse_disagrees", e.Of.String(), "work %x is said to be done by this shard, which did other work, or none", e.Key)
		}
		return true
	})
	return found
}

// workOf identifies what a shard did: within its project, by its input and by the
// results that it waited for. "": it cannot be told.
func (v *verifier) workOf(j *lease.Job, s *lease.Shard) string {
	parts := []string{string(j.Project), string(s.Reuse[:])}
	if s.Range != (lease.Range{}) {
		parts = []string{string(j.Project), string(j.Reuse[:]), string(s.Range.Digest[:])}
	}
	for _, seq := range s.After {
		on := v.snap.Shard(lease.ShardID{Job: j.ID, Seq: seq})
		if on == nil || on.State != lease.Done {
			return ""
		}
		parts = append(parts, string(on.Result.Digest[:]))
	}
	d := lease.ReuseDigest(parts...)
	return string(d[:])
}

// entries compares what the head sums of an index with what is there.
func (v *verifier) entries(kind, what string, want, found Entries) {
	switch {
	case found.N < want.N:
		v.add(kind+"_missing", "ledger", "%d entries of %s are there, %d were made", found.N, what, want.N)
	case found != want:
		v.add(kind+"_disagrees", "ledger", "the %d entries of %s are not the %d that were made", found.N, what, want.N)
	}
}
