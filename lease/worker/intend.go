package worker

import (
	"context"
	"errors"

	"macbatch/lease"
)

// intend makes it durable that a task is about to spend money, and then makes sure
// once more that its lease holds: the answer may have taken long.
func (a *Agent) intend(ctx context.Context, t *task, reserve lease.Cost, idle bool) error {
	i := lease.Intention{Shard: t.grant.Shard, Fence: t.grant.Fence, Token: t.grant.Token, Reserve: reserve, Idle: idle}
	for tries := 0; ; tries++ {
		if err := a.sure(ctx, t); err != nil {
			return err
		}
		err := a.cfg.Control.Intend(ctx, i)
		switch {
		case err == nil:
			return a.sure(ctx, t)
		case errors.Is(err, lease.ErrOverBudget), errors.Is(err, lease.ErrBudgetHeld):
			return err
		case errors.Is(err, lease.ErrFenced):
			return &Released{Reason: "the lease did not hold: " + err.Error(), Delay: tick}
		case refused(err) || fatal(err):
			return err
		}
		if err := a.pause(ctx, tries); err != nil {
			return err
		}
	}
}
