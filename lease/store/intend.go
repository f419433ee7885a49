package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"macbatch/lease"
)

// Intend implements lease.Control.
func (c *control) Intend(ctx context.Context, i lease.Intention) error {
	if err := c.may(lease.WorkerRole); err != nil {
		return err
	}
	bearer := i.Token == c.s.token(i.Shard, i.Fence)
	return c.s.do(ctx, func(t *tx) error {
		actor, err := c.actor.now()
		if err != nil {
			return err
		}
		sh, err := t.shard(i.Shard)
		if err != nil {
			return err
		}
		if !bearer || !actor.Sees(sh.Project) || sh.Fence == i.Fence && sh.Holder.Actor != actor.ID {
			return fmt.Errorf("shard %v: %w", i.Shard, lease.ErrNotFound)
		}
		if t.s.index.marks[i.Shard.Job] == markCanceled {
			return fmt.Errorf("intend to spend on shard %v: its job was canceled: %w", i.Shard, lease.ErrFenced)
		}
		err = t.intend(sh, i)
		if l := t.s.index.leases[sh.ID]; l != nil {
			return t.s.index.heldUp(l, i.Idle, t.now, err)
		}
		return err
	})
}

// asks is how a lease waits for room in the budget of its job. It is lost with a
// restart: whoever waits asks again.
type asks uint8

const (
	asksIdly   asks = iota + 1 // nothing is spent under it meanwhile
	asksNoMore                 // it was told that there is no room: it will end
)

// heldUp notes how an intent ended for a lease. Where each lease that holds something
// of the budget waits idly for the others, this one is told that there is no more. One
// that holds nothing waits.
func (x *index) heldUp(l *openLease, idle bool, now time.Time, err error) error {
	if !errors.Is(err, lease.ErrBudgetHeld) {
		l.asks = 0
		return err
	}
	if l.asks == asksNoMore {
		return fmt.Errorf("%w: %s", lease.ErrOverBudget, err.Error())
	}
	if l.asks = 0; !idle || !l.spends {
		return err
	}
	l.asks = asksIdly
	for _, o := range x.leases {
		if o.id.Job == l.id.Job && o.spends && now.Before(o.deadline) && o.asks != asksIdly {
			return err // it will spend what it holds, or end
		}
	}
	l.asks = asksNoMore
	return fmt.Errorf("%w: all that hold some wait for more: %s", lease.ErrOverBudget, err.Error())
}

// intend opens or raises an intent, as far as the job's limit goes.
func (t *tx) intend(sh *shardTx, i lease.Intention) error {
	j, err := t.job(sh.ID.Job)
	if err != nil {
		return err
	}
	was := sh.Intent.Reserved
	err = t.room(j, was, i.Reserve)
	if err == nil || i.Reserve <= was {
		err = t.step(sh, lease.Intend{Fence: i.Fence, Reserve: i.Reserve})
	}
	if errors.Is(err, lease.ErrDuplicate) && sh.State == lease.Leased {
		return nil
	}
	return err
}

// room tells why a job may not reserve more in place of was.
func (t *tx) room(j *jobRow, was, more lease.Cost) error {
	limit := j.Cost.Max
	if limit == 0 {
		return nil
	}
	if all := j.Cost.Spent.Plus(more); all > limit {
		return fmt.Errorf("job %v: %v are spent, %v more are over %v: %w", j.ID, j.Cost.Spent, more, limit, lease.ErrOverBudget)
	}
	if all := (j.Cost.Spent + j.Cost.Reserved - was).Plus(more); all > limit {
		return fmt.Errorf("job %v: %v are spent and %v reserved, %v more are over %v: %w", j.ID, j.Cost.Spent, j.Cost.Reserved-was, more, limit, lease.ErrBudgetHeld)
	}
	return nil
}

// parked counts the leases of a job that lapsed with an intent to spend. s.mu is held.
func (x *index) parked(id lease.JobID, now time.Time) (n uint32) {
	if j := x.jobs[id]; j == nil {
		return 0
	}
	for _, l := range x.leases {
		if l.id.Job == id && l.spends && !now.Before(l.deadline) {
			n++
		}
	}
	return n
}
