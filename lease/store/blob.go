package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// known is where a blob is known: a digest is no right to its bytes, and whether
// they are here already is told only where they were uploaded or are referred to.
type known struct {
	projects []lease.Project
	inputs   []lease.Project // of these: where a submitter uploaded it
	kept     bool            // a row's result: it stays
	uploaded time.Time       // last
}

// know notes that a project's blob is here, or is referred to. s.mu is held.
func (s *Store) know(p lease.Project, d lease.Digest) *known {
	k := s.known[d]
	if k == nil {
		k = &known{}
		s.known[d] = k
	}
	if !slices.Contains(k.projects, p) {
		k.projects = append(k.projects, p)
	}
	return k
}

// knows reports whether a blob is here that the project knows. s.mu is held.
func (s *Store) knows(p lease.Project, d lease.Digest) bool {
	_, here := s.present[d]
	k := s.known[d]
	return here && k != nil && slices.Contains(k.projects, p)
}

// missing lists the blobs that are not here for a project. s.mu is held.
func (s *Store) missing(p lease.Project, blobs []lease.Digest) (missing []lease.Digest) {
	for _, d := range blobs {
		if !s.knows(p, d) {
			missing = append(missing, d)
		}
	}
	return missing
}

// needed lists the blobs that a report cannot be accepted without.
func needed(r *lease.Report) []lease.Digest {
	if r.Outcome != lease.OutcomeDone || r.Result != nil || slices.Contains(r.Blobs, r.Digest) {
		return r.Blobs
	}
	return append(slices.Clip(r.Blobs), r.Digest)
}

// PutBlob implements lease.Control.
func (c *control) PutBlob(ctx context.Context, u lease.Upload, r io.Reader) error {
	p, err := c.uploads(&u)
	if err != nil {
		return fmt.Errorf("put blob %v: %w", u.Digest, err)
	}
	c.s.mu.Lock()
	knows := c.s.knows(p, u.Digest)
	c.s.mu.Unlock()
	for {
		body := &counted{Reader: r}
		err = c.s.blobs.Put(ctx, u.Digest, u.Size, body)
		proven := false
		if err == nil && !knows && body.n == 0 {
			// They are here for another project. Who names their digest must have them too.
			proven, err = true, prove(ctx, u.Digest, u.Size, r)
		}
		if err == nil {
			_, err = c.uploads(&u) // bytes take their time
		}
		if err != nil {
			return fmt.Errorf("put blob %v: %w", u.Digest, err)
		}
		here, err := c.s.received(p, &u)
		switch {
		case err != nil || here:
			return err
		case proven || body.n > 0: // dropped meanwhile, and read already
			return fmt.Errorf("put blob %v: %w", u.Digest, lease.ErrUnknownOutcome)
		}
	}
}

// counted tells how many bytes were read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// received notes an upload, unless it was dropped meanwhile, being there already.
func (s *Store) received(p lease.Project, u *lease.Upload) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	here, err := s.blobs.Has(u.Digest)
	if here {
		s.index.arrived(u.Digest, u.Size)
		k := s.know(p, u.Digest)
		if k.uploaded = s.now(); u.Shard.IsZero() {
			s.fromSubmitter(k, p, u.Digest)
		}
	}
	return here, err
}

// prove reads bytes that are here already and checks that they are those named.
func prove(ctx context.Context, d lease.Digest, size int64, r io.Reader) error {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, size+1))
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return err
	}
	if n != size || lease.Digest(h.Sum(nil)) != d {
		return lease.ErrDigest
	}
	return nil
}

// uploads tells for which project an upload is, or why it is not the actor's to make.
func (c *control) uploads(u *lease.Upload) (lease.Project, error) {
	if c.s.broken.Load() {
		return "", lease.ErrUnknownOutcome
	}
	if u.Shard.IsZero() {
		if err := c.may(lease.Submitter); err != nil {
			return "", err
		}
		p := cmp.Or(u.Project, lease.DefaultProject)
		return p, c.enter(p)
	}
	if err := c.may(lease.WorkerRole); err != nil {
		return "", err
	}
	var j *jobRow
	var row *lease.Shard
	err := c.s.engine.View(func(r kv.Reader) (err error) {
		j, row, err = rows(r, u.Shard)
		return err
	})
	switch {
	case err != nil && !isNotFound(err):
		return "", err
	case err != nil, !c.actor.Sees(j.Project), u.Token != c.s.token(u.Shard, u.Fence):
		return "", fmt.Errorf("shard %v: %w", u.Shard, lease.ErrNotFound)
	case row.State != lease.Leased, row.Fence != u.Fence, j.Canceled:
		return "", fmt.Errorf("shard %v under fence %v: %w", u.Shard, u.Fence, lease.ErrFenced)
	}
	return j.Project, nil
}

// Blob implements lease.Control.
func (c *control) Blob(_ context.Context, of lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	r, n, err := c.blob(of, d)
	if errors.Is(err, fs.ErrNotExist) {
		err = lease.ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("blob %v of shard %v: %w", d, of, err)
	}
	return r, n, nil
}

func (c *control) blob(of lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	if c.s.broken.Load() {
		return nil, 0, lease.ErrUnknownOutcome
	}
	actor, err := c.actor.now()
	if err != nil {
		return nil, 0, err
	}
	reads := actor.May(lease.Reader)
	if !reads && !actor.May(lease.WorkerRole) {
		return nil, 0, lease.ErrForbidden
	}
	err = c.s.engine.View(func(r kv.Reader) error {
		j, row, err := rows(r, of)
		if err != nil && !isNotFound(err) {
			return err
		}
		if err != nil || !actor.Sees(j.Project) {
			return lease.ErrNotFound
		}
		if !reads && (row.State != lease.Leased || row.Holder.Actor != actor.ID || j.Canceled) {
			return lease.ErrNotFound // it is told of what it works on, no more
		}
		return refers(r, row, d)
	})
	if err != nil {
		return nil, 0, err
	}
	return c.s.blobs.Open(d)
}

// keeps are the blobs that a done shard's result needs.
func keeps(r *lease.Result) []lease.Digest {
	if r.Blob {
		return append(slices.Clip(r.Keeps), r.Digest)
	}
	return r.Keeps
}

// refers returns nil when a shard refers to a blob, and ErrNotFound when not.
func refers(r kv.Reader, row *lease.Shard, d lease.Digest) error {
	if row.State == lease.Done && slices.Contains(keeps(&row.Result), d) || slices.Contains(row.Inputs, d) {
		return nil
	}
	for _, seq := range row.After {
		_, on, err := rows(r, lease.ShardID{Job: row.ID.Job, Seq: seq})
		if err != nil && !isNotFound(err) {
			return err
		}
		if err == nil && on.State == lease.Done && on.Result.Blob && on.Result.Digest == d {
			return nil
		}
	}
	return lease.ErrNotFound
}

// sweepEvery is how often blobs are looked at that nothing may refer to.
const sweepEvery = time.Hour

// sweep removes, until ctx ends, what was uploaded and never reported. The folder
// is listed without holding anything up; each removal is decided by itself.
func (s *Store) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Sweep(ctx)
		}
	}
}

// sweepLimit bounds what one sweep keeps in mind; the next one takes the rest.
const sweepLimit = 10_000

// Sweep looks once for blobs that nothing refers to and that came long ago, and
// removes them.
func (s *Store) Sweep(ctx context.Context) {
	var old []lease.Digest
	now := s.now()
	err := s.blobs.List(func(d lease.Digest, _ int64, received time.Time) bool {
		if now.Sub(received) > blobGrace && s.unreferred(d, now) {
			old = append(old, d)
		}
		return len(old) < sweepLimit && ctx.Err() == nil
	})
	if err != nil {
		s.log.Warn("list blobs", "error", err)
	}
	for _, d := range old {
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		if s.unreferredLocked(d, now) {
			s.forget(d)
		}
		s.mu.Unlock()
	}
}

func (s *Store) unreferred(d lease.Digest, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreferredLocked(d, now)
}

// unreferredLocked reports whether no row needs a blob, no plan under way may, and
// no report of it is to be expected. s.mu is held.
func (s *Store) unreferredLocked(d lease.Digest, now time.Time) bool {
	k := s.known[d]
	return !s.planning() && s.holds == 0 && s.index.inputs[d] == 0 && s.index.lists[d] == 0 && (k == nil || !k.kept && now.Sub(k.uploaded) > blobGrace)
}

// forget removes a blob. s.mu is held.
func (s *Store) forget(d lease.Digest) {
	s.index.left(d)
	delete(s.known, d)
	if err := s.blobs.Remove(d); err != nil {
		s.log.Warn("remove blob", "digest", d.String(), "error", err)
	}
}

// stays reports whether a row's result needs the blob.
func (k *known) stays() bool { return k != nil && k.kept }
