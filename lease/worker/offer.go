package worker

import (
	"context"
	"slices"
	"time"

	"macbatch/lease"
)

const (
	recheckEvery = time.Minute     // between two looks for what was withdrawn
	withdrawFor  = 5 * time.Minute // without Config.Recheck
)

// withdrawal is something this worker was found to lack.
type withdrawal struct {
	need   lease.Need // as the executor named it
	since  time.Duration
	reason string
	term   time.Duration // after which it is offered again; 0: when a re-check finds it
}

// over reports whether the term of a withdrawal that has one has passed.
func (w withdrawal) over(now time.Duration) bool { return w.term > 0 && now-w.since >= w.term }

// part is the one thing of a need that is withdrawn.
func part(n lease.Need) lease.Need {
	switch {
	case n.Model != "":
		return lease.Need{Model: n.Model}
	case n.Root != "":
		return lease.Need{Root: n.Root}
	}
	return lease.Need{Kind: n.Kind}
}

// withdraw stops offering what n names, for a term or until it is found again.
func (a *Agent) withdraw(n lease.Need, term time.Duration, reason string) {
	if n == (lease.Need{}) {
		return
	}
	a.mu.Lock()
	if w, gone := a.withdrawn[part(n)]; term == 0 || !gone || w.term > 0 {
		a.withdrawn[part(n)] = withdrawal{n, a.mono(), reason, term}
	}
	a.mu.Unlock()
	poke(a.beatNow)
	a.log.Warn("no longer offered", "kind", n.Kind, "root", n.Root, "model", n.Model, "reason", legible(reason))
}

// offered is the offer without what was withdrawn. The caller holds a.mu.
func (a *Agent) offered() lease.Offer {
	now := a.mono()
	has := func(n lease.Need) bool {
		w, gone := a.withdrawn[n]
		return !gone || w.over(now)
	}
	o := lease.Offer{Labels: a.cfg.Offer.Labels}
	for _, k := range a.cfg.Offer.Kinds {
		if has(lease.Need{Kind: k}) {
			o.Kinds = append(o.Kinds, k)
		}
	}
	for _, r := range a.cfg.Offer.Roots {
		if has(lease.Need{Root: r}) {
			o.Roots = append(o.Roots, r)
		}
	}
	for _, m := range a.cfg.Offer.Models {
		if has(lease.Need{Model: m}) {
			o.Models = append(o.Models, m)
		}
	}
	return o
}

// recheck offers again what turns out to be back. It has a goroutine of its own:
// looking at a dead network mount may take for ever.
func (a *Agent) recheck(ctx context.Context) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		a.mu.Lock()
		a.looks = a.mono() + recheckEvery
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.renew(ctx)
		a.mu.Lock()
		var gone []withdrawal
		for _, w := range a.withdrawn {
			gone = append(gone, w)
		}
		a.mu.Unlock()
		for _, w := range gone {
			switch {
			case w.over(a.mono()):
			case w.term > 0, a.cfg.Recheck == nil && a.mono()-w.since < withdrawFor:
				continue
			case a.cfg.Recheck != nil:
				if err := a.cfg.Recheck(ctx, w.need); err != nil {
					a.log.Debug("still missing", "kind", w.need.Kind, "root", w.need.Root, "model", w.need.Model, "err", err)
					continue
				}
			}
			a.mu.Lock()
			delete(a.withdrawn, part(w.need))
			a.mu.Unlock()
			poke(a.beatNow)
			a.log.Info("offered again", "kind", w.need.Kind, "root", w.need.Root, "model", w.need.Model)
			poke(a.wake)
		}
	}
}

// renew offers the models there are now.
func (a *Agent) renew(ctx context.Context) {
	if a.cfg.Models == nil {
		return
	}
	models := a.cfg.Models(ctx)
	a.mu.Lock()
	changed := !slices.Equal(models, a.cfg.Offer.Models)
	a.cfg.Offer.Models = models
	a.mu.Unlock()
	if changed && ctx.Err() == nil {
		a.log.Info("other models now", "models", models)
		poke(a.wake)
	}
}
