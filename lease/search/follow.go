package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"macbatch/lease"
)

// pageRows is how many shards, or parts, one transaction deals with.
const pageRows = 100

// errStrange is returned when the store is not the one that was followed, or not
// where it was.
var errStrange = errors.New("the store is another one, or an older copy of it")

// Run follows a control plane until ctx ends: ctl as an admin sees it, and mark, how
// far it is. What goes wrong is logged and tried again.
func (ix *Index) Run(ctx context.Context, ctl lease.Control, mark func() lease.Mark) error {
	ix.follow(mark)
	wait := time.Second
	for ctx.Err() == nil {
		seq, err := ix.catchUp(ctx, ctl)
		if err == nil {
			wait = time.Second
			waking, stop := ix.waking(ctx)
			_, err = ctl.Follow(waking, lease.ShardID{}, seq, 1, lease.MaxWait)
			if waking.Err() != nil {
				err = nil
			}
			stop()
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		ix.log.Warn("search index does not follow, later again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, 30*time.Second)
	}
	return nil
}

// CatchUp follows a control plane to where it is now.
func (ix *Index) CatchUp(ctx context.Context, ctl lease.Control, mark func() lease.Mark) error {
	ix.follow(mark)
	_, err := ix.catchUp(ctx, ctl)
	return err
}

func (ix *Index) follow(mark func() lease.Mark) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.mark = mark
}

// catchUp follows until nothing is left to do, and returns the last event.
func (ix *Index) catchUp(ctx context.Context, ctl lease.Control) (seq uint64, err error) {
	for tries := 0; ; {
		var more bool
		seq, more, err = ix.step(ctx, ctl)
		switch {
		case err == nil && more:
			tries = 0
		case err == nil:
			return seq, nil
		case (errors.Is(err, errStrange) || damaged(err)) && tries < 3 && ctx.Err() == nil:
			tries++
			if err := ix.replace(err); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("follow the ledger: %w", err)
		}
	}
}

// step does one page of what there is to do, and reports whether there is more.
func (ix *Index) step(ctx context.Context, ctl lease.Control) (seq uint64, more bool, err error) {
	if err := ix.harmed(); err != nil {
		return 0, false, err
	}
	ix.mu.RLock()
	at, err := ix.state(ctx)
	ix.mu.RUnlock()
	if err != nil {
		return 0, false, err
	}
	if !ix.checked {
		if err := ix.check(ctx, ctl, &at); err != nil {
			return 0, false, err
		}
		ix.checked = true
	}
	events, err := ctl.Events(ctx, lease.ShardID{}, at.seq, lease.MaxPage)
	if err != nil {
		return 0, false, err
	}
	if len(events) > 0 && events[0].Seq != at.seq+1 {
		return 0, false, fmt.Errorf("events %d to %d are gone: %w", at.seq+1, events[0].Seq-1, errStrange)
	}
	err = ix.update(ctx, func(sqlTx *sql.Tx) error {
		t := newTx(ctx, ix, ctl, sqlTx)
		before := at
		for i := range events {
			if err := t.event(&events[i]); err != nil {
				return err
			}
		}
		if n := len(events); n > 0 {
			at.seq, at.print = events[n-1].Seq, fingerprint(&events[n-1])
		}
		busy, err := t.work()
		if err == nil && !busy && at.below > 0 {
			err = t.build(&at)
		}
		if err == nil {
			err = t.settle()
		}
		more = len(events) > 0 || busy || at.below > 0
		if err != nil || at.seq == before.seq && at.below == before.below {
			return err
		}
		return at.save(ctx, sqlTx)
	})
	return at.seq, more, err
}

// check compares what is remembered with the store, once after opening.
func (ix *Index) check(ctx context.Context, ctl lease.Control, at *state) error {
	mark := ix.mark()
	if at.store == "" {
		events, err := ctl.Events(ctx, lease.ShardID{}, mark.Seq-1, 1)
		if err != nil {
			return err
		}
		*at = state{store: mark.Store, epoch: mark.Epoch, seq: mark.Seq, below: math.MaxInt64}
		if len(events) == 1 && events[0].Seq == mark.Seq {
			at.print = fingerprint(&events[0])
		}
		return ix.update(ctx, func(tx *sql.Tx) error { return at.save(ctx, tx) })
	}
	if at.store != mark.Store || at.epoch != mark.Epoch || at.seq > mark.Seq {
		return fmt.Errorf("followed %s up to %d/%d, met %s at %d/%d: %w", at.store, at.epoch, at.seq, mark.Store, mark.Epoch, mark.Seq, errStrange)
	}
	events, err := ctl.Events(ctx, lease.ShardID{}, at.seq-1, 1)
	if err != nil {
		return err
	}
	if len(events) != 1 || events[0].Seq != at.seq || !bytes.Equal(fingerprint(&events[0]), at.print) {
		return fmt.Errorf("event %d is another one, or gone: %w", at.seq, errStrange)
	}
	return nil
}

// fingerprint is a digest of an event as it is told.
func fingerprint(ev *lease.Event) []byte {
	b, err := json.Marshal(ev)
	if err != nil {
		panic(err) // it always encodes
	}
	sum := sha256.Sum256(b)
	return sum[:]
}
