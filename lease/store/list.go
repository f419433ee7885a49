package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Bounds of a list job.
const (
	pageInput = 4 << 20    // bytes of input that one page cuts, or one shard more
	maxShards = 20_000_000 // of one job: each is a row, and a place in the queue
	maxItems  = 1 << 31    // of one job
)

// place is where an input was cut: so far it is in shards.
type place struct {
	offset int64
	item   uint32
}

// packer cuts an input, which r yields from a place on, into shards. It holds one
// line in memory.
type packer struct {
	lease.Packing
	r    *bufio.Reader
	hash hash.Hash // nil: only look, digests are not needed
	at   place     // of the next shard
	line []byte    // read, and not yet in a shard
	long []byte    // where a line is put together that is longer than r's buffer
}

func newPacker(p lease.Packing, r io.Reader, at place) *packer {
	return &packer{Packing: p, r: bufio.NewReaderSize(r, 256<<10), at: at}
}

// next returns the next shard, io.EOF when there is none, and what is wrong with
// a line that is none.
func (p *packer) next() (sp lease.Spec, err error) {
	to, n := p.at.offset, uint32(0)
	if p.hash != nil {
		p.hash.Reset()
	}
	for int(n) < p.Items {
		if p.line == nil {
			if p.line, err = p.read(p.at.item + n); err == io.EOF && n > 0 {
				break
			} else if err != nil {
				return sp, err
			}
		}
		if n > 0 && to-p.at.offset+int64(len(p.line)) > p.Bytes {
			break
		}
		if p.hash != nil {
			p.hash.Write(p.line)
		}
		to, n, p.line = to+int64(len(p.line)), n+1, nil
	}
	sp = lease.Spec{
		Need: p.Need, Item: p.at.item, Opens: n, Settles: n, Work: uint64(n), Range: lease.Range{From: p.at.offset, To: to},
	}
	if p.hash != nil {
		p.hash.Sum(sp.Range.Digest[:0])
	}
	p.at = place{to, p.at.item + n}
	return sp, nil
}

// read returns one line with its end. It is valid until the next call.
func (p *packer) read(item uint32) ([]byte, error) {
	line, err := p.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		p.long = append(p.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) && int64(len(p.long)) <= p.Line {
			line, err = p.r.ReadSlice('\n')
			p.long = append(p.long, line...)
		}
		line = p.long
	}
	switch {
	case int64(len(line)) > p.Line:
		return nil, fmt.Errorf("line %d of the input is longer than %d bytes", item+1, p.Line)
	case err == io.EOF && len(line) > 0:
		return nil, fmt.Errorf("line %d of the input has no end", item+1)
	case err == io.EOF:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	case len(line) == 1:
		return nil, fmt.Errorf("line %d of the input is empty", item+1)
	}
	return line, nil
}

// page cuts up to n shards, fewer where they are large.
func (p *packer) page(n int) (plan lease.Plan, err error) {
	p.hash = sha256.New()
	for from := p.at.offset; len(plan) < n && p.at.offset-from < pageInput; {
		sp, err := p.next()
		if err == io.EOF {
			return plan, nil
		} else if err != nil {
			return nil, err
		}
		plan = append(plan, sp)
	}
	return plan, nil
}

// rest looks at the shards that are still to come and returns their number.
func (p *packer) rest() (n int, err error) {
	for p.hash = nil; ; n++ {
		if _, err := p.next(); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if n > maxShards || p.at.item > maxItems {
			return n, fmt.Errorf("more than %d shards or %d items: %w", maxShards, maxItems, lease.ErrTooLarge)
		}
	}
}

// list is a submission's input as it was looked at before the transaction.
type list struct {
	reuse lease.Digest
	plan  lease.Plan // of its beginning
	next  place      // where the rest of it begins
}

// list reads the whole input once, so that what is wrong with it is told to who
// submits it, and not found by the pages that follow.
func (s *Store) list(kind lease.Kind, params []byte, in lease.Input) (*list, error) {
	packing, err := s.planner.List(kind, params)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	size, here := s.present[in.Digest]
	s.mu.Unlock()
	switch {
	case !here:
		return nil, fmt.Errorf("input %v: %w", in.Digest, lease.ErrNeedBlob)
	case size != in.Bytes:
		return nil, fmt.Errorf("input %v has %d bytes, not %d", in.Digest, size, in.Bytes)
	case size == 0:
		return nil, errors.New("the input is empty")
	}
	r, err := s.openAt(in.Digest, 0, in.Bytes)
	if isNotFound(err) { // somebody took it away behind the store's back
		return nil, fmt.Errorf("input %v: %w", in.Digest, lease.ErrNeedBlob)
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := newPacker(packing, r, place{})
	l := &list{reuse: packing.Reuse}
	if l.plan, err = p.page(maxPlan); err != nil {
		return nil, err
	}
	l.next = p.at
	_, err = p.rest()
	return l, err
}

// openAt opens the bytes from ≤ offset < to of a blob.
func (s *Store) openAt(d lease.Digest, from, to int64) (io.ReadCloser, error) {
	r, size, err := s.blobs.Open(d)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %v: %w", d, lease.ErrNotFound)
	}
	if err == nil && size < to {
		err = errors.Join(fmt.Errorf("blob %v has %d bytes, not %d", d, size, to), r.Close())
	} else if err == nil && from > 0 {
		if _, err = r.Seek(from, io.SeekStart); err != nil {
			err = errors.Join(err, r.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	return &part{io.LimitReader(r, to-from), r}, nil
}

// part is some of a blob's bytes.
type part struct {
	io.Reader
	io.Closer
}

// cut reads the next page of a list job's shards.
func (s *Store) cut(id lease.JobID) (plan lease.Plan, next place, err error) {
	var j *jobRow
	err = s.engine.View(func(r kv.Reader) (err error) {
		key := jobKey(keyJob, id)
		if j, _, err = decodeJob(id, r.Get(key)); err != nil {
			return err
		}
		next, err = decodePlace(id, r.Get(shardKey(keyPlan, lease.ShardID{Job: id})))
		return err
	})
	if err != nil || j.Canceled {
		return nil, next, err
	}
	packing, err := s.planner.List(j.Kind, j.Params)
	if err != nil {
		return nil, next, err
	}
	r, err := s.openAt(j.Input.Digest, next.offset, j.Input.Bytes)
	if err != nil {
		return nil, next, err
	}
	defer r.Close()
	p := newPacker(packing, r, next)
	if plan, err = p.page(pageRows); err == nil && len(plan) == 0 {
		err = fmt.Errorf("input %v ends at byte %d of %d", j.Input.Digest, next.offset, j.Input.Bytes)
	}
	return plan, p.at, err
}

// listPage adds the shards of one page to a list job.
func (t *tx) listPage(p *page, plan lease.Plan, next place) error {
	j, err := t.job(p.job)
	if err != nil {
		return err
	}
	if j.Canceled {
		return t.dropPlan(p, nil)
	}
	if err := t.addList(j, plan, next); err != nil {
		return err
	}
	if next.offset == j.Input.Bytes {
		return t.dropPlan(p, nil)
	}
	t.pageNext()
	return nil
}

// addList adds shards and notes where the rest of the input begins.
func (t *tx) addList(j *jobRow, plan lease.Plan, next place) error {
	base := j.NextSeq
	j.NextSeq += uint32(len(plan))
	if next.offset < j.Input.Bytes {
		id := lease.ShardID{Job: j.ID}
		t.put(shardKey(keyPlan, id), encodePlace(j.ID, next))
	}
	return t.addShards(j, plan, base, 0, len(plan))
}

// Input implements lease.Control.
func (c *control) Input(_ context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	if c.s.broken.Load() {
		return nil, lease.ErrUnknownOutcome
	}
	reads := c.actor.May(lease.Reader)
	if !reads && !c.actor.May(lease.WorkerRole) {
		return nil, fmt.Errorf("input of job %v: %w", of.Job, lease.ErrForbidden)
	}
	c.s.mu.Lock()
	l := c.s.index.leases[of]
	holds := l != nil && l.holder.Actor == c.actor.ID
	c.s.mu.Unlock()
	var in lease.Input
	var span lease.Range
	err := c.s.engine.View(func(r kv.Reader) error {
		j, err := c.job(r, of.Job)
		if err != nil {
			return err
		}
		in, span = j.Input, lease.Range{To: j.Input.Bytes}
		if of.Seq != 0 {
			_, row, err := rows(r, of)
			if err != nil {
				return err
			}
			span = row.Range
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !reads && !holds || in == (lease.Input{}) {
		return nil, fmt.Errorf("input of job %v: %w", of.Job, lease.ErrNotFound)
	}
	if from < span.From || to > span.To || from > to {
		return nil, fmt.Errorf("bytes %d to %d of the input: %d to %d are there: %w", from, to, span.From, span.To, lease.ErrInvalid)
	}
	return c.s.openAt(in.Digest, from, to)
}
