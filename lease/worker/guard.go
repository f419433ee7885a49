package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"macbatch/lease"
)

const guardEvery = 15 * time.Second // between two questions to the guards

// guard asks the guards now and then.
func (a *Agent) guard(ctx context.Context) {
	if len(a.cfg.Guards) == 0 {
		return
	}
	t := time.NewTicker(guardEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			a.ask(ctx)
		}
	}
}

// ask asks the guards. A waiting exchange is cut when they changed their mind, and
// the control plane told.
func (a *Agent) ask(ctx context.Context) {
	var whys []string
	for _, g := range a.cfg.Guards {
		if why := g(ctx); why != "" {
			whys = append(whys, legible(why))
		}
	}
	why := strings.Join(whys, "; ")
	a.mu.Lock()
	was := a.rests
	a.rests = why
	a.mu.Unlock()
	switch {
	case (was == "") == (why == ""):
		return // for another reason at most: the next heartbeat tells
	case why == "":
		a.log.Info("claiming again")
	default:
		a.log.Warn("claiming nothing: " + why)
	}
	poke(a.wake)
	poke(a.beatNow)
}

// facts is what the heartbeat tells of this worker. The caller holds a.mu.
func (a *Agent) facts() *lease.Facts {
	f := a.cfg.Facts
	var whys []string
	for _, why := range []string{a.rests, a.tight} {
		if why != "" {
			whys = append(whys, why)
		}
	}
	if a.draining {
		whys = append(whys, "leaving")
	}
	f.Rests = strings.Join(whys, "; ")
	now := a.mono()
	for n, w := range a.withdrawn {
		if w.over(now) {
			continue
		}
		what := "kind " + string(n.Kind)
		switch {
		case n.Model != "":
			what = "model " + n.Model
		case n.Root != "":
			what = "root " + n.Root
		}
		f.Lacks = append(f.Lacks, fmt.Sprintf("%s: %s", what, w.why))
	}
	slices.Sort(f.Lacks)
	return &f
}

// stir tells Config.Awake whether leases are held. The caller holds a.mu.
func (a *Agent) stir() {
	if held := len(a.tasks) > 0; a.cfg.Awake != nil && held != a.awake {
		a.awake = held
		a.cfg.Awake(held)
	}
}
