package survey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/transcode/inventory"
)

// Past is what earlier jobs tell of the films of a folder.
type Past struct {
	kind  lease.Kind                            // of the jobs that are asked about
	known map[inventory.Path]inventory.Identity // as the newest scan that met them saw them
	films map[inventory.Path]film               // as the newest job with the same work left them

	job              lease.JobID // that the speed was measured of
	spokenMS, tookMS int64
	wordBytes        int64 // of accepted transcripts
	wordsMS          int64
}

// film is what became of one.
type film struct {
	id           inventory.Identity
	done, failed bool
}

// Bounds of what is looked at.
const (
	maxJobs   = 20   // of the folder
	maxEvents = 5000 // of one job, to measure its speed
)

// Recall reads what the jobs of a project tell of a folder, newest first, until one
// that ended and did the same work.
func Recall(ctx context.Context, ctl lease.Control, project lease.Project, params *pipeline.LibraryParams) (*Past, error) {
	p := &Past{kind: params.Kind(), known: map[inventory.Path]inventory.Identity{}, films: map[inventory.Path]film{}}
	left := maxJobs
	err := each(ctx, ctl, project, func(j *lease.Job, q *pipeline.LibraryParams) (bool, error) {
		if q.Root != params.Root || q.Look || !overlap(q.Sub, params.Sub) {
			return true, nil
		}
		if err := p.take(ctx, ctl, j, params.SameWork(q)); err != nil {
			return false, err
		}
		left--
		whole := params.SameWork(q) && !j.Canceled && j.State.Terminal() && within(params.Sub, q.Sub)
		return !whole && left > 0, nil
	})
	return p, err
}

// LastFilms is how many films the newest scan of a folder found; 0: there was none.
func LastFilms(ctx context.Context, ctl lease.Control, project lease.Project, root string, sub inventory.Path) (n int, err error) {
	err = each(ctx, ctl, project, func(j *lease.Job, q *pipeline.LibraryParams) (bool, error) {
		if q.Root != root || q.Sub != sub || j.Shards.Done == 0 {
			return true, nil
		}
		rows, err := ctl.Shards(ctx, j.ID, 0, 1, true)
		if err != nil || len(rows) == 0 || rows[0].State != lease.Done {
			return true, err
		}
		var res inventory.Result
		if err := Result(ctx, ctl, &rows[0], &res); err != nil {
			return false, err
		}
		n = len(res.Sources)
		return false, nil
	})
	return n, err
}

// each calls fn for the jobs over films of a project, newest first, while it returns true.
func each(ctx context.Context, ctl lease.Control, project lease.Project, fn func(j *lease.Job, p *pipeline.LibraryParams) (bool, error)) error {
	for before := lease.JobID(0); ; {
		jobs, err := ctl.Jobs(ctx, before, lease.MaxPage)
		if err != nil {
			return fmt.Errorf("look back: %w", err)
		}
		for i := range jobs {
			j := &jobs[i]
			before = j.ID
			if !pipeline.OfFilms(j.Kind) || j.Project != project {
				continue
			}
			p, err := pipeline.Params(j.Params)
			if err != nil {
				continue // of another version
			}
			if more, err := fn(j, p); err != nil || !more {
				return err
			}
		}
		if len(jobs) < lease.MaxPage {
			return nil
		}
	}
}

// within reports whether the folder a lies in b, "" being the root.
func within(a, b inventory.Path) bool {
	return b == "" || a == b || strings.HasPrefix(string(a), string(b)+"/")
}

func overlap(a, b inventory.Path) bool { return within(a, b) || within(b, a) }

// state is how far an item of a job came.
type state struct {
	path                 inventory.Path
	id                   inventory.Identity
	open, failed, summed bool
	transcoded, silent   bool
}

// take adds what one job tells.
func (p *Past) take(ctx context.Context, ctl lease.Control, j *lease.Job, same bool) error {
	items := map[uint32]*state{}
	for after := uint32(0); ; {
		rows, err := ctl.Shards(ctx, j.ID, after, 0, false)
		if err != nil {
			return fmt.Errorf("look back at job %v: %w", j.ID, err)
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			s := &rows[i]
			if after = s.ID.Seq; s.Successor != 0 {
				continue
			}
			if s.Need.Kind == pipeline.Scan {
				if err := p.scanned(ctx, ctl, s); err != nil {
					return err
				}
				continue
			}
			it := items[s.Item]
			if it == nil {
				it = &state{}
				items[s.Item] = it
			}
			it.take(s)
			if s.Need.Kind == pipeline.Transcribe && s.State == lease.Done {
				p.wordBytes, p.wordsMS = p.wordBytes+s.Result.Bytes, p.wordsMS+int64(s.Work)
			}
		}
	}
	if same {
		for _, it := range items {
			if _, newer := p.films[it.path]; it.path != "" && !it.open && !newer {
				p.films[it.path] = film{id: it.id, done: it.transcoded && !it.failed && (it.silent || it.summed), failed: it.failed}
			}
		}
	}
	if p.tookMS == 0 && j.Kind == p.kind {
		return p.measure(ctx, ctl, j)
	}
	return nil
}

func (it *state) take(s *lease.Shard) {
	it.open = it.open || !s.State.Terminal()
	it.failed = it.failed || s.State == lease.Failed || s.State == lease.Canceled
	switch s.Need.Kind {
	case pipeline.Transcode:
		var in pipeline.TranscodePayload
		if json.Unmarshal(s.Payload, &in) == nil {
			it.path, it.id = in.Path, in.Identity
		}
		it.transcoded = s.State == lease.Done
		it.silent = it.transcoded && s.Planned == 0
	case pipeline.Render:
		var in pipeline.RenderPayload
		if json.Unmarshal(s.Payload, &in) == nil {
			it.path, it.id = in.Path, in.Identity
		}
		it.transcoded, it.silent = s.State == lease.Done, true // nothing follows it
	case pipeline.Summarize:
		it.summed = s.State == lease.Done
	}
}

// scanned takes in what a scan saw; those that are newer went before.
func (p *Past) scanned(ctx context.Context, ctl lease.Control, s *lease.Shard) error {
	if s.State != lease.Done {
		return nil
	}
	var res inventory.Result
	if err := Result(ctx, ctl, s, &res); err != nil {
		return err
	}
	for i := range res.Sources {
		if path := res.Sources[i].Path; p.known[path] == (inventory.Identity{}) {
			p.known[path] = res.Sources[i].Identity
		}
	}
	return nil
}

// measure learns how fast the words, or renditions, of a job's films came: of what was made, by
// the time in which at least one shard was being.
func (p *Past) measure(ctx context.Context, ctl lease.Control, j *lease.Job) error {
	work := map[uint32]int64{}
	for after := uint32(0); ; {
		rows, err := ctl.Shards(ctx, j.ID, after, 0, false)
		if err != nil || len(rows) == 0 {
			if err != nil {
				return fmt.Errorf("measure job %v: %w", j.ID, err)
			}
			break
		}
		for i := range rows {
			if after = rows[i].ID.Seq; (rows[i].Need.Kind == pipeline.Transcribe || rows[i].Need.Kind == pipeline.Render) && rows[i].State == lease.Done && rows[i].From.IsZero() {
				work[after] = int64(rows[i].Work)
			}
		}
	}
	var since time.Time
	open := map[uint32]bool{}
	for after, n := uint64(0), 0; n < maxEvents && len(work) > 0; {
		events, err := ctl.Events(ctx, lease.ShardID{Job: j.ID}, after, lease.MaxPage)
		if err != nil || len(events) == 0 {
			if err != nil {
				return fmt.Errorf("measure job %v: %w", j.ID, err)
			}
			break
		}
		for i := range events {
			e := &events[i]
			after = e.Seq
			n++
			ms, ours := work[e.Shard]
			switch {
			case !ours:
			case e.Kind == lease.EventLeased:
				if len(open) == 0 {
					since = e.At
				}
				open[e.Shard] = true
			case open[e.Shard]:
				if e.Kind == lease.EventDone {
					p.spokenMS += ms
				}
				if delete(open, e.Shard); len(open) == 0 {
					p.tookMS += e.At.Sub(since).Milliseconds()
				}
			}
		}
	}
	p.job = j.ID
	return nil
}

// Result reads the accepted result of a shard.
func Result(ctx context.Context, ctl lease.Control, s *lease.Shard, into any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("result of shard %v: %w", s.ID, err)
		}
	}()
	b := []byte(s.Result.Inline)
	if len(b) == 0 && !s.Result.Blob {
		rows, err := ctl.Shards(ctx, s.ID.Job, s.ID.Seq-1, 1, true)
		if err != nil {
			return err
		}
		if len(rows) != 1 || rows[0].ID != s.ID {
			return lease.ErrNotFound
		}
		b = rows[0].Result.Inline
	}
	if s.Result.Blob {
		r, n, err := ctl.Blob(ctx, s.ID, s.Result.Digest)
		if err != nil {
			return err
		}
		if n == s.Result.Bytes {
			b, err = io.ReadAll(io.LimitReader(r, n+1))
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	if lease.DigestOf(b) != s.Result.Digest {
		return lease.ErrDigest
	}
	return wire.Unmarshal(b, into)
}
