package worker

import (
	"errors"
	"fmt"
	"time"

	"macbatch/lease"
)

// errStalled is the cause of an executor's ended context when it got nowhere.
var errStalled = errors.New("no sign of progress")

// progress notes how much is done.
func (t *task) progress(work uint64) {
	if t.work.Swap(work) != work {
		t.signs.Add(1)
	}
}

// waiting tells that until the returned function is called the task waits for the
// control plane, which is no fault of the work.
func (t *task) waiting() (over func()) {
	t.waits.Add(1)
	return func() {
		t.signs.Add(1)
		t.waits.Add(-1)
	}
}

// spot ends what got nowhere for too long, counted while the machine was awake.
// The caller holds a.mu.
func (a *Agent) spot(now time.Duration, jumped bool) {
	for _, t := range a.tasks {
		if t.waits.Load() > 0 {
			t.signs.Add(1)
		}
		signs := t.signs.Load()
		if jumped || t.phase != lease.Running || signs != t.counted {
			t.counted, t.moved = signs, now
			continue
		}
		if limit := a.cfg.Stall(t.grant); now-t.moved >= limit && t.ctx.Err() == nil {
			a.log.Warn("stalled", t.attrs(), "for", limit)
			t.cancel(fmt.Errorf("%w for %v", errStalled, limit))
		}
	}
}
