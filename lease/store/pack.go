package store

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"macbatch/lease"
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
	if p.Items < 1 {
		panic("store: a packing without items") // it would never come to an end
	}
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
			if p.line, err = p.read(p.at.item + n); errors.Is(err, io.EOF) && n > 0 {
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
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, fmt.Errorf("line %d of the input has no end", item+1)
	case errors.Is(err, io.EOF):
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
		if errors.Is(err, io.EOF) {
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
		if _, err := p.next(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if n > maxShards || p.at.item > maxItems {
			return n, fmt.Errorf("more than %d shards or %d items: %w", maxShards, maxItems, lease.ErrTooLarge)
		}
	}
}
