package store_test

import (
	"errors"

	"macbatch/lease"
)

// intend reserves money for a shard of a worker's, or more of it.
func (w *world) intend(p *player) {
	h := w.any(p)
	if h == nil {
		return
	}
	row, _ := w.find(h.Shard) // a store that was rolled back may not know it
	err := w.ctl().Intend(w.Context(), lease.Intention{
		Shard: h.Shard, Fence: h.Fence, Token: h.Token, Reserve: lease.Cost(1 + w.rnd.IntN(9)), Idle: w.rnd.IntN(2) == 0,
	})
	switch {
	case errors.Is(err, lease.ErrFenced), errors.Is(err, lease.ErrConflict), errors.Is(err, lease.ErrNotFound):
		job, jerr := w.ctl().Job(w.Context(), h.Shard.Job)
		if jerr == nil && !job.Canceled && row.State == lease.Leased && row.Fence == h.Fence && w.clock.Now().Before(h.until) {
			w.Fatalf("intend on %v under %v, row %+v: %v", h.Shard, h.Fence, row, err)
		}
		w.count["late intent"]++
	case errors.Is(err, lease.ErrOverBudget), errors.Is(err, lease.ErrBudgetHeld):
		w.count["over budget"]++
	case !w.failed("intend", err):
		w.count["intent"]++
		if job, err := w.ctl().Job(w.Context(), h.Shard.Job); err == nil && job.Cost.Max > 0 && job.Cost.Reserved+job.Cost.Spent > job.Cost.Max {
			w.Fatalf("job %v: bill %+v is over its limit", job.ID, job.Cost)
		}
	}
}

// resend sends again all that is parked.
func (w *world) resend() {
	for _, j := range w.all() {
		job, err := w.ctl().Job(w.Context(), j.ID)
		if w.failed("job", err) || job.Parked == 0 || job.Canceled {
			continue
		}
		w.count["parked"] += int(job.Parked)
		got, err := w.ctl().Retry(w.Context(), job.ID, lease.Selection{Resend: true}, 0)
		if errors.Is(err, lease.ErrNotAllowed) || w.failed("resend", err) {
			continue
		}
		w.count["resent"] += got.Resent
	}
}
