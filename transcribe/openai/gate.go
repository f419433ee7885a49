package openai

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"macbatch/transcribe"
)

const (
	waitHere  = 20 * time.Second // a rest is waited out within a call
	waitPaid  = 15 * time.Minute // … once giving up would mean to pay again
	restLeast = 2 * time.Second  // without a Retry-After, doubling
	restMost  = 5 * time.Minute
	askedMost = time.Hour // what a server's Retry-After is believed
	sickAfter = 3         // empty answers in a row
)

// gate is the one way to a server for all calls: while it rests, they all do.
type gate struct {
	mu      sync.Mutex
	until   time.Time
	why     error
	rests   int // in a row, without a good answer between
	empties int
}

// rest closes the gate for as long as the server asked, or else for longer each
// time. Calls that were under way when a rest began add nothing to it.
func (g *gate) rest(asked time.Duration, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if !now.Before(g.until) {
		g.rests++
	}
	d := min(restLeast<<min(g.rests-1, 10), restMost)
	if asked > 0 {
		d = min(max(asked, time.Second), askedMost)
	} else if now.Before(g.until) {
		return
	}
	if until := now.Add(d); until.After(g.until) {
		g.until, g.why = until, why
	}
}

// good is told of an answer with words.
func (g *gate) good() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rests, g.empties = 0, 0
}

// empty is told of an answer without the words that it should have had.
func (g *gate) empty() {
	g.mu.Lock()
	g.empties++
	sick := g.empties >= sickAfter
	g.mu.Unlock()
	if sick {
		g.rest(time.Minute, fmt.Errorf("%d empty answers in a row", sickAfter))
	}
}

func (g *gate) left() (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until), g.why
}

// wait returns when the gate is open, each waiter a little later than it opened,
// or a *BusyError when that takes longer than most.
func (g *gate) wait(ctx context.Context, rnd func(int64) int64, most time.Duration) error {
	for {
		left, why := g.left()
		if left <= 0 {
			return context.Cause(ctx)
		}
		if left > most {
			return &transcribe.BusyError{Err: fmt.Errorf("rests for %v: %w", left.Round(time.Second), why), After: left}
		}
		timer := time.NewTimer(left + time.Duration(rnd(int64(left/8)+1)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		most -= left
	}
}

var errNoAnswer = errors.New("no answer in time")
