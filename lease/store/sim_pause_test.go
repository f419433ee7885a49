package store_test

import (
	"time"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// pause stops a job, a kind, a worker or everything, for a while or until it is resumed.
func (w *world) pause() {
	var of lease.Target
	switch w.rnd.IntN(5) {
	case 0:
		of.All = true
	case 1:
		of.Kind = leasetest.Work
	case 2:
		of.Worker = w.workers[w.rnd.IntN(len(w.workers))].Worker
	default:
		for of.Job = range w.jobs {
			break
		}
		job, err := w.ctl().Job(w.Context(), of.Job)
		if len(w.jobs) == 0 || w.failed("job", err) || job.State.Terminal() {
			return
		}
	}
	d := time.Duration(w.rnd.IntN(3)) * time.Minute
	delete(w.paused, of) // of unknown outcome, it may be replaced by one that ends
	if err := w.ctl().Pause(w.Context(), of, "hot", d); w.failed("pause", err) {
		return
	}
	w.count["pause"]++
	if d == 0 && w.read() {
		w.paused[of] = w.newest
	}
}

func (w *world) resume() {
	for of := range w.paused {
		delete(w.paused, of)
		if !w.failed("resume", w.ctl().Resume(w.Context(), of, "cool")) {
			w.count["resume"]++
		}
		return
	}
}

// read notes the newest event there is.
func (w *world) read() bool {
	for {
		events, err := w.ctl().Events(w.Context(), lease.ShardID{}, w.newest, 0)
		if w.failed("events", err) {
			return false
		}
		if len(events) == 0 {
			return true
		}
		w.newest = events[len(events)-1].Seq
	}
}

// unpaused checks that a grant was not made after what it is of was paused. It
// may be told later: to a worker that lost the answer.
func (w *world) unpaused(g lease.Grant) {
	if len(w.paused) == 0 {
		return
	}
	events, err := w.ctl().Events(w.Context(), g.Shard, 0, 1000)
	if w.failed("events", err) || len(events) == 0 {
		return
	}
	for _, ev := range events {
		for _, of := range []lease.Target{{Job: g.Shard.Job}, {Kind: g.Kind}, {Worker: ev.Worker}, {All: true}} {
			since, paused := w.paused[of]
			if paused && ev.Kind == lease.EventLeased && ev.Seq > since {
				w.Fatalf("shard %v granted by event %d, but %v was paused before event %d:%s", g.Shard, ev.Seq, of, since, w.tell(g.Shard))
			}
		}
	}
}
