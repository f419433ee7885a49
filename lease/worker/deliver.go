package worker

import (
	"context"
	"errors"
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

// Delivery sends what a spool holds whose worker does not run, or is not the only
// one to send it: by tokens and without claiming.
type Delivery struct {
	Control lease.Control
	Spool   *spool.Spool
	Log     *slog.Logger // nil: none

	// Bell wakes a delivery that goes on, as Spool.Bell makes it; nil: it looks by
	// itself alone.
	Bell <-chan struct{}

	// Told, where set, is called after each batch of verdicts, and once before the
	// first, with what was counted so far.
	Told func(Tally)

	courier *courier
}

const (
	busyPause = 250 * time.Millisecond // between two tries to lock the spool
	watchTurn = 15 * time.Second       // between two looks at a spool that is watched
)

// Deliver delivers once: until everything had a verdict. What was denied or
// refused stays and counts as left.
//
// Errors: spool.ErrBusy when another process delivers this spool, or that of the
// control plane; the tally counts what was delivered before.
func (d *Delivery) Deliver(ctx context.Context) (Tally, error) {
	c := d.begin()
	err := c.lock()
	if err == nil {
		err = d.pass(ctx)
		c.free()
	}
	return d.tally(err)
}

// Drain delivers as Deliver does, in turns with the other process where there is
// one, and returns when the spool holds nothing more that can be sent now.
func (d *Delivery) Drain(ctx context.Context) (Tally, error) {
	c := d.begin()
	for {
		err := c.lock()
		if err == nil {
			err = d.pass(ctx)
			c.free()
			return d.tally(err)
		}
		if !errors.Is(err, spool.ErrBusy) {
			return d.tally(err)
		}
		if err := c.scan(); err != nil {
			return d.tally(err)
		}
		if d.told(); c.clear() {
			return d.tally(nil) // the other one delivered all
		}
		if err := rest(ctx, nil, busyPause); err != nil {
			return d.tally(err)
		}
	}
}

// Watch delivers what is there and what comes, until ctx ends: then it returns nil.
// An outage of the control plane is waited out. Errors are those that make a worker
// end, and those of the disk.
func (d *Delivery) Watch(ctx context.Context) (Tally, error) {
	c := d.begin()
	for away := false; ; {
		_, err := d.Drain(ctx)
		switch {
		case ctx.Err() != nil:
			return d.tally(nil)
		case err == nil:
			away = false
		case !errors.Is(err, lease.ErrUnreachable) && !errors.Is(err, lease.ErrUnknownOutcome):
			return d.tally(err)
		case !away:
			away = true
			c.log.Warn("delivery interrupted, trying again", "err", err)
		}
		if rest(ctx, d.Bell, watchTurn) != nil {
			return d.tally(nil)
		}
	}
}

// begin makes the courier at the first call.
func (d *Delivery) begin() *courier {
	if d.courier == nil {
		log, born := d.Log, time.Now()
		if log == nil {
			log = slog.New(slog.DiscardHandler)
		}
		d.courier = newCourier(d.Control, d.Spool, log, func() time.Duration { return time.Since(born) })
	}
	return d.courier
}

// tally is what was counted, and how it ended.
func (d *Delivery) tally(err error) (Tally, error) {
	c := d.courier
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Left = len(c.letters)
	if err != nil {
		err = fmt.Errorf("deliver spool: %w", err)
	}
	return c.tally, err
}

func (d *Delivery) told() {
	if d.Told != nil {
		t, _ := d.tally(nil)
		d.Told(t)
	}
}

// lock takes the spool's lock until free.
func (c *courier) lock() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acquire()
}

// pass sends all that can be sent now. The caller holds the spool's lock.
func (d *Delivery) pass(ctx context.Context) error {
	c := d.courier
	if err := c.scan(); err != nil {
		return err
	}
	for {
		d.told()
		batch, _ := c.batch()
		if len(batch) == 0 {
			did, err := c.upload(ctx)
			if errors.Is(err, lease.ErrDigest) { // damaged, here or on its way: after some tries the report is rejected
				continue
			}
			if err != nil || !did {
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

// rest waits for d, or for a ring of the bell. It returns ctx's cause.
func rest(ctx context.Context, bell <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case _, open := <-bell:
		if !open { // closed with ctx, or its watcher broke: the timer has to do
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
