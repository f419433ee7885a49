package store

import (
	"bytes"
	"errors"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// checked is a report whose result was looked at before the transaction.
type checked struct {
	lease.Report
	bearer  bool // its token is that of the shard and the fence
	means   lease.Acceptance
	invalid error        // what is wrong with the result
	looked  bool         // whether means and invalid say anything
	raw     []byte       // the row as it was then
	row     *lease.Shard // decoded
	job     *lease.Job
}

// check validates results by their kind, on immutable bytes and outside the
// transaction. Memory tells whether that is worth while; the row decides later.
func (s *Store) check(reports []lease.Report) []checked {
	if len(reports) == 0 {
		return nil
	}
	list := make([]checked, len(reports))
	s.mu.Lock()
	for i := range list {
		c := &list[i]
		c.Report = reports[i]
		l := s.index.leases[c.Shard]
		c.looked = l != nil && l.fence == c.Fence && len(s.missing(s.index.project(c.Shard.Job), needed(&c.Report))) == 0
	}
	s.mu.Unlock()
	for i := range list {
		c := &list[i]
		c.bearer = c.Token == s.token(c.Shard, c.Fence)
		c.looked = c.looked && c.bearer
	}
	if err := s.readRows(list); err != nil {
		s.log.Warn("read rows", "error", err)
		for i := range list {
			list[i].looked = false
		}
	}
	for i := range list {
		if c := &list[i]; c.looked {
			c.means, c.invalid = s.judge(c)
		}
	}
	return list
}

// readRows reads the shards of the reports that are to be looked at, and their
// jobs. It may see a commit that is not durable yet: what it reads for, the specs
// of shards that were granted, has been so for long.
func (s *Store) readRows(list []checked) error {
	names := names{}
	jobs := map[lease.JobID]*lease.Job{}
	rows := make([]lease.Shard, len(list))
	return peek(s.engine, func(r kv.Reader) error {
		for i := range list {
			c := &list[i]
			if !c.looked || c.Outcome == lease.OutcomeFailed {
				continue
			}
			j := jobs[c.Shard.Job]
			if j == nil {
				row, _, err := decodeJob(c.Shard.Job, r.Get(jobKey(keyJob, c.Shard.Job)))
				if err != nil {
					return err
				}
				j = &row.Job
				jobs[j.ID] = j
			}
			c.raw, c.row, c.job = bytes.Clone(r.Get(shardKey(keyShard, c.Shard))), &rows[i], j
			if err := readShard(c.row, c.Shard, c.raw, names); err != nil {
				return err
			}
			c.row.Project, c.row.Priority = j.Project, j.Priority
		}
		return nil
	})
}

// peeker is an engine that can show its newest commit before it is durable.
type peeker interface {
	Peek(fn func(kv.Reader) error) error
}

// peek reads what needs not be durable.
func peek(e kv.Engine, fn func(kv.Reader) error) error {
	if p, ok := e.(peeker); ok {
		return p.Peek(fn)
	}
	return e.View(fn)
}

// judge looks at what a report says. It clears looked where that can't be done now.
func (s *Store) judge(c *checked) (means lease.Acceptance, err error) {
	switch c.Outcome {
	case lease.OutcomeFailed:
		if c.Class != lease.Permanent && c.Class != lease.Retryable && c.Class != lease.Unknown {
			return means, fmt.Errorf("failure class %q is not known", c.Class)
		}
		if c.Digest != lease.FailureDigest(c.Class, c.Reason) {
			return means, errors.New("digest of the failure differs")
		}
		return means, nil
	case lease.OutcomeDone:
	default:
		return means, fmt.Errorf("outcome %q is not known", c.Outcome)
	}
	result := []byte(c.Result)
	if len(result) > lease.InlineResult {
		return means, fmt.Errorf("result of %d bytes in its report: %w", len(result), lease.ErrTooLarge)
	}
	if c.Result == nil {
		if result, err = s.readBlob(c.Digest, c.Bytes); errors.Is(err, errUnread) {
			s.log.Warn("read a result", "shard", c.Shard.String(), "error", err)
			c.looked = false
			return means, nil
		} else if err != nil {
			return means, fmt.Errorf("result blob: %w", err)
		}
	}
	if lease.DigestOf(result) != c.Digest || int64(len(result)) != c.Bytes {
		return means, errors.New("length or digest of the result differs")
	}
	if means, err = s.planner.Accept(c.job, c.row, result, c.Blobs); err == nil {
		err = named(means, c.Blobs)
	}
	if err == nil && means.Failed > c.row.Settles {
		err = fmt.Errorf("%d of %d items failed", means.Failed, c.row.Settles)
	}
	return means, err
}

// named checks that a report names each blob that its result keeps and that the shards
// it plans will need: only what is named is looked for before the report is accepted.
func named(means lease.Acceptance, blobs []lease.Digest) error {
	if len(means.Plan)+len(means.Keeps) == 0 {
		return nil
	}
	known := map[lease.Digest]bool{}
	for _, d := range blobs {
		known[d] = true
	}
	if len(means.Keeps) > maxKeeps {
		return fmt.Errorf("%d blobs of one result, over %d", len(means.Keeps), maxKeeps)
	}
	for _, d := range means.Keeps {
		if !known[d] {
			return fmt.Errorf("blob %v was not delivered", d)
		}
	}
	for _, sp := range means.Plan {
		for _, d := range sp.Inputs {
			if !known[d] {
				return fmt.Errorf("blob %v was not delivered", d)
			}
		}
	}
	return nil
}

// maxKeeps bounds the blobs that one result keeps: its row names them all.
const maxKeeps = 16
