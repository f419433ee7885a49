package probe

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"macbatch/lease"
)

// queue is the scenario concurrent-queue.
func queue(ctx context.Context, o Options, r *Report) error {
	s, err := newStage(ctx, &o, r, lease.Term)
	defer s.end()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for i := range o.Workers {
		name := fmt.Sprintf("w%d", i+1)
		p, err := s.worker(name, 1, false)
		if err != nil {
			return err
		}
		group.Go(func() error { return s.follow(p, name, nil) })
	}
	if o.Started != nil {
		o.Started()
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := s.finish(ctx); err != nil {
		return err
	}
	r.judge(1)
	return nil
}
