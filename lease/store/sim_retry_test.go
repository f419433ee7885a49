package store_test

import (
	"errors"

	"macbatch/lease"
)

// retry asks for some of a job again, whatever became of it.
func (w *world) retry() {
	for id := range w.jobs {
		var what lease.Selection
		switch n := uint32(w.rnd.IntN(4)); w.rnd.IntN(4) {
		case 0:
			what.Items = []uint32{n, n + 1}
		case 1:
			what.Shards = []uint32{n + 1}
		}
		added := 0
		w.jobs[id] = false // also if its outcome is unknown: the store tells
		for after := uint32(0); ; {
			out, err := w.ctl().Retry(w.Context(), id, what, after)
			if errors.Is(err, lease.ErrNotFound) || w.failed("retry", err) {
				return
			}
			w.count["retry"] += out.Added
			added += out.Added
			if after = out.Next; after == 0 {
				break
			}
		}
		if added > 0 {
			return // else the next job has more to do again
		}
	}
}
