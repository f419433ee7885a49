package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"macbatch/lease"
)

const (
	farewell = 5 * time.Second // to deliver and give back in, once nothing runs any more, and as long again while it gets on
	hurry    = 2 * time.Second // the same after Kill
)

// ErrKilled is returned by Run after Kill.
var ErrKilled = errors.New("stopped at once")

// errShutdown is the cause of an executor's ended context when the worker stops.
var errShutdown = errors.New("shutting down")

// Kill makes Run end at once: its grace is over. What runs is ended and given
// back, where the control plane answers soon; what is finished stays in the spool.
func (a *Agent) Kill() { a.kill.Do(func() { close(a.killed) }) }

// leave waits for the end to be asked for and carries it out.
func (a *Agent) leave(ctx, life context.Context) {
	select {
	case <-ctx.Done():
	case <-a.killed:
	case <-life.Done():
	}
	a.mu.Lock()
	a.draining = true // from here on no attempt begins
	a.dismiss(errShutdown)
	a.answered()
	a.mu.Unlock()
	poke(a.wake)
	poke(a.beatNow)

	began := a.mono()
	ended := make(chan struct{})
	go func() {
		a.running.Wait()
		close(ended)
	}()
	if a.cfg.Grace > 0 && life.Err() == nil {
		a.log.Info("draining", "grace", a.cfg.Grace)
		select {
		case <-ended:
		case <-time.After(a.cfg.Grace):
		case <-a.killed:
		case <-life.Done():
		}
	}
	a.mu.Lock()
	for _, t := range a.tasks {
		t.cancel(errShutdown)
	}
	a.mu.Unlock()
	<-ended
	a.deliverRest(life, began+a.cfg.Grace)
}

// deliverRest waits for the spool to be delivered and the rest to be given back:
// within the grace for as long as it gets on, and for a moment in any case.
func (a *Agent) deliverRest(life context.Context, until time.Duration) {
	killed := a.killed
	for before := -1; ; {
		term := time.NewTimer(farewell)
		select {
		case <-killed:
			term.Reset(hurry)
			killed = nil
		default:
		}
		select {
		case <-life.Done():
			term.Stop()
			return
		case <-killed:
			term.Stop()
			continue
		case <-term.C:
		}
		left := a.mail.burden()
		if killed == nil || a.mono() >= until || before >= 0 && left >= before {
			break
		}
		before = left
	}
	a.log.Warn("ending with reports or releases not delivered")
	a.end(errShutdown)
}

// dismiss ends what has not begun. The caller holds a.mu.
func (a *Agent) dismiss(why error) {
	for _, t := range a.tasks {
		if t.phase == lease.Waiting {
			t.cancel(why)
		}
	}
}

// drain takes in what the control plane says: a worker that is drained finishes what
// runs, gives back what did not begin, and claims nothing. The caller holds a.mu.
func (a *Agent) drain(p lease.Pause) {
	if p == a.drainedBy {
		return
	}
	a.drainedBy = p
	if p.IsZero() {
		a.log.Warn("no longer drained: working again")
		poke(a.wake)
		return
	}
	a.log.Warn("finishing what runs, and taking no more: " + legible(p.String()))
	a.dismiss(fmt.Errorf("%s", p.String()))
	poke(a.wake)
}
