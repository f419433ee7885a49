package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"macbatch/lease"
)

// report judges one report and records it when it is the first under an open lease.
func (t *tx) report(actor lease.Actor, c *checked) (lease.Judgement, error) {
	v := lease.Judgement{Shard: c.Shard, Fence: c.Fence, Verdict: lease.Denied}
	sh, err := t.shardAs(c.Shard, c.raw, c.row)
	if isNotFound(err) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if !actor.Sees(sh.Project) {
		return v, nil
	}
	if c.Fence != sh.Fence {
		v.Verdict, v.Reason = lease.Stale, fmt.Sprintf("the shard was granted again under fence %v", sh.Fence)
		return v, nil
	}
	if !c.bearer {
		return v, nil
	}
	open := sh.State == lease.Leased && t.s.index.marks[sh.ID.Job] != markCanceled
	switch {
	case !open && sh.Settled.Fence == c.Fence && sh.Settled.Digest == c.Digest:
		v.Verdict = lease.Duplicate
		return v, nil
	case !open && sh.Settled.Fence == c.Fence:
		v.Verdict, v.Reason = lease.Conflict, "another report settled this lease"
		return v, nil
	case !open:
		v.Verdict, v.Reason = lease.Stale, "the shard is no longer leased"
		return v, nil
	}
	if missing := t.s.missing(sh.Project, needed(&c.Report)); len(missing) > 0 || !c.looked {
		// Without a look it is a lease that opened meanwhile, or this host could
		// not look: the worker asks again.
		v.Verdict, v.Missing = lease.NeedBlobs, missing
		return v, nil
	}
	if c.invalid != nil || c.Outcome == lease.OutcomeFailed {
		return v, t.fail(actor, sh, c, &v)
	}
	result := lease.Result{Digest: c.Digest, Bytes: c.Bytes, Blob: c.Result == nil, Failed: c.means.Failed, Maker: shortened(c.means.Maker), Keeps: c.means.Keeps}
	if err := t.step(sh, lease.Complete{Fence: c.Fence, Digest: c.Digest, Result: result, Actor: actor.ID, Cost: c.Cost}); err != nil {
		return v, err
	}
	if !result.Blob {
		t.put(shardKey(keyValue, sh.ID), c.Result)
	}
	for _, d := range keeps(&result) {
		t.s.know(sh.Project, d).kept = true
	}
	v.Verdict = lease.Accepted
	return v, t.done(sh, c.means.Plan)
}

// shortened bounds what a result says of its maker: it is counted by that.
func shortened(m lease.Maker) lease.Maker {
	for _, s := range []*string{&m.Engine, &m.Model, &m.Server} {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), maxName)], "")
	}
	return m
}

// done follows up a shard that has a result: what it planned, who waited, reuse.
func (t *tx) done(sh *shardTx, plan lease.Plan) error {
	j, err := t.job(sh.ID.Job)
	if err != nil {
		return err
	}
	if sh.Planned = uint32(len(plan)); len(plan) > 0 {
		sh.First = j.NextSeq
		if err := t.plan(j, sh, plan); err != nil {
			return err
		}
	}
	if err := t.settle(sh); err != nil {
		return err
	}
	if key := t.reuseOf(sh); !key.IsZero() && sh.From.IsZero() && sh.Result.Failed == 0 {
		t.index(&t.head.Reuses, reuseKey(key), shardKey(keyShard, sh.ID)[1:])
	}
	return nil
}

func (t *tx) fail(actor lease.Actor, sh *shardTx, c *checked, v *lease.Judgement) error {
	f := lease.Fail{Fence: c.Fence, Digest: c.Digest, Class: c.Class, Reason: clip(c.Reason), Actor: actor.ID, Cost: c.Cost}
	v.Verdict = lease.Accepted
	if c.invalid != nil {
		f.Class, f.Reason = lease.Invalid, clip(c.invalid.Error())
		v.Verdict, v.Reason = lease.InvalidReport, f.Reason
	}
	f.Delay = t.s.backoff(sh.Failures)
	if err := t.step(sh, f); err != nil {
		return err
	}
	if sh.State == lease.Failed {
		return t.settle(sh)
	}
	return nil
}

// backoff is the rest before another attempt: full jitter below a doubling cap.
func (s *Store) backoff(failures uint16) time.Duration {
	limit := min(2*time.Second<<min(failures, 10), 5*time.Minute)
	return time.Duration(s.rand.Int64N(int64(limit))).Truncate(time.Millisecond) + time.Millisecond
}

// release gives a shard back.
func (t *tx) release(actor lease.Actor, g lease.Give) error {
	sh, err := t.shard(g.Shard)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !actor.Sees(sh.Project) || sh.State != lease.Leased || sh.Fence != g.Fence || sh.Holder.Actor != actor.ID {
		return nil // nothing of the caller's to give back
	}
	delay := max(0, min(g.Delay, 24*time.Hour))
	return t.step(sh, lease.Release{Fence: g.Fence, Reason: clip(g.Reason), Delay: delay, Cost: g.Cost})
}

// errUnread tells of this host's trouble, not of the result's: it may be read later.
var errUnread = errors.New("not readable now")

// readBlob reads a stored result of known length. errUnread: another time it may be read.
func (s *Store) readBlob(d lease.Digest, size int64) ([]byte, error) {
	if size < 0 || size > maxResult {
		return nil, fmt.Errorf("result of %d bytes: %w", size, lease.ErrTooLarge)
	}
	r, n, err := s.blobs.Open(d)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	defer func() { _ = r.Close() }() // it was only read
	if n != size {
		return nil, fmt.Errorf("blob %v has %d bytes, not %d: %w", d, n, size, lease.ErrDigest)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read blob %v: %w: %w", d, errUnread, err)
	}
	return b, nil
}

// maxResult bounds a result that is validated in memory.
const maxResult = 64 << 20
