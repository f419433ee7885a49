package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// checked is a report whose result was looked at before the transaction.
type checked struct {
	lease.Report
	plan    lease.Plan
	invalid error // what is wrong with the result
	looked  bool  // whether plan and invalid say anything
}

// check validates a result by its kind, on immutable bytes and outside the
// transaction. Memory tells whether that is worth while; the row decides later.
func (s *Store) check(rep lease.Report) checked {
	c := checked{Report: rep}
	s.mu.Lock()
	l := s.index.leases[rep.Shard]
	open := l != nil && l.fence == rep.Fence
	missing := s.missing(needs(&rep))
	s.mu.Unlock()
	if !open || len(missing) > 0 || rep.Token != s.token(rep.Shard, rep.Fence) {
		return c
	}
	c.looked = true
	if rep.Outcome == lease.OutcomeFailed {
		if rep.Class != lease.Permanent && rep.Class != lease.Retryable {
			c.invalid = fmt.Errorf("failure class %q is not known", rep.Class)
		} else if rep.Digest != lease.FailureDigest(rep.Class, rep.Reason) {
			c.invalid = errors.New("digest of the failure differs")
		}
		return c
	}
	if rep.Outcome != lease.OutcomeDone {
		c.invalid = fmt.Errorf("outcome %q is not known", rep.Outcome)
		return c
	}
	result := []byte(rep.Result)
	if len(result) > lease.InlineResult {
		c.invalid = fmt.Errorf("result of %d bytes in its report: %w", len(result), lease.ErrTooLarge)
		return c
	}
	if rep.Result == nil {
		var err error
		if result, err = s.readBlob(rep.Digest, rep.Bytes); errors.Is(err, errUnread) {
			s.log.Warn("read a result", "shard", rep.Shard.String(), "error", err)
			c.looked = false
			return c
		} else if err != nil {
			c.invalid = fmt.Errorf("result blob: %w", err)
			return c
		}
	}
	if lease.DigestOf(result) != rep.Digest || int64(len(result)) != rep.Bytes {
		c.invalid = errors.New("length or digest of the result differs")
		return c
	}
	var j *jobRow
	var row *lease.Shard
	err := s.engine.View(func(r kv.Reader) (err error) {
		j, row, err = rows(r, rep.Shard)
		return err
	})
	if err != nil {
		s.log.Warn("read a row", "shard", rep.Shard.String(), "error", err)
		c.looked = false
		return c
	}
	if c.plan, c.invalid = s.planner.Accept(&j.Job, row, result, rep.Blobs); c.invalid == nil {
		c.invalid = named(c.plan, rep.Blobs)
	}
	return c
}

// named checks that a report names each blob that the shards it plans will need:
// only what is named is looked for before the report is accepted.
func named(plan lease.Plan, blobs []lease.Digest) error {
	known := map[lease.Digest]bool{}
	for _, d := range blobs {
		known[d] = true
	}
	for _, sp := range plan {
		for _, d := range sp.Inputs {
			if !known[d] {
				return fmt.Errorf("blob %v was not delivered", d)
			}
		}
	}
	return nil
}

// needs lists the blobs that must be here for a report to count: those it names,
// and its result, named or not.
func needs(r *lease.Report) []lease.Digest {
	if r.Outcome != lease.OutcomeDone || r.Result != nil || slices.Contains(r.Blobs, r.Digest) {
		return r.Blobs
	}
	return append(slices.Clip(r.Blobs), r.Digest)
}

// missing lists the blobs that are not here. s.mu is held.
func (s *Store) missing(blobs []lease.Digest) (missing []lease.Digest) {
	for _, d := range blobs {
		if _, ok := s.present[d]; !ok {
			missing = append(missing, d)
		}
	}
	return missing
}

// report judges one report and records it when it is the first under an open lease.
func (t *tx) report(actor lease.Actor, c *checked) (lease.Judgement, error) {
	v := lease.Judgement{Shard: c.Shard, Fence: c.Fence, Verdict: lease.Denied}
	sh, err := t.shard(c.Shard)
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
	if c.Token != t.s.token(c.Shard, c.Fence) {
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
	if missing := t.s.missing(needs(&c.Report)); len(missing) > 0 || !c.looked {
		// Without a look it is a lease that opened meanwhile, or this host could
		// not look: the worker asks again.
		v.Verdict, v.Missing = lease.NeedBlobs, missing
		return v, nil
	}
	if c.invalid != nil || c.Outcome == lease.OutcomeFailed {
		return v, t.fail(actor, sh, c, &v)
	}
	result := lease.Result{Digest: c.Digest, Bytes: c.Bytes, Blob: c.Result == nil}
	if err := t.step(sh, lease.Complete{Fence: c.Fence, Digest: c.Digest, Result: result, Actor: actor.ID}); err != nil {
		return v, err
	}
	if !result.Blob {
		t.put(shardKey(keyValue, sh.ID), c.Result)
	}
	v.Verdict = lease.Accepted
	return v, t.done(sh, c.plan)
}

// done follows up a shard that has a result: what it planned, who waited, reuse.
func (t *tx) done(sh *shardTx, plan lease.Plan) error {
	j, err := t.job(sh.ID.Job)
	if err != nil {
		return err
	}
	if sh.Planned = uint32(len(plan)); len(plan) > 0 {
		if err := t.plan(j, sh, plan); err != nil {
			return err
		}
	}
	if err := t.settle(sh); err != nil {
		return err
	}
	if key := t.reuseOf(sh); !key.IsZero() && sh.From.IsZero() {
		t.put(reuseKey(key), shardKey(keyShard, sh.ID)[1:])
	}
	return nil
}

func (t *tx) fail(actor lease.Actor, sh *shardTx, c *checked, v *lease.Judgement) error {
	f := lease.Fail{Fence: c.Fence, Digest: c.Digest, Class: c.Class, Reason: clip(c.Reason), Actor: actor.ID}
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
	return t.step(sh, lease.Release{Fence: g.Fence, Reason: clip(g.Reason), Delay: delay})
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
