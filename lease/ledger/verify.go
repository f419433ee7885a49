package ledger

import (
	"fmt"
	"maps"
	"slices"

	"macbatch/lease"
)

// Limit is how many histories a pass holds: about 40 MB.
const Limit = 300_000

const maxProblems = 10_000

type verifier struct {
	snap     Snapshot
	limit    int
	head     Head
	problems []lease.Problem
	more     int                  // problems beyond maxProblems
	pruning  map[lease.JobID]bool // jobs whose rows are being removed: whether the ledger says so

	// The pass: ids from <= id < to; a zero to means to the end.
	from, to lease.ShardID
	folds    map[lease.ShardID]*fold
	dropped  lease.JobID // pruned, though its own events belong to an earlier pass

	pauses map[lease.Target]pause // of kinds, workers and everything: how each began
	scopes map[string]*scopeFold  // projects and actors, by their name in problems

	counting lease.JobID // whose shards are being added up
	counts   recount
}

// Verify checks a snapshot, holding at most limit histories at a time. Its error
// means that it could not be read at all.
func Verify(s Snapshot, limit int) ([]lease.Problem, error) {
	v := &verifier{snap: s, limit: max(limit, 2), pruning: map[lease.JobID]bool{}, pauses: map[lease.Target]pause{}, scopes: map[string]*scopeFold{}}
	var err error
	if v.head, err = s.Head(); err != nil {
		v.add("head_disagrees", "ledger", "%v", err)
	}
	s.Pruning(func(id lease.JobID) bool { v.pruning[id] = false; return true })
	v.folds = map[lease.ShardID]*fold{}
	for first := true; ; first = false {
		v.ledger(first, err == nil)
		v.rows()
		v.jobRows()
		v.orphans()
		if first {
			v.pauseRows()
			v.scopeRows()
			v.indexes(err == nil)
		}
		if v.to.IsZero() {
			break
		}
		v.from, v.to = v.to, lease.ShardID{}
		clear(v.folds)
	}
	v.counted()
	v.idle()
	for _, id := range slices.Sorted(maps.Keys(v.pruning)) {
		if v.pruning[id] {
			continue
		}
		v.add("prune_disagrees", id.String(), "its rows are being removed, though it was not pruned")
	}
	if v.more > 0 {
		v.problems = append(v.problems, lease.Problem{Kind: "more_problems", Subject: "ledger", Detail: fmt.Sprintf("%d more", v.more)})
	}
	return v.problems, nil
}

func (v *verifier) add(kind, subject, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		v.more++
		return
	}
	v.problems = append(v.problems, lease.Problem{Kind: kind, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

func subject(id lease.ShardID) string {
	switch {
	case id == lease.ShardID{}:
		return "ledger"
	case id.Seq == 0:
		return id.Job.String()
	}
	return id.String()
}

// within tells whether an id belongs to the pass.
func (v *verifier) within(id lease.ShardID) bool {
	return id.Compare(v.from) >= 0 && (v.to.IsZero() || id.Compare(v.to) < 0)
}

// ledger folds the events of the pass. The first time it also checks the chain,
// and that the ledger begins and ends where the head says.
func (v *verifier) ledger(first, headed bool) {
	next, last := v.head.Base+1, v.head.BaseChain
	var seal lease.Event
	carried, sealed := uint64(0), uint64(0) // over the cut in the making, and over the sealed one
	v.snap.Records(v.head.Base, v.head.BaseChain, func(r Record) bool {
		if first {
			v.record(&r, next)
		}
		next, last = r.First+uint64(len(r.Events)), r.Chain
		for i := range r.Events {
			ev := &r.Events[i]
			switch {
			case ev.Kind == lease.EventCheckpoint:
				seal = *ev
			case ev.Kind == lease.EventCarried && ev.Seq < v.head.Seal:
				sealed++
			case ev.Kind == lease.EventCarried && v.head.Cut > 0 && ev.Seq > v.head.Cut:
				carried++
			}
			if v.within(ev.ShardID()) {
				v.fold(ev)
			}
			if len(v.folds) > v.limit {
				v.shrink()
			}
		}
		return true
	})
	if !first {
		return
	}
	if headed && (v.head.Seq != next-1 || v.head.Chain != last) {
		v.add("head_disagrees", "ledger", "the head names event %d, the ledger ends at %d, or its digest differs", v.head.Seq, next-1)
	}
	if seal.Seq != v.head.Seal || seal.Cut != v.head.Base || seal.Digest != v.head.BaseChain || seal.Carried != sealed {
		v.add("checkpoint_disagrees", "ledger", "event %d seals event %d with %d rows carried, the head names event %d and its cut %d, the ledger carries %d",
			seal.Seq, seal.Cut, seal.Carried, v.head.Seal, v.head.Base, sealed)
	}
	if headed && v.head.Carried != carried {
		v.add("checkpoint_disagrees", "ledger", "the head counts %d rows carried over event %d, the ledger %d", v.head.Carried, v.head.Cut, carried)
	}
}

func (v *verifier) record(r *Record, next uint64) {
	if r.Err != nil {
		v.add("event_unreadable", "ledger", "%v", r.Err)
	}
	if r.Chain != r.Computed {
		v.add("chain_broken", "ledger", "the record of events %d to %d was changed, or one before it removed", r.First, r.First+uint64(max(len(r.Events), 1))-1)
	}
	if r.First != next && r.Err == nil {
		v.add("chain_broken", "ledger", "event %d is followed by event %d", next-1, r.First)
	}
}

// pruned tells whether the ledger says that a job of the pass was pruned.
func (v *verifier) pruned(id lease.JobID) bool {
	f := v.folds[lease.ShardID{Job: id}]
	return f != nil && f.pruned || id == v.dropped && id != 0
}

// orphans ends a pass: what has events must have had a row.
func (v *verifier) orphans() {
	dropped := lease.JobID(0)
	for id, f := range v.folds {
		pruned := v.pruned(id.Job)
		if _, marked := v.pruning[id.Job]; marked && pruned {
			v.pruning[id.Job] = true
		}
		if pruned && id.Job == v.to.Job {
			dropped = id.Job
		}
		if !f.seen && !id.IsZero() && !pruned {
			v.add("orphan_events", subject(id), "%d events, but no row", f.n)
		}
	}
	v.dropped = dropped
}
