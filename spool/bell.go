package spool

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/fsnotify/fsnotify"
)

// Bell returns a channel that receives after entries were added, by whatever
// process: several additions may ring once, and a ring may find nothing. It is
// a reason to List soon, never the truth: callers also look now and then by
// themselves. The channel is closed, and all is released, once ctx ended.
func (s *Spool) Bell(ctx context.Context) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch bell: %w", err)
	}
	if err := w.Add(s.path("bell")); err != nil {
		return nil, fmt.Errorf("watch bell: %w", errors.Join(err, w.Close()))
	}
	rings := make(chan struct{}, 1)
	go func() {
		defer close(rings)
		defer func() { _ = w.Close() }() // only read
		for {
			select {
			case <-ctx.Done():
				return
			case _, open := <-w.Events:
				if !open {
					return
				}
			case _, open := <-w.Errors: // lost events, most likely: look
				if !open {
					return
				}
			}
			select {
			case rings <- struct{}{}:
			default:
			}
		}
	}()
	return rings, nil
}

// ring rewrites the bell. It may fail, on a full disk for one: then the other
// side finds the entry when it looks by itself.
func (s *Spool) ring() {
	_ = os.WriteFile(s.path("bell", "ring"), []byte("\n"), 0o600)
}
