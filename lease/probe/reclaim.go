package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"macbatch/lease"
)

// reclaim is the scenario kill-and-reclaim.
func reclaim(ctx context.Context, o Options, r *Report) error {
	s, err := newStage(ctx, &o, r, o.Term)
	defer s.end()
	if err != nil {
		return err
	}
	dead, err := s.holdAll()
	if err != nil {
		return err
	}
	// All is leased to the dead: nobody gets anything before their term is over,
	// and a control plane that was killed too gives it to them once more.
	if err := s.early(ctx); err != nil {
		return err
	}
	// Terms begin anew while the next one starts: when is not known exactly, but
	// not before the kill.
	restarted := time.Now()
	if err := s.killPlane(); err != nil {
		return err
	}
	if err := s.early(ctx); err != nil {
		return err
	}
	if err := s.takeOver(ctx, dead, restarted); err != nil {
		return err
	}
	if err := s.finish(ctx); err != nil {
		return err
	}
	r.judge(2)
	r.must("kills", r.Kills, s.victims+2)
	r.must("grants before a lapse", r.Early, 0)
	r.must("stale reports of the dead", r.Stale, r.Items)
	r.must("other answers to the dead", r.Resurfaced, 0)
	return nil
}

// holdAll lets workers claim everything, each a share; a worker that told what it
// holds is killed. It returns what the dead would have reported.
func (s *stage) holdAll() (dead map[lease.ShardID]lease.Report, err error) {
	dead = map[lease.ShardID]lease.Report{}
	for w, left := 0, s.o.Items; w < s.o.Workers; w++ {
		share := left / (s.o.Workers - w)
		left -= share
		for part := 0; share > 0; part++ { // a claim has a limit: several workers hold a large share
			n := min(share, lease.MaxGrants)
			share -= n
			s.victims++
			name := fmt.Sprintf("victim%d-%d", w+1, part+1)
			p, err := s.worker(name, n, true)
			if err != nil {
				return nil, err
			}
			told, err := p.next()
			if err != nil {
				return nil, fmt.Errorf("worker %s: %w: %s", name, err, p.said)
			}
			s.killed()
			p.kill()
			s.count(lease.WorkerID(name), told)
			for _, g := range told.Grants {
				dead[g.Shard] = report(lease.WorkerID(name), g)
			}
		}
	}
	return dead, nil
}

// early claims while everything is leased.
func (s *stage) early(ctx context.Context) error {
	out, err := s.ctl.Exchange(ctx, lease.Exchange{
		Hello:   lease.Hello{Worker: "early", Incarnation: 1, Machine: "early", Offer: lease.Offer{Kinds: []lease.Kind{Kind}}},
		Request: uint64(s.r.Kills), Max: 10, PerKind: map[lease.Kind]int{Kind: 10},
	})
	s.r.Early += len(out.Grants)
	return err
}

// takeOver lets other workers do it all. Each time one of them was granted a
// shard, the report of the dead holder arrives. Half-way the control plane is
// killed once more.
func (s *stage) takeOver(ctx context.Context, dead map[lease.ShardID]lease.Report, restarted time.Time) error {
	var group errgroup.Group
	late := make(chan lease.Report, len(dead))
	half := make(chan struct{})
	done, first := 0, true
	var mu sync.Mutex
	var told = map[lease.ShardID]bool{}
	seen := func(n news) {
		mu.Lock()
		defer mu.Unlock()
		for _, g := range n.Grants {
			if first && time.Since(restarted) < s.term {
				s.r.Early++
			}
			first = false
			if rep, ok := dead[g.Shard]; ok && !told[g.Shard] {
				told[g.Shard] = true
				late <- rep
			}
		}
		if was := done; len(n.Verdicts) > 0 {
			if done += len(n.Verdicts); was < (s.o.Items+1)/2 && done >= (s.o.Items+1)/2 {
				close(half)
			}
		}
	}
	ghosts := make(chan error, 1)
	go func() { ghosts <- s.haunt(ctx, late) }()
	for i := range s.o.Workers {
		name := fmt.Sprintf("heir%d", i+1)
		p, err := s.worker(name, 1, false)
		if err != nil {
			close(late)
			return errors.Join(err, <-ghosts)
		}
		group.Go(func() error { return s.follow(p, name, seen) })
	}
	drained := make(chan error, 1)
	go func() { drained <- group.Wait() }()
	var err error
	select {
	case <-half:
		err = s.killPlane()
		err = errors.Join(err, <-drained)
	case err = <-drained:
	}
	close(late)
	return errors.Join(err, <-ghosts)
}

// haunt delivers the reports of the dead.
func (s *stage) haunt(ctx context.Context, late <-chan lease.Report) error {
	for rep := range late {
		batch := []lease.Report{rep}
		for len(late) > 0 && len(batch) < 100 {
			batch = append(batch, <-late)
		}
		var out lease.Exchanged
		for {
			var err error
			if out, err = s.ctl.Exchange(ctx, lease.Exchange{Reports: batch}); err == nil {
				break
			}
			if ctx.Err() != nil || !errors.Is(err, lease.ErrUnreachable) {
				return fmt.Errorf("reports of the dead: %w", err)
			}
			select { // it was killed
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for _, v := range out.Verdicts {
			if v.Verdict == lease.Stale {
				s.r.Stale++
			} else {
				s.r.Resurfaced++
			}
		}
	}
	return nil
}
