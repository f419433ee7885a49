package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"macbatch/lease"
	"macbatch/spool"
)

// Tally counts verdicts.
type Tally struct {
	Accepted, Duplicate, Conflict, Stale, Invalid, Denied int

	Foreign int // not believed: another store granted the lease
	Damaged int // entries that could not be read and were put aside
	Left    int // entries still in the spool
}

// Deliver sends what a spool holds whose worker does not run, by tokens and
// without claiming, until everything has had a verdict. What was denied or
// refused stays and counts as left.
//
// Errors: spool.ErrBusy when another process delivers this spool, or that of the
// control plane; the tally counts what was delivered before.
func Deliver(ctx context.Context, ctl lease.Control, sp *spool.Spool, log *slog.Logger) (Tally, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	born := time.Now()
	c := newCourier(ctl, sp, log, func() time.Duration { return time.Since(born) })
	c.mu.Lock()
	err := c.acquire()
	c.mu.Unlock()
	if err != nil {
		return Tally{}, fmt.Errorf("deliver spool: %w", err)
	}
	defer c.free()
	if err = c.scan(); err == nil {
		err = c.deliver(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Left = len(c.letters)
	if err != nil {
		err = fmt.Errorf("deliver spool: %w", err)
	}
	return c.tally, err
}

func (c *courier) deliver(ctx context.Context) error {
	for {
		batch, _ := c.batch()
		if len(batch) == 0 {
			if did, err := c.upload(ctx); err != nil || !did {
				return err
			}
			continue
		}
		var x lease.Exchange
		for _, p := range batch {
			x.Reports = append(x.Reports, p.report)
		}
		ans, err := c.ctl.Exchange(ctx, x)
		switch {
		case err == nil:
			c.settle(batch, ans.Verdicts, ans.Mark.Store)
		case refused(err):
			c.refused(batch, err)
			err = nil
		}
		c.release(batch)
		if err != nil {
			return err
		}
	}
}
