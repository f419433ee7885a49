package worker

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"macbatch/lease"
)

const (
	exchangeTime = 2 * time.Minute // bound of an exchange, beside its wait for work
	leastTerm    = time.Second / 2
	quickAnswer  = time.Second // an empty answer to a wait that comes sooner is not believed twice at once
)

// claim is a request number whose grants are not known yet.
type claim struct {
	number uint64    // 0: none is open
	since  time.Time // wall clock when it was first sent: its leases count from then
}

// turn is one exchange, or a reason to wait.
type turn struct {
	x     lease.Exchange
	batch []parcel
	send  bool
	until time.Duration // when to look again, should nothing happen
}

// exchanges delivers and claims until life ends, or the drain is complete.
func (a *Agent) exchanges(life context.Context) error {
	var (
		open   claim
		number uint64 // the last one used
		ready  bool   // the spool was replayed: claims may begin
		more   bool   // the control plane asked to be asked again
		fails  int
		hasty  int // empty answers in a row that came too soon
	)
	for life.Err() == nil {
		t := a.compose(&open, &number, &ready, more)
		if !t.send {
			if a.drained() && a.mail.clear() {
				return nil
			}
			a.idle(life, t.until)
			continue
		}
		began := a.mono()
		ans, cut, err := a.send(life, t)
		switch {
		case err == nil:
			if fails > 0 {
				a.log.Info("the control plane answers again")
			}
			fails, more = 0, ans.More
			a.seen.heard(ans.Mark)
			a.mail.settle(t.batch, ans.Verdicts, ans.Mark.Store)
			a.given(t.x.Releases)
			if t.x.Request != 0 {
				a.take(ans.Grants, open.since, ans.Mark.Store)
				open = claim{}
			}
		case life.Err() != nil:
		case cut:
		case fatal(err):
			a.mail.release(t.batch)
			return err
		case refused(err) && len(t.batch) > 0:
			a.mail.refused(t.batch, err)
			err = nil // the others need not wait
		case refused(err) && len(t.x.Releases) > 0:
			a.log.Error("releases refused: their leases will lapse", "err", err)
			a.given(t.x.Releases)
		}
		a.mail.release(t.batch)
		if err != nil && !cut && life.Err() == nil {
			if fails++; fails == 1 {
				a.log.Warn("exchange failed, trying again", "err", err)
			}
			_ = a.pause(life, fails-1) // life is looked at next
		}
		if err == nil && t.x.Wait > 0 && len(ans.Grants) == 0 && !more && a.mono()-began < quickAnswer {
			a.idle(life, a.mono()+a.jitter(hasty))
			hasty++
		} else {
			hasty = 0
		}
	}
	return context.Cause(life)
}

// compose decides what to send now.
func (a *Agent) compose(open *claim, number *uint64, ready *bool, more bool) turn {
	select { // what was noted until now is looked at here
	case <-a.wake:
	default:
	}
	t := turn{until: a.mono() + lease.MaxWait}
	if a.inDoubt() {
		return t
	}
	if err := a.mail.scan(); err != nil {
		a.log.Error("the spool can't be read", "err", err)
	}
	var due time.Duration
	t.batch, due = a.mail.batch()
	t.until = min(t.until, due)
	*ready = *ready || len(t.batch) == 0 && a.mail.clear()
	roomy := a.roomy()
	if !roomy {
		t.until = min(t.until, a.mono()+diskCheck)
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	t.x.Hello = a.hello()
	for _, p := range t.batch {
		t.x.Reports = append(t.x.Reports, p.report)
	}
	t.send = len(t.batch) > 0
	if t.send && a.mail.apart() {
		return t // one of these reports was refused: nothing else shall suffer from it
	}
	t.x.Releases = slices.Clone(a.gives[:min(len(a.gives), lease.MaxReports)])
	t.send = t.send || len(t.x.Releases) > 0 || more && !a.draining

	free, extra, per := 0, 0, map[lease.Kind]int(nil)
	if *ready && roomy && !a.draining && a.drainedBy.IsZero() && a.rests == "" {
		free, extra, per = a.free()
	}
	t.x.Paces = a.known(t.x.Offer)
	switch {
	case free > 0 || extra > 0 && t.send && len(t.x.Releases) == 0 && len(t.x.Paces) > 0:
		if open.number == 0 {
			*number++
			*open = claim{*number, a.wall()}
		}
		t.x.Request, t.x.Max, t.x.PerKind, t.x.Job = open.number, free, per, a.cfg.Job
		t.x.Loaded = a.loaded()
		if len(t.x.Paces) > 0 && len(t.x.Releases) == 0 { // what was given back shall not return at once
			t.x.Extra, t.x.Ahead, t.x.Held = extra, aheadTime, a.held(t.x.Paces)
		}
		if !t.send {
			t.x.Wait = min(max(t.until-a.mono(), tick), lease.MaxWait)
		}
		t.send = true
	case open.number != 0:
		// Nothing new is wanted, but what the open number was granted must be known.
		t.x.Request, t.x.Max, t.x.PerKind, t.x.Job = open.number, 1, map[lease.Kind]int{}, a.cfg.Job
		for _, k := range a.cfg.Offer.Kinds {
			t.x.PerKind[k] = 0
		}
		t.send = true
	default:
		t.x.Paces = nil // they are told with a claim
	}
	return t
}

// free is the number of shards to claim for slots that are free, in all and by
// kind, and how many more may be held. The caller holds a.mu.
func (a *Agent) free() (free, extra int, per map[lease.Kind]int) {
	taken, busy := a.busy()
	for _, t := range a.queue { // they will have the next slots
		taken++
		busy[t.grant.Kind]++
	}
	limit := a.cfg.LeaseLimit - len(a.tasks)
	all, sum := min(a.cfg.Parallel-taken, limit), 0
	per = map[lease.Kind]int{}
	for _, k := range a.offered().Kinds {
		if n := min(all, a.slots(k)-busy[k]); n > 0 {
			per[k] = n
			sum += n
		}
	}
	free = max(0, min(all, sum, lease.MaxGrants))
	return free, max(0, min(limit-free, lease.MaxGrants)), per
}

func (a *Agent) slots(k lease.Kind) int {
	if n, ok := a.cfg.Slots[k]; ok {
		return n
	}
	return a.cfg.Parallel
}

// send makes the exchange. One that waits for work is cut short by a wake.
func (a *Agent) send(ctx context.Context, t turn) (ans lease.Exchanged, cut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.x.Wait+exchangeTime)
	defer cancel()
	if t.x.Wait == 0 {
		ans, err = a.cfg.Control.Exchange(ctx, t.x)
		return ans, false, err
	}
	answered, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-answered:
		case <-a.wake:
			cut = true
			cancel()
		}
	}()
	ans, err = a.cfg.Control.Exchange(ctx, t.x)
	close(answered)
	<-watched
	return ans, cut && err != nil, err
}

// idle waits for something to do.
func (a *Agent) idle(ctx context.Context, until time.Duration) {
	timer := time.NewTimer(until - a.mono())
	defer timer.Stop()
	select {
	case <-a.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// take begins the work of new grants of a store. Their leases count from since.
func (a *Agent) take(grants []lease.Grant, since time.Time, by lease.StoreID) {
	for _, g := range grants {
		if g.Term <= 0 {
			g.Term = lease.Term
		}
		g.Term = max(g.Term, leastTerm) // heartbeats follow from it
		k := key{g.Shard, g.Fence}
		if a.mail.holds(k) {
			continue
		}
		a.mu.Lock()
		refusal, delay := "", time.Duration(0)
		for _, t := range a.tasks {
			if t.grant.Shard == g.Shard && t.grant.Fence < g.Fence {
				t.cancel(ErrLeaseLost)
			}
		}
		switch _, known := a.tasks[k]; {
		case known:
			a.mu.Unlock()
			continue
		case a.draining:
			refusal = errShutdown.Error()
		case !slices.Contains(a.cfg.Offer.Kinds, g.Kind):
			refusal, delay = "this worker does not do "+string(g.Kind), restRelease
		case len(a.tasks) >= max(a.cfg.LeaseLimit, a.cfg.Parallel):
			refusal, delay = "no free slot", tick
		}
		if refusal == "" {
			t := &task{grant: g, store: by, dir: filepath.Join(a.cfg.Dir, folderName(k)), phase: lease.Waiting, held: since, admitted: make(chan struct{})}
			t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(a.cfg.Base))
			a.tasks[k] = t
			a.queue = append(a.queue, t)
			a.stir()
			a.running.Add(1) // not while draining, so never after the wait began
			go a.attempt(t)
			a.admit()
		}
		a.mu.Unlock()
		if refusal != "" {
			a.giveBack(k, refusal, delay, 0)
		}
	}
	if len(grants) > 0 {
		poke(a.granted)
	}
}

// give gives a task's shard back with the next exchange.
func (a *Agent) give(t *task, reason string, delay time.Duration) {
	a.log.Info("given back", t.attrs(), "reason", legible(reason), "delay", delay)
	a.giveBack(t.key(), reason, delay, lease.Cost(t.spent.Load()))
}

func (a *Agent) giveBack(k key, reason string, delay time.Duration, spent lease.Cost) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gives = append(a.gives, lease.Give{Shard: k.shard, Fence: k.fence, Reason: legible(reason), Cost: spent, Delay: delay})
	poke(a.wake)
}

// given forgets the releases that were answered.
func (a *Agent) given(sent []lease.Give) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gives = slices.DeleteFunc(a.gives, func(g lease.Give) bool { return slices.Contains(sent, g) })
}

// forget ends a task: its slot is free.
func (a *Agent) forget(t *task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tasks, t.key())
	a.admit()
	a.stir()
	poke(a.wake)
}

// drained reports whether nothing runs and nothing is to be given back, for good.
func (a *Agent) drained() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining && len(a.tasks) == 0 && len(a.gives) == 0
}
