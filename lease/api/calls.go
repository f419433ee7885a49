package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Submit implements lease.Control.
func (c *Client) Submit(ctx context.Context, s lease.Submission) (lease.JobID, error) {
	var out submitted
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/jobs", json: s}, &out)
	return out.ID, err
}

// Job implements lease.Control.
func (c *Client) Job(ctx context.Context, id lease.JobID) (lease.Job, error) {
	var out lease.Job
	err := c.get(ctx, "/v1/jobs/"+id.String(), nil, &out)
	return out, err
}

// Jobs implements lease.Control.
func (c *Client) Jobs(ctx context.Context, before lease.JobID, limit int) ([]lease.Job, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if before != 0 {
		q.Set("before", before.String())
	}
	var out jobList
	err := c.get(ctx, "/v1/jobs", q, &out)
	return out.Jobs, err
}

// Cancel implements lease.Control.
func (c *Client) Cancel(ctx context.Context, id lease.JobID, reason string) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/jobs/" + id.String() + "/cancel", json: cancellation{reason}}, nil)
}

// Retry implements lease.Control.
func (c *Client) Retry(ctx context.Context, id lease.JobID, what lease.Selection, after uint32) (lease.Retried, error) {
	var out lease.Retried
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/jobs/" + id.String() + "/retry", json: retrying{what, after}}, &out)
	return out, err
}

// Pause implements lease.Control.
func (c *Client) Pause(ctx context.Context, of lease.Target, reason string, d time.Duration) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/pause", json: pausing{of, reason, d}}, nil)
}

// Resume implements lease.Control.
func (c *Client) Resume(ctx context.Context, of lease.Target, reason string) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/resume", json: resuming{of, reason}}, nil)
}

// Intend implements lease.Control.
func (c *Client) Intend(ctx context.Context, i lease.Intention) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/intend", json: i}, nil)
}

// Shards implements lease.Control.
func (c *Client) Shards(ctx context.Context, id lease.JobID, after uint32, limit int, results bool) ([]lease.Shard, error) {
	q := url.Values{"after": {strconv.FormatUint(uint64(after), 10)}, "limit": {strconv.Itoa(limit)}}
	if results {
		q.Set("results", "1")
	}
	var out shardList
	err := c.get(ctx, "/v1/jobs/"+id.String()+"/shards", q, &out)
	return out.Shards, err
}

// Events implements lease.Control.
func (c *Client) Events(ctx context.Context, of lease.ShardID, after uint64, limit int) ([]lease.Event, error) {
	return c.Follow(ctx, of, after, limit, 0)
}

// Follow implements lease.Control.
func (c *Client) Follow(ctx context.Context, of lease.ShardID, after uint64, limit int, wait time.Duration) ([]lease.Event, error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}}
	switch {
	case of.Seq != 0:
		q.Set("of", of.String())
	case of.Job != 0:
		q.Set("of", of.Job.String())
	}
	wait = min(max(wait, 0), lease.MaxWait)
	if wait > 0 {
		q.Set("wait_ns", strconv.FormatInt(int64(wait), 10))
	}
	var out eventList
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/events", query: q}, &out)
	return out.Events, err
}

// Why implements lease.Control.
func (c *Client) Why(ctx context.Context, of lease.ShardID) (lease.Why, error) {
	q := url.Values{}
	if of.Seq != 0 {
		q.Set("shard", strconv.FormatUint(uint64(of.Seq), 10))
	}
	var out lease.Why
	err := c.get(ctx, "/v1/jobs/"+of.Job.String()+"/why", q, &out)
	return out, err
}

// Workers implements lease.Control.
func (c *Client) Workers(ctx context.Context) ([]lease.Worker, error) {
	var out workerList
	err := c.get(ctx, "/v1/workers", nil, &out)
	return out.Workers, err
}

// Census implements lease.Control.
func (c *Client) Census(ctx context.Context) (lease.Census, error) {
	var out lease.Census
	err := c.get(ctx, "/v1/census", nil, &out)
	return out, err
}

// Search implements lease.Control.
func (c *Client) Search(ctx context.Context, q lease.Query) (lease.Found, error) {
	var out lease.Found
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/search", json: q}, &out)
	return out, err
}

// Verify implements lease.Control.
func (c *Client) Verify(ctx context.Context) ([]lease.Problem, error) {
	var out problemList
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/verify", wait: verifyWait}, &out)
	return out.Problems, err
}

// Prune implements lease.Control.
func (c *Client) Prune(ctx context.Context, ids []lease.JobID) error {
	return c.call(ctx, request{method: http.MethodPost, path: "/v1/prune", json: pruning{ids}}, nil)
}

// Backup implements lease.Control.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	p := newPatience(ctx, answerWait)
	defer p.end()
	resp, err := c.do(p, request{method: http.MethodGet, path: "/v1/backup"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for buf := make([]byte, 256<<10); ; {
		p.touch()
		n, err := resp.Body.Read(buf)
		p.rest() // a slow writer of these bytes is no stall
		if _, err := w.Write(buf[:n]); err != nil {
			return fmt.Errorf("write backup: %w", err)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return c.unreachable(p, err)
		}
	}
}

// Heartbeat implements lease.Control.
func (c *Client) Heartbeat(ctx context.Context, b lease.Beat) (lease.Beaten, error) {
	var out lease.Beaten
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/heartbeat", json: b}, &out)
	return out, err
}

// reportBytes is how much of reports goes into one request. The rest of MaxBody
// is for what else an exchange carries.
const reportBytes = MaxBody * 3 / 4

// Exchange implements lease.Control. Reports too large for one request go ahead
// in several, each a commit of its own; the last one carries the rest of x. After
// an error some may be recorded: reporting them again is answered as before.
func (c *Client) Exchange(ctx context.Context, x lease.Exchange) (lease.Exchanged, error) {
	if len(x.Reports) > lease.MaxReports {
		return lease.Exchanged{}, fmt.Errorf("exchange of %d reports, over %d: %w", len(x.Reports), lease.MaxReports, lease.ErrTooLarge)
	}
	for _, r := range x.Reports {
		if !wire.Compact(r.Result) {
			return lease.Exchanged{}, fmt.Errorf("report on shard %v: white space in its result would not arrive: %w", r.Shard, lease.ErrInvalid)
		}
	}
	var verdicts []lease.Judgement
	var by lease.StoreID
	for {
		n := fitting(x.Reports)
		if n == len(x.Reports) {
			break
		}
		ahead := lease.Exchange{Hello: x.Hello, Reports: x.Reports[:n]}
		out, err := c.exchange(ctx, ahead)
		if err != nil {
			return lease.Exchanged{}, err
		}
		if by.Foreign(out.Mark.Store) {
			return lease.Exchanged{}, fmt.Errorf("%s: two stores answer: %w", c.host, lease.ErrUnreachable)
		}
		by = out.Mark.Store
		verdicts = append(verdicts, out.Verdicts...)
		x.Reports, x.Wait = x.Reports[n:], 0
	}
	out, err := c.exchange(ctx, x)
	if err != nil {
		return lease.Exchanged{}, err
	}
	if by.Foreign(out.Mark.Store) { // whose verdicts are these?
		return lease.Exchanged{}, fmt.Errorf("%s: two stores answer: %w", c.host, lease.ErrUnreachable)
	}
	out.Verdicts = append(verdicts, out.Verdicts...)
	return out, nil
}

// form is how a client exchanges.
type form int

const (
	onStream  form = iota // on a stream, or compact where there is none
	asCompact             // in requests
	asJSON                // likewise, as programs of others do
)

func (c *Client) exchange(ctx context.Context, x lease.Exchange) (out lease.Exchanged, err error) {
	there := false
	if c.form == onStream {
		out, there, err = c.streamed(ctx, &x)
	}
	if !there && err == nil {
		out, err = c.request(ctx, x)
	}
	if err == nil && len(out.Verdicts) != len(x.Reports) {
		return lease.Exchanged{}, fmt.Errorf("%s: %d verdicts on %d reports: %w", c.host, len(out.Verdicts), len(x.Reports), lease.ErrUnreachable)
	}
	return out, err
}

// request exchanges in a request of its own.
func (c *Client) request(ctx context.Context, x lease.Exchange) (out lease.Exchanged, err error) {
	rq := request{method: http.MethodPost, path: "/v1/exchange"}
	if c.form == asJSON {
		rq.json = x
	} else if rq.compact, err = wire.AppendExchange(nil, &x); err != nil {
		return out, err
	}
	err = c.call(ctx, rq, &out)
	return out, err
}

// exchangeWait is how long an answer on a stream may take, whatever signs of it come.
func exchangeWait(x *lease.Exchange) time.Duration {
	return min(max(x.Wait, 0), lease.MaxWait) + 45*time.Second
}

// fitting returns how many of the reports go into one request: at least one.
func fitting(reports []lease.Report) int {
	size := 0
	for i, r := range reports {
		// At most, with every byte of text escaped.
		size += 512 + len(r.Result) + 6*(len(r.Reason)+len(r.Token)) + 70*len(r.Blobs)
		if size > reportBytes && i > 0 {
			return i
		}
	}
	return len(reports)
}

func (c *Client) get(ctx context.Context, path string, q url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: q}, out)
}
