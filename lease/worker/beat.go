package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"macbatch/lease"
)

const (
	tick = time.Second     // between two looks at the clocks
	jump = 5 * time.Second // by which they may part, or a look be late
)

// heart sends heartbeats, and one at once whenever a lease is in doubt.
func (a *Agent) heart(ctx context.Context) {
	fails, last := 0, a.mono()
	for {
		next := last + a.pace()
		if fails > 0 {
			next = min(next, last+time.Duration((0.5+a.cfg.Rand()/2)*float64(lowPause<<min(fails, 10))))
		}
		timer := time.NewTimer(next - a.mono())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.granted:
			timer.Stop()
			continue
		case <-a.beatNow:
			// After a failure only the clock decides, or doubt would make it a storm.
			if fails > 0 && a.mono() < next {
				timer.Stop()
				select {
				case <-ctx.Done():
					return
				case <-time.After(next - a.mono()):
				}
			}
		case <-timer.C:
		}
		timer.Stop()
		last = a.mono()
		err := a.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case fatal(err):
			a.end(err)
			return
		case err != nil:
			fails++
			a.log.Debug("no heartbeat", "err", err, "fails", fails)
		default:
			fails = 0
		}
	}
}

// pace is the time between two heartbeats: six of them fit into the shortest term.
func (a *Agent) pace() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := lease.Heartbeat
	for _, t := range a.tasks {
		d = min(d, t.grant.Term/6)
	}
	return d
}

// beat renews all leases and ends the work on those that are lost.
func (a *Agent) beat(ctx context.Context) error {
	a.mu.Lock()
	jumps := a.jumps
	b := lease.Beat{Hello: a.hello(), Facts: a.facts(), Withdrawn: a.lacks()}
	sent := make([]*task, 0, len(a.tasks))
	listed := map[key]bool{}
	for _, t := range a.tasks {
		if !errors.Is(context.Cause(t.ctx), ErrLeaseLost) { // asked and answered
			sent = append(sent, t)
		}
	}
	slices.SortFunc(sent, func(x, y *task) int { return x.grant.Shard.Compare(y.grant.Shard) })
	for _, t := range sent {
		listed[t.key()] = true
		b.Leases = append(b.Leases, lease.LeaseBeat{Shard: t.grant.Shard, Fence: t.grant.Fence, Phase: t.phase, Work: t.work.Load(), Signs: t.signs.Load()})
	}
	for _, g := range a.gives { // until it is given back it is ours: it must not lapse
		if k := (key{g.Shard, g.Fence}); !listed[k] {
			listed[k] = true
			b.Leases = append(b.Leases, lease.LeaseBeat{Shard: g.Shard, Fence: g.Fence, Phase: lease.Waiting})
		}
	}
	a.mu.Unlock()
	for _, k := range a.mail.waiting(lease.MaxReports) {
		if !listed[k] {
			b.Leases = append(b.Leases, lease.LeaseBeat{Shard: k.shard, Fence: k.fence, Phase: lease.Spooled})
		}
	}

	at := a.wall()
	ctx, cancel := context.WithTimeout(ctx, max(a.pace(), 2*time.Second))
	defer cancel()
	ans, err := a.cfg.Control.Heartbeat(ctx, b)
	if err != nil {
		return err
	}
	a.seen.heard(ans.Mark)
	a.keepMarks()
	lost := map[lease.ShardID]bool{}
	for _, s := range ans.Lost {
		lost[s] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range sent { // one granted meanwhile was not asked about
		foreign := t.store.Foreign(ans.Mark.Store)
		if foreign && t.phase != lease.Waiting { // it knows nothing of it: the work goes on, for the store that granted it
			a.log.Warn("another store answers: the lease is kept", t.attrs(), "granted", t.store, "answered", ans.Mark.Store)
			continue
		}
		if lost[t.grant.Shard] || foreign {
			a.log.Warn("lease lost", t.attrs())
			t.cancel(ErrLeaseLost)
		} else {
			t.held = at
		}
	}
	a.drain(ans.Drain)
	a.asked(ans.Back)
	if a.doubt && a.jumps == jumps {
		a.doubt = false
		poke(a.wake)
	}
	a.answered()
	return nil
}

// keepMarks saves how far stores were seen to be. It can't be helped when it fails.
func (a *Agent) keepMarks() {
	if err := a.seen.save(); err != nil {
		a.log.Warn("marks not kept", "err", err)
	}
}

// watch compares the clocks.
func (a *Agent) watch(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			a.notice()
		}
	}
}

// notice raises doubt about all leases when the machine slept or this process
// stood still: the clocks parted, or nobody looked for long.
func (a *Agent) notice() {
	a.mu.Lock()
	wall, mono := a.wall(), a.mono()
	byWall, byMono := wall.Sub(a.seenWall), mono-a.seenMono
	a.seenWall, a.seenMono = wall, mono
	jumped := (byWall-byMono).Abs() > jump || byMono > jump
	if jumped {
		a.jumps++
		a.doubt = true
	}
	a.spot(mono, jumped)
	a.mu.Unlock()
	if jumped {
		a.log.Warn("the machine slept or its clock was set: asking whether leases hold", "wall", byWall, "monotonic", byMono)
		poke(a.beatNow)
	}
}

// inDoubt reports whether a heartbeat has to come before anything else.
func (a *Agent) inDoubt() bool {
	a.notice()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.doubt
}

// sure returns nil when t's lease holds, by the wall clock or by a heartbeat.
func (a *Agent) sure(ctx context.Context, t *task) error {
	for {
		doubt := a.inDoubt()
		a.mu.Lock()
		age := a.wall().Sub(t.held)
		beaten := a.beaten
		a.mu.Unlock()
		if err := context.Cause(t.ctx); err != nil {
			return err
		}
		if !doubt && age >= 0 && age < t.grant.Term {
			return nil
		}
		poke(a.beatNow)
		select {
		case <-beaten:
		case <-t.ctx.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
