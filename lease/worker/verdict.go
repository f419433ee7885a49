package worker

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"

	"macbatch/lease"
)

// settle does to each letter of a batch what its verdict says. The verdict of
// another store than granted the lease is worth nothing: its letter stays.
func (c *courier) settle(batch []parcel, verdicts []lease.Judgement, by lease.StoreID) {
	c.mu.Lock()
	c.alone = max(c.alone-len(batch), 0)
	c.mu.Unlock()
	for i, p := range batch {
		if p.store.Foreign(by) {
			c.keep(p, by)
			continue
		}
		var j lease.Judgement
		if i < len(verdicts) && verdicts[i].Shard == p.report.Shard && verdicts[i].Fence == p.report.Fence {
			j = verdicts[i]
		}
		c.judge(p, j)
	}
}

func (c *courier) keep(p parcel, by lease.StoreID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Foreign++
	c.log.Error("another store answers: the report is kept for the one that granted its lease",
		"entry", p.name, "granted", p.store, "answered", by)
	p.after = c.mono() + parkDenied
	for _, d := range p.report.Blobs { // what is there is not here
		delete(c.up, d)
	}
	p.pending = len(p.blobs) > 0
}

func (c *courier) judge(p parcel, j lease.Judgement) {
	attr := slog.Group("lease", "shard", p.report.Shard, "fence", p.report.Fence)
	if j.Verdict == lease.Accepted || j.Verdict == lease.Duplicate || j.Verdict == lease.Stale {
		// Unlocked: it waits for the disk. A second verdict would be the same.
		err := c.sp.Remove(p.name)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count(j.Verdict)
		if err != nil {
			c.log.Error("delivered entry stays", attr, "err", err)
			p.after = c.mono() + parkBroken
			return
		}
		c.drop(p)
		if j.Verdict != lease.Accepted {
			c.log.Info("report "+string(j.Verdict), attr, "reason", j.Reason)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(j.Verdict)
	level := slog.LevelWarn
	if j.Verdict == lease.NeedBlobs {
		level = slog.LevelInfo // uploaded again, it is nobody's trouble
	}
	c.log.Log(context.Background(), level, "report "+string(j.Verdict), attr, "reason", j.Reason, "missing", len(j.Missing))
	switch j.Verdict {
	case lease.Conflict, lease.InvalidReport:
		c.reject(p.letter, string(j.Verdict)+": "+legible(j.Reason))
		c.drop(p)
	case lease.NeedBlobs:
		p.pending, p.missing = true, nil
		for _, d := range p.report.Blobs {
			if slices.Contains(j.Missing, d) { // no other file of ours is theirs to ask for
				p.missing = append(p.missing, d)
				delete(c.up, d)
			}
		}
		if p.tries++; p.tries >= maxMissing {
			p.tries, p.after = 0, c.mono()+parkBroken
		}
		poke(c.parcels)
	case lease.Denied:
		p.after = c.mono() + parkDenied
	case lease.Accepted, lease.Duplicate, lease.Stale: // dealt with above
	default: // none, or one of a later version
		p.after = c.mono() + parkBroken
	}
}

func (c *courier) count(v lease.Verdict) {
	n := map[lease.Verdict]*int{
		lease.Accepted: &c.tally.Accepted, lease.Duplicate: &c.tally.Duplicate, lease.Conflict: &c.tally.Conflict,
		lease.Stale: &c.tally.Stale, lease.InvalidReport: &c.tally.Invalid, lease.Denied: &c.tally.Denied,
	}[v]
	if n != nil {
		*n++
	}
}

// drop forgets a settled letter. The caller holds c.mu.
func (c *courier) drop(p parcel) {
	for _, d := range p.report.Blobs {
		delete(c.up, d)
	}
	if p.after <= c.mono() {
		delete(c.letters, p.name)
	}
}

// reject moves a letter to rejected/. The caller holds c.mu.
func (c *courier) reject(l *letter, reason string) {
	c.log.Error("report rejected", "entry", l.name, "reason", reason)
	if err := c.sp.Reject(l.name, reason); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Error("rejected entry stays", "err", err)
		l.after = c.mono() + parkBroken
		return
	}
	delete(c.letters, l.name)
}

// refused is told that an exchange with this batch was refused as a whole. From
// now on its reports go one by one; one that is refused alone is parked.
func (c *courier) refused(batch []parcel, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(batch) > 1 || c.alone == 0 {
		c.alone = len(batch)
		return
	}
	c.alone--
	c.log.Error("report refused", "entry", batch[0].name, "err", err)
	batch[0].after = c.mono() + parkDenied
}
