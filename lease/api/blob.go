package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"macbatch/lease"
)

// PutBlob implements lease.Control. It reads r no more once it returned.
func (c *Client) PutBlob(ctx context.Context, u lease.Upload, r io.Reader) error {
	d, size := u.Digest, u.Size
	if size < 0 {
		return fmt.Errorf("put blob %v: %d bytes: %w", d, size, lease.ErrInvalid)
	}
	p := newPatience(ctx, stallWait)
	defer p.end()
	up := &upload{r: r, p: p, size: size}
	rq := request{method: http.MethodPut, path: projectPath(u.Project) + "/blobs/" + d.String(), body: up, size: size}
	if !u.Shard.IsZero() {
		rq.path, rq.query, rq.lease = shardPath(u.Shard)+"/blobs/"+d.String(), url.Values{"fence": {u.Fence.String()}}, u.Token
	}
	if size == 0 {
		rq.body = http.NoBody
	}
	resp, err := c.do(p, rq)
	if fault := up.stop(); fault != nil {
		err = fmt.Errorf("put blob %v: %w", d, fault) // sooner than the transport's word on it
	}
	if resp != nil {
		resp.Body.Close()
		if err == nil && resp.StatusCode != http.StatusNoContent {
			err = c.unreachable(p, fmt.Errorf("answer not understood: %s", resp.Status))
		}
	}
	return err
}

func shardPath(id lease.ShardID) string {
	return "/v1/jobs/" + id.Job.String() + "/shards/" + strconv.FormatUint(uint64(id.Seq), 10)
}

// upload reads a body of a known size for the transport, which may go on reading
// after it has returned: stop ends that.
type upload struct {
	mu      sync.Mutex
	r       io.Reader
	p       *patience
	size    int64
	n       int64
	fault   error // of r
	stopped bool
}

func (u *upload) Read(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.stopped:
		return 0, errors.New("upload is over")
	case u.fault != nil:
		return 0, u.fault
	case u.n == u.size:
		return 0, io.EOF
	}
	u.p.touch()
	n, err := u.r.Read(b[:min(int64(len(b)), u.size-u.n)])
	u.n += int64(n)
	// The last bytes are held back until it is sure that they are the last.
	if u.n == u.size && (err == nil || errors.Is(err, io.EOF)) {
		if more, _ := io.ReadFull(u.r, make([]byte, 1)); more > 0 {
			u.fault = fmt.Errorf("there are more than %d bytes: %w", u.size, lease.ErrDigest)
			return 0, u.fault
		}
		return n, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("there are %d bytes of %d: %w", u.n, u.size, lease.ErrDigest)
	}
	u.fault = err
	return n, err
}

func (u *upload) stop() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	return u.fault
}

// Blob implements lease.Control. What is read is checked: the reader ends in
// lease.ErrDigest instead of its last bytes when they are not what was asked for,
// and in lease.ErrUnreachable when the connection broke.
func (c *Client) Blob(ctx context.Context, of lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	b, err := c.download(ctx, request{method: http.MethodGet, path: shardPath(of) + "/blobs/" + d.String()})
	if err != nil {
		return nil, 0, err
	}
	b.want, b.sum = d, sha256.New()
	return b, b.left, nil
}

// Input implements lease.Control. The reader ends in lease.ErrUnreachable when the
// connection broke.
func (c *Client) Input(ctx context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	q := url.Values{"from": {strconv.FormatInt(from, 10)}, "to": {strconv.FormatInt(to, 10)}}
	if of.Seq != 0 {
		q.Set("shard", strconv.FormatUint(uint64(of.Seq), 10))
	}
	b, err := c.download(ctx, request{method: http.MethodGet, path: "/v1/jobs/" + of.Job.String() + "/input", query: q})
	switch {
	case err != nil:
		return nil, err
	case b.left != to-from:
		err := c.unreachable(b.p, fmt.Errorf("an answer of %d bytes, not %d", b.left, to-from))
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// download begins to read an answer that is no JSON.
func (c *Client) download(ctx context.Context, rq request) (*download, error) {
	p := newPatience(ctx, answerWait)
	resp, err := c.do(p, rq)
	if err == nil && (resp.StatusCode != http.StatusOK || resp.ContentLength < 0) {
		resp.Body.Close()
		err = c.unreachable(p, fmt.Errorf("answer not understood: %s", resp.Status))
	}
	if err != nil {
		p.end()
		return nil, err
	}
	p.rest()
	return &download{c: c, p: p, body: resp.Body, left: resp.ContentLength}, nil
}

type download struct {
	c    *Client
	p    *patience
	body io.ReadCloser
	left int64
	sum  hash.Hash // nil: not checked here
	want lease.Digest
	err  error // what ended it
}

func (d *download) Read(b []byte) (int, error) {
	if d.err != nil || len(b) == 0 {
		return 0, d.err
	}
	n := 0
	if d.left > 0 {
		var err error
		d.p.touch()
		n, err = d.body.Read(b)
		d.p.rest() // a slow reader of these bytes is no stall
		if d.sum != nil {
			d.sum.Write(b[:n])
		}
		d.left -= int64(n)
		if err != nil && (!errors.Is(err, io.EOF) || d.left > 0) {
			d.err = fmt.Errorf("download: %w", d.c.unreachable(d.p, err))
			return n, d.err
		}
	}
	if d.left > 0 {
		return n, nil
	}
	// The last bytes are held back if they are wrong: a reader that counts would
	// not come again for the error.
	if d.sum != nil && lease.Digest(d.sum.Sum(nil)) != d.want {
		d.err = fmt.Errorf("blob %v: %w", d.want, lease.ErrDigest)
		return 0, d.err
	}
	d.err = io.EOF
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (d *download) Close() error {
	err := d.body.Close()
	d.p.end()
	return err
}
