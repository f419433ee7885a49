package main

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"

	"macbatch/transcode/child"
)

const caffeinate = "/usr/bin/caffeinate"

// awake keeps a Mac from falling asleep by itself while leases are held.
type awake struct {
	run func(ctx context.Context, path string, args ...string) // until ctx ends

	mu      sync.Mutex
	cancel  context.CancelFunc // nil: not held
	running sync.WaitGroup
}

// newAwake returns nil where the system has no such program.
func newAwake(k *child.Keeper) *awake {
	if runtime.GOOS != "darwin" {
		return nil
	}
	return &awake{run: func(ctx context.Context, path string, args ...string) {
		// Without it the Mac may sleep, as it always might: no reason to stop.
		_, _ = child.Run(child.With(ctx, k), child.Command{Path: path, Args: args})
	}}
}

// hold begins and ends it, at once; nil does nothing. Of the program's own accord
// it ends with this process.
func (a *awake) hold(held bool) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case held && a.cancel == nil:
		ctx, cancel := context.WithCancel(context.Background())
		a.cancel = cancel
		a.running.Go(func() { a.run(ctx, caffeinate, "-i", "-w", strconv.Itoa(os.Getpid())) })
	case !held && a.cancel != nil:
		a.cancel()
		a.cancel = nil
	}
}

// close ends it and waits until it ended.
func (a *awake) close() {
	a.hold(false)
	if a != nil {
		a.running.Wait()
	}
}
