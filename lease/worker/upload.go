package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"macbatch/lease"
	"macbatch/spool"
)

// upload brings the blobs of one letter to the control plane. did is false when
// there was nothing to do. Errors are those that another try may not have.
func (c *courier) upload(ctx context.Context) (did bool, err error) {
	c.mu.Lock()
	var p parcel
	for _, n := range c.names() {
		l := c.letters[n]
		if !l.pending || l.after > c.mono() {
			continue
		}
		if err := c.acquire(); err != nil {
			c.mu.Unlock()
			return false, err
		}
		var ok bool
		if p, ok = c.read(l); ok {
			break
		}
		c.releaseLocked()
	}
	if p.letter == nil {
		c.mu.Unlock()
		return false, nil
	}
	defer c.free()
	var wanted []lease.Digest
	for _, b := range p.blobs {
		if d, err := lease.ParseDigest(b.Digest); err == nil && !c.up[d] {
			wanted = append(wanted, d)
		}
	}
	missing := p.missing
	c.mu.Unlock()

	for _, d := range append(wanted, missing...) {
		err := c.put(ctx, &p.report, d)
		c.mu.Lock()
		switch {
		case err == nil, errors.Is(err, lease.ErrFenced):
			// When the lease is not open any more its report will be told so.
			c.up[d], err = true, nil
		case errors.Is(err, fs.ErrNotExist):
			c.tally.Damaged++
			c.reject(p.letter, fmt.Sprintf("blob %v is neither here nor there", d))
		case errors.Is(err, lease.ErrDigest):
			if p.rotten++; p.rotten >= maxRotten {
				c.tally.Damaged++
				c.reject(p.letter, fmt.Sprintf("blob %v is damaged", d))
				err = nil
			}
		case refused(err) || errors.Is(err, lease.ErrForbidden):
			c.log.Error("blob refused", "entry", p.name, "err", err)
			p.after = c.mono() + parkDenied
		}
		gone := c.letters[p.name] != p.letter || p.after > c.mono()
		c.mu.Unlock()
		if gone {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	p.pending, p.missing = false, nil
	c.mu.Unlock()
	return true, nil
}

func (c *courier) put(ctx context.Context, r *lease.Report, d lease.Digest) error {
	c.mu.Lock()
	done := c.up[d]
	c.mu.Unlock()
	if done {
		return nil
	}
	f, err := c.sp.OpenBlob(d.String())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	u := lease.Upload{Digest: d, Size: info.Size(), Shard: r.Shard, Fence: r.Fence, Token: r.Token}
	return c.ctl.PutBlob(ctx, u, (*reader)(f))
}

// reader hides all but Read: the other end must not close or seek the file.
type reader os.File

func (r *reader) Read(p []byte) (int, error) { return (*os.File)(r).Read(p) }

// upload brings the blobs of waiting reports to the control plane, apart from
// the exchanges: large ones must not hold up claims.
func (a *Agent) upload(ctx context.Context) {
	for fails := 0; ctx.Err() == nil; {
		did, err := a.mail.upload(ctx)
		switch {
		case err != nil:
			if fails++; fails == 1 && ctx.Err() == nil && !errors.Is(err, spool.ErrBusy) {
				a.log.Warn("upload failed, trying again", "err", err)
			}
			_ = a.pause(ctx, fails-1) // ctx is looked at next
		case did:
			fails = 0
			poke(a.wake)
		default:
			timer := time.NewTimer(lease.MaxWait)
			select {
			case <-a.mail.parcels:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// listen wakes the exchanges when another process added to the spool. Most
// rings are for entries of our own, which are known already.
func (a *Agent) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-a.cfg.Bell:
			if !open {
				return
			}
			if fresh, err := a.mail.look(); err != nil {
				a.log.Error("the spool can't be read", "err", err)
			} else if fresh {
				poke(a.wake)
			}
		}
	}
}
