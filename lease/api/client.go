package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Client is a Control at the other end of the wire. It never asks twice: whether
// that is safe, the caller knows.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

var _ lease.Control = (*Client)(nil)

// Dial makes a client for the control plane at base. It connects at the first
// request. Plain HTTP is for the same machine only.
func Dial(base, token string, client *http.Client) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("control plane %q: %w", base, lease.ErrMalformed)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("control plane %q: must be http(s)://HOST:PORT: %w", base, lease.ErrMalformed)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("control plane %q: plain http is for the same machine only: %w", base, lease.ErrMalformed)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return &Client{u, token, client}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// send makes a request and returns an answer of status 200; its body is the caller's to close.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body io.Reader, size int64, kind string) (*http.Response, error) {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, lease.ErrMalformed)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set(versionHeader, Version)
	if body != nil {
		r.ContentLength = size
		r.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.lost(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSmall))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, c.lost(ctx, err)
	}
	if err := wire.ReadError(resp.StatusCode, b); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s answers %s %s with %s: is it a control plane? %w", c.base.Host, method, path, resp.Status, lease.ErrUnreachable)
}

// lost is the error of a connection that broke.
func (c *Client) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // its text repeats the address
	}
	return fmt.Errorf("%s: %w: %w", c.base.Host, lease.ErrUnreachable, err)
}

// call sends in, unless it is nil, and decodes the answer into out.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) (err error) {
	var body io.Reader
	var size int64
	if in != nil {
		var b bytes.Buffer
		if err := wire.Encode(&b, in); err != nil {
			return err
		}
		body, size = &b, int64(b.Len())
	}
	resp, err := c.send(ctx, method, path, query, body, size, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	err = wire.Decode(resp.Body, maxAnswer, out)
	if err != nil && !errors.Is(err, lease.ErrMalformed) && !errors.Is(err, lease.ErrTooLarge) {
		return c.lost(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("answer of %s to %s %s: %w", c.base.Host, method, path, err)
	}
	return nil
}

// Submit implements lease.Control.
func (c *Client) Submit(ctx context.Context, s lease.Submission) (lease.JobID, error) {
	var out submitted
	err := c.call(ctx, "POST", "/v1/jobs", nil, s, &out)
	return out.ID, err
}

// Job implements lease.Control.
func (c *Client) Job(ctx context.Context, id lease.JobID) (out lease.Job, err error) {
	err = c.call(ctx, "GET", "/v1/jobs/"+id.String(), nil, nil, &out)
	return out, err
}

// Jobs implements lease.Control.
func (c *Client) Jobs(ctx context.Context, before lease.JobID, limit int) (out []lease.Job, err error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if before != 0 {
		q.Set("before", before.String())
	}
	err = c.call(ctx, "GET", "/v1/jobs", q, nil, &out)
	return out, err
}

// Cancel implements lease.Control.
func (c *Client) Cancel(ctx context.Context, id lease.JobID, reason string) error {
	var out empty
	return c.call(ctx, "POST", "/v1/jobs/"+id.String()+"/cancel", nil, cancelation{reason}, &out)
}

// Shards implements lease.Control.
func (c *Client) Shards(ctx context.Context, id lease.JobID, after uint32, limit int, results bool) (out []lease.Shard, err error) {
	q := url.Values{"after": {strconv.FormatUint(uint64(after), 10)}, "limit": {strconv.Itoa(limit)}}
	if results {
		q.Set("results", "1")
	}
	err = c.call(ctx, "GET", "/v1/jobs/"+id.String()+"/shards", q, nil, &out)
	return out, err
}

// Events implements lease.Control.
func (c *Client) Events(ctx context.Context, of lease.ShardID, after uint64, limit int) (out []lease.Event, err error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}}
	switch {
	case of.Seq != 0:
		q.Set("of", of.String())
	case of.Job != 0:
		q.Set("of", of.Job.String())
	}
	err = c.call(ctx, "GET", "/v1/events", q, nil, &out)
	return out, err
}

// Workers implements lease.Control.
func (c *Client) Workers(ctx context.Context) (out []lease.Worker, err error) {
	err = c.call(ctx, "GET", "/v1/workers", nil, nil, &out)
	return out, err
}

// Verify implements lease.Control.
func (c *Client) Verify(ctx context.Context) (out []lease.Problem, err error) {
	err = c.call(ctx, "GET", "/v1/verify", nil, nil, &out)
	return out, err
}

// Exchange implements lease.Control.
func (c *Client) Exchange(ctx context.Context, x lease.Exchange) (out lease.Exchanged, err error) {
	err = c.call(ctx, "POST", "/v1/exchange", nil, x, &out)
	return out, err
}

// Heartbeat implements lease.Control.
func (c *Client) Heartbeat(ctx context.Context, b lease.Beat) (out lease.Beaten, err error) {
	err = c.call(ctx, "POST", "/v1/heartbeat", nil, b, &out)
	return out, err
}

// PutBlob implements lease.Control.
func (c *Client) PutBlob(ctx context.Context, d lease.Digest, size int64, r io.Reader) error {
	if size == 0 {
		r = http.NoBody
	}
	resp, err := c.send(ctx, "PUT", "/v1/blobs/"+d.String(), nil, r, size, "application/octet-stream")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Blob implements lease.Control. Reading to the end tells, by an error, when the
// bytes are not those of the digest.
func (c *Client) Blob(ctx context.Context, d lease.Digest) (io.ReadCloser, int64, error) {
	resp, err := c.send(ctx, "GET", "/v1/blobs/"+d.String(), nil, nil, 0, "")
	if err != nil {
		return nil, 0, err
	}
	if resp.ContentLength < 0 {
		return nil, 0, errors.Join(fmt.Errorf("blob %v: an answer of unknown length: %w", d, lease.ErrDigest), resp.Body.Close())
	}
	return &checkedBody{resp.Body, sha256.New(), d}, resp.ContentLength, nil
}

// checkedBody compares the bytes read with their digest.
type checkedBody struct {
	io.ReadCloser
	h hash.Hash
	d lease.Digest
}

func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.h.Write(p[:n])
	if errors.Is(err, io.EOF) && lease.Digest(b.h.Sum(nil)) != b.d {
		err = fmt.Errorf("blob %v: %w", b.d, lease.ErrDigest)
	}
	return n, err
}
