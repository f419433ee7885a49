package lines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"macbatch/lease"
	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
)

// Options say what is written. The zero value is usable.
type Options struct {
	NPY    bool // of an embed job: also vectors.npy and ids.jsonl
	Base64 bool // vectors in output.jsonl as base64 of 32-bit floats, not as numbers
}

// Report counts what was written.
type Report struct {
	Output  int // lines of output.jsonl
	Errors  int // lines of errors.jsonl
	Pending int // items that have no line yet
}

// Gather writes what a list job came to so far into the folder out.
//
// Errors are those of lease.Control and of the file system; ErrStranger when a
// file in out is not of an earlier gathering.
func Gather(ctx context.Context, ctl lease.Control, job lease.Job, out string, o Options) (r Report, err error) {
	if !pipeline.IsList(job.Kind) || job.Input == (lease.Input{}) {
		return r, fmt.Errorf("gather job %v: not a list job: %w", job.ID, lease.ErrInvalid)
	}
	if o.NPY && job.Kind != pipeline.Embed {
		return r, fmt.Errorf("gather job %v: %s has no vectors: %w", job.ID, job.Kind, lease.ErrInvalid)
	}
	f, err := open(out, job.ID, o.NPY)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.discard()) }()
	g := &gatherer{ctl: ctl, job: job, o: o, out: f, input: input{ctx: ctx, ctl: ctl, job: job.ID, to: job.Input.Bytes}}
	defer func() { _ = g.input.close() }() // only read
	if err := g.run(ctx); err != nil {
		return g.report, fmt.Errorf("gather job %v: %w", job.ID, err)
	}
	g.report.Pending = int(job.Items.Total) - g.report.Output - g.report.Errors
	return g.report, f.keep()
}

// Copy writes one of the two files to w instead: that of the errors, or the output.
// Nothing is kept of what was written when it fails.
func Copy(ctx context.Context, ctl lease.Control, job lease.Job, failed bool, w io.Writer) error {
	to, other := stream(w), stream(io.Discard)
	f := &files{output: to, errors: other}
	if failed {
		f.output, f.errors = other, to
	}
	g := &gatherer{ctl: ctl, job: job, out: f, input: input{ctx: ctx, ctl: ctl, job: job.ID, to: job.Input.Bytes}}
	defer func() { _ = g.input.close() }() // only read
	err := g.run(ctx)
	if err == nil {
		err = to.b.Flush()
	}
	if err != nil {
		return fmt.Errorf("results of job %v: %w", job.ID, err)
	}
	return nil
}

type gatherer struct {
	ctl    lease.Control
	job    lease.Job
	o      Options
	out    *files
	input  input
	report Report
	again  map[int64][]uint32 // of ranges that were done again: the shards, oldest first
}

const pageRows = 200 // shards fetched at once, with small results

// run writes shard by shard, in the order of the input.
func (g *gatherer) run(ctx context.Context) error {
	if err := g.lookForRetries(ctx); err != nil {
		return err
	}
	for after := uint32(0); ; {
		page, err := g.ctl.Shards(ctx, g.job.ID, after, pageRows, true)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			s := &page[i]
			if after = s.ID.Seq; s.Generation > 0 {
				continue // it is written in the place of the first
			}
			best, err := g.best(ctx, s)
			if err != nil {
				return err
			}
			if err := g.shard(ctx, best); err != nil {
				return fmt.Errorf("shard %v: %w", best.ID, err)
			}
		}
	}
}

// lookForRetries notes which ranges were done more than once.
func (g *gatherer) lookForRetries(ctx context.Context) error {
	g.again = map[int64][]uint32{}
	for after := uint32(0); ; {
		page, err := g.ctl.Shards(ctx, g.job.ID, after, lease.MaxPage, false)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if after = page[i].ID.Seq; page[i].Generation > 0 {
				g.again[page[i].Range.From] = append(g.again[page[i].Range.From], after)
			}
		}
	}
}

// best is the shard whose result counts for a range: the newest that is done; else
// the newest of all.
func (g *gatherer) best(ctx context.Context, first *lease.Shard) (*lease.Shard, error) {
	best := first
	for _, seq := range g.again[first.Range.From] {
		page, err := g.ctl.Shards(ctx, g.job.ID, seq-1, 1, true)
		if err != nil {
			return nil, err
		}
		if len(page) != 1 || page[0].ID.Seq != seq || page[0].Range != first.Range {
			return nil, fmt.Errorf("shard %d is not what it was: %w", seq, lease.ErrInvalid)
		}
		if s := &page[0]; s.State == lease.Done || best.State != lease.Done {
			best = s
		}
	}
	return best, nil
}

// shard writes the lines of one shard.
func (g *gatherer) shard(ctx context.Context, s *lease.Shard) error {
	if g.job.Canceled && !s.State.Terminal() { // the mark decides, rows follow
		s.State, s.Reason = lease.Canceled, g.job.Reason
	}
	var res pipeline.ListResult
	var all *pipeline.ItemError // of a shard that has no result
	switch s.State {
	case lease.Blocked, lease.Ready, lease.Leased:
		return nil
	case lease.Canceled:
		all = &pipeline.ItemError{Code: "canceled", Message: s.Reason}
	case lease.Failed:
		all = &pipeline.ItemError{Code: string(s.Class), Message: s.Reason}
	case lease.Done:
		if err := g.result(ctx, s, &res); err != nil {
			return err
		}
		if len(res.Outcomes) != int(s.Opens) {
			return fmt.Errorf("%d outcomes of %d items: %w", len(res.Outcomes), s.Opens, lease.ErrInvalid)
		}
	}
	if err := g.input.seek(s.Range.From); err != nil {
		return err
	}
	for i := range s.Opens {
		line, err := g.input.line()
		if err != nil {
			return err
		}
		l := result{job: g.job.ID, seq: s.ID.Seq, number: s.Item + i, by: &res.By}
		if it, err := item.Parse(line); err == nil {
			l.id, l.batch = it.ID, it.Batch()
		} else {
			l.id = fmt.Sprintf("line-%d", s.Item+i+1) // nobody checked it before it was queued
		}
		if o := (pipeline.Outcome{Error: all}); all != nil {
			l.outcome = &o
		} else {
			l.outcome = &res.Outcomes[i]
		}
		if err := g.write(&l); err != nil {
			return err
		}
	}
	return nil
}

// result reads the accepted result of a shard.
func (g *gatherer) result(ctx context.Context, s *lease.Shard, into *pipeline.ListResult) error {
	b := []byte(s.Result.Inline)
	if s.Result.Inline == nil {
		r, _, err := g.ctl.Blob(ctx, s.ID, s.Result.Digest)
		if err != nil {
			return err
		}
		b, err = io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	if lease.DigestOf(b) != s.Result.Digest {
		return fmt.Errorf("result: %w", lease.ErrDigest)
	}
	return wire.Unmarshal(b, into)
}

// input reads the lines of a job's input. A connection that breaks is made anew
// where it broke.
type input struct {
	ctx  context.Context
	ctl  lease.Control
	job  lease.JobID
	at   int64 // of the next line
	to   int64
	body io.ReadCloser
	r    *bufio.Reader
}

const maxTries = 6 // to read on after a break

func (in *input) close() error {
	if in.body == nil {
		return nil
	}
	err := in.body.Close()
	in.body = nil
	return err
}

func (in *input) seek(at int64) error {
	if at == in.at {
		return nil
	}
	err := in.close()
	in.at = at
	return err
}

// line returns the next line without its end.
func (in *input) line() ([]byte, error) {
	for try := 0; ; try++ {
		line, err := in.read()
		if err == nil {
			in.at += int64(len(line))
			return line[:len(line)-1], nil
		}
		_ = in.close() // it broke
		if !errors.Is(err, lease.ErrUnreachable) && !errors.Is(err, io.ErrUnexpectedEOF) || try == maxTries {
			return nil, fmt.Errorf("input from byte %d: %w", in.at, err)
		}
		select {
		case <-time.After(wire.Backoff(try, rand.Int64N)):
		case <-in.ctx.Done():
			return nil, context.Cause(in.ctx)
		}
	}
}

func (in *input) read() (line []byte, err error) {
	if in.body == nil {
		if in.body, err = in.ctl.Input(in.ctx, lease.ShardID{Job: in.job}, in.at, in.to); err != nil {
			return nil, err
		}
		in.r = bufio.NewReaderSize(in.body, 256<<10)
	}
	for {
		part, err := in.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
