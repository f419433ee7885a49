package kinds

import (
	"context"
	"slices"
	"sync"
)

// lanes are the requests that a server is sent at once. The shard that began first
// goes first: so one ends, and is delivered, while the next keeps the server busy.
type lanes struct {
	mu      sync.Mutex
	busy    int
	shards  uint64 // that began
	waiting []*waiter
}

type waiter struct {
	shard uint64
	turn  chan struct{}
}

// begin gives a shard its place.
func (l *lanes) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shards++
	return l.shards
}

// enter waits for one of limit lanes; leave must follow a nil.
func (l *lanes) enter(ctx context.Context, shard uint64, limit int) error {
	l.mu.Lock()
	if l.busy < limit {
		l.busy++
		l.mu.Unlock()
		return nil
	}
	w := &waiter{shard, make(chan struct{})}
	at, _ := slices.BinarySearchFunc(l.waiting, shard+1, func(o *waiter, s uint64) int {
		if o.shard < s {
			return -1
		}
		return 1
	})
	l.waiting = slices.Insert(l.waiting, at, w)
	l.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	at = slices.Index(l.waiting, w)
	if at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	}
	l.mu.Unlock()
	if at < 0 { // its turn came at the same time
		l.leave()
	}
	return context.Cause(ctx)
}

// leave ends a request: the next one has its lane.
func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy--
		return
	}
	close(l.waiting[0].turn)
	l.waiting = slices.Delete(l.waiting, 0, 1)
}
