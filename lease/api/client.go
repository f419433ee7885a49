package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// How long a client waits while nothing comes or goes.
const (
	answerWait = 20 * time.Second // for an answer's header, or a sign that it is being made
	verifyWait = 10 * time.Minute // for that of a verification
	stallWait  = 25 * time.Second // for the next bytes of a body, either way
)

// MaxAnswer is how many bytes of JSON a client reads.
const MaxAnswer = 64 << 20

// Client is a control plane elsewhere.
type Client struct {
	base  string // no slash at its end
	host  string // for messages
	token func() string
	http  *http.Client
	kept  kept // streams for exchanges
	form  form // how it exchanges
}

var _ lease.Control = (*Client)(nil)

// NewHTTPClient returns the HTTP client for Dial: conns connections are kept (0:
// a worker's need), tls nil means the system's trust. With addresses, it is there
// that the one control plane is looked for: tls must know its key.
func NewHTTPClient(conns int, tls *tls.Config, addresses ...string) *http.Client {
	return wire.NewClient(wire.ClientOptions{TLS: tls, Conns: conns, Header: verifyWait + answerWait, Addresses: addresses})
}

// Dial returns the control plane at a base URL; it doesn't connect yet. The token
// is asked for at each request. Without TLS it goes to loopback addresses only.
func Dial(base string, token func() string, client *http.Client) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		// The parser's message quotes the URL, and with it a password.
		return nil, fmt.Errorf("control URL cannot be read: %w", lease.ErrInvalid)
	}
	var fault string
	switch {
	case u.User != nil:
		return nil, fmt.Errorf("control URL for %q: credentials do not belong into it: %w", u.Host, lease.ErrInvalid)
	case u.Scheme != "http" && u.Scheme != "https":
		fault = "its scheme must be https"
	case u.Hostname() == "":
		fault = "it names no host"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		fault = "it ends with more than a path"
	case u.Scheme == "http" && !loopback(u.Hostname()):
		fault = "without TLS only a loopback host is allowed"
	}
	if fault != "" {
		return nil, fmt.Errorf("control URL %q: %s: %w", base, fault, lease.ErrInvalid)
	}
	root := u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	return &Client{base: root, host: u.Host, token: token, http: client}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Close drops the connections kept.
func (c *Client) Close() {
	c.kept.drop()
	c.http.CloseIdleConnections()
}

// request is what differs between operations.
type request struct {
	method, path string
	query        url.Values
	json         any       // the body, or
	compact      []byte    // the body, in an exchange's compact form, or
	body         io.Reader // the body of size bytes
	size         int64
	lease        string        // token of the lease that the body is for
	stream       bool          // the connection is to become one
	token        string        // instead of the client's
	wait         time.Duration // for the answer's header
}

// errStalled cancels a request that stands still.
var errStalled = errors.New("no answer in time")

// patience ends a request when it isn't touched for its wait.
type patience struct {
	ctx    context.Context
	wait   time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func newPatience(ctx context.Context, wait time.Duration) *patience {
	ctx, cancel := context.WithCancelCause(ctx)
	return &patience{ctx, wait, cancel, time.AfterFunc(wait, func() { cancel(errStalled) })}
}

// signs lets the other end's signs that it makes an answer renew the patience.
func (p *patience) signs() context.Context {
	return httptrace.WithClientTrace(p.ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		p.timer.Reset(p.wait)
		return nil
	}})
}

func (p *patience) touch() { p.timer.Reset(stallWait) }
func (p *patience) rest()  { p.timer.Stop() }

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}

// do sends a request and returns the answer, if it is a good one. The caller
// closes its body, and ends p after that.
func (c *Client) do(p *patience, rq request) (*http.Response, error) {
	resp, err := c.send(p, rq)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refusal(p, resp)
}

// refusal reads what an answer that is no good one says.
func (c *Client) refusal(p *patience, resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return c.unreachable(p, err)
	}
	if err := wire.ReadError(resp.StatusCode, b); err != nil {
		return err
	}
	return c.unreachable(p, fmt.Errorf("answer not understood: %s", resp.Status))
}

// send sends a request and returns the answer, if it is one of this protocol.
func (c *Client) send(p *patience, rq request) (*http.Response, error) {
	body, size := rq.body, rq.size
	var whole []byte
	if rq.json != nil || rq.compact != nil {
		buf := bytes.NewBuffer(rq.compact)
		if rq.json != nil {
			if err := wire.Encode(buf, rq.json); err != nil {
				return nil, err
			}
		}
		if buf.Len() > MaxBody {
			return nil, fmt.Errorf("%s %s: body of %d bytes, over %d: %w", rq.method, rq.path, buf.Len(), MaxBody, lease.ErrTooLarge)
		}
		whole = buf.Bytes()
		body, size = &sending{bytes.NewReader(whole), p}, int64(len(whole))
	}
	r, err := http.NewRequestWithContext(p.signs(), rq.method, c.base+rq.path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", rq.method, rq.path, err)
	}
	if whole != nil {
		r.ContentLength = size
		r.GetBody = func() (io.ReadCloser, error) { // for a kept connection that turned out dead
			return io.NopCloser(&sending{bytes.NewReader(whole), p}), nil
		}
	}
	r.URL.RawQuery = rq.query.Encode()
	r.Header.Set(Header, Protocol)
	r.Header.Set("User-Agent", "macbatch")
	token := rq.token
	if token == "" {
		token = c.token()
	}
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, fmt.Errorf("the token has characters that no token has: %w", lease.ErrUnauthorized)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if rq.stream {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", wire.StreamType)
	}
	if rq.lease != "" {
		r.Header.Set(LeaseToken, rq.lease)
	}
	switch {
	case rq.json != nil:
		r.Header.Set("Content-Type", "application/json")
	case rq.compact != nil:
		r.Header.Set("Content-Type", wire.ExchangeType)
	case body != nil:
		r.Header.Set("Content-Type", "application/octet-stream")
		r.ContentLength = size
		if size > 64<<10 {
			r.Header.Set("Expect", "100-continue") // a refusal then costs no bytes
		}
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(p, err)
	}
	if resp.Header.Get(Header) != Protocol {
		resp.Body.Close()
		return nil, c.unreachable(p, fmt.Errorf("%w: %s", errStranger, resp.Status))
	}
	return resp, nil
}

// errStranger tells of an answer without the protocol's header.
var errStranger = errors.New("something else answers there")

// call sends a request and reads its JSON answer into out; nil wants none.
func (c *Client) call(ctx context.Context, rq request, out any) error {
	if rq.wait == 0 {
		rq.wait = answerWait
	}
	p := newPatience(ctx, rq.wait)
	defer p.end()
	resp, err := c.do(p, rq)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil != (resp.StatusCode == http.StatusNoContent) {
		return c.unreachable(p, fmt.Errorf("answer not understood: %s", resp.Status))
	}
	if out == nil {
		return nil
	}
	if y, ok := out.(*lease.Exchanged); ok && resp.Header.Get("Content-Type") == wire.ExchangeType {
		err = wire.ReadExchanged(&touching{resp.Body, p}, MaxAnswer, y)
	} else {
		err = wire.Decode(&touching{resp.Body, p}, MaxAnswer, out)
	}
	if err != nil {
		return c.unreachable(p, misread(err))
	}
	return nil
}

// misread is an error in reading an answer: the sentinels of the wire speak of requests.
func misread(err error) error {
	if errors.Is(err, lease.ErrMalformed) || errors.Is(err, lease.ErrTooLarge) {
		return fmt.Errorf("answer not understood: %s", err.Error())
	}
	return err
}

// unreachable says that no answer of the control plane came. Where the caller
// gave up, its context's error is all there is to say.
func (c *Client) unreachable(p *patience, err error) error {
	return c.away(context.Cause(p.ctx), err)
}

// away is unreachable where cause, if there is one, ended the request.
func (c *Client) away(cause, err error) error {
	c.Close()
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the rest of it is a long URL
	}
	if errors.Is(cause, errStalled) {
		err = errStalled
	} else if cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", c.host, cause)
	}
	return fmt.Errorf("%s: %w: %w", c.host, lease.ErrUnreachable, err)
}

// touching tells a request's patience that bytes came.
type touching struct {
	io.Reader
	p *patience
}

func (t *touching) Read(p []byte) (int, error) {
	t.p.touch()
	return t.Reader.Read(p)
}

// sending renews the patience as bytes of a request's body go.
type sending struct {
	io.Reader
	p *patience
}

func (s *sending) Read(b []byte) (int, error) {
	s.p.timer.Reset(s.p.wait)
	return s.Reader.Read(b)
}
