package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// stream is a client's end of a connection on which exchanges travel as frames,
// one at a time.
type stream struct {
	conn  io.ReadWriteCloser
	in    *bufio.Reader
	out   []byte // the newest frame
	token string // that it was opened with

	// Nothing came in time, or nobody needs it: then it ends. Moving a timer with
	// each frame would wake a thread each time, so that it looks at what moves.
	begun time.Time
	until atomic.Int64 // in nanoseconds since begun
	timer *time.Timer

	mu   sync.Mutex
	ends error // why this end closed it
}

func newStream(conn io.ReadWriteCloser, token string) *stream {
	s := &stream{conn: conn, in: bufio.NewReader(conn), token: token, begun: time.Now()}
	s.allow(streamQuiet)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(streamQuiet, s.look)
	return s
}

// allow lets the stream live for so much longer.
func (s *stream) allow(d time.Duration) { s.until.Store(int64(time.Since(s.begun) + d)) }

// left is how long it will live.
func (s *stream) left() time.Duration { return time.Duration(s.until.Load()) - time.Since(s.begun) }

// look ends the stream when its time has come.
func (s *stream) look() {
	left := s.left()
	if left <= 0 {
		s.close(errStalled)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		s.timer.Reset(left)
	}
}

// close ends the stream. The first reason sticks.
func (s *stream) close(why error) {
	s.mu.Lock()
	if s.ends == nil {
		s.ends = why
	}
	s.timer.Stop()
	s.mu.Unlock()
	s.conn.Close() //nolint:errcheck // it is over
}

// cause is why this end closed the stream; nil when it did not.
func (s *stream) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

// kept are a client's streams that rest.
type kept struct {
	mu    sync.Mutex
	idle  []*stream
	plain time.Time // until then requests do without
}

// plainFor is how long a control plane that refused a stream is not asked again.
const plainFor = time.Minute

// take returns a stream for a token that rests, or nil; try: one may be opened.
func (k *kept) take(token string) (s *stream, try bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.idle) > 0 {
		last := len(k.idle) - 1
		s, k.idle = k.idle[last], k.idle[:last]
		// One that is about to end is left alone.
		if s.token == token && s.left() > time.Second && s.cause() == nil {
			return s, true
		}
		s.close(errStalled)
	}
	return nil, time.Now().After(k.plain)
}

func (k *kept) put(s *stream) {
	if cap(s.out) > maxKept {
		s.out = nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s.allow(streamKeep)
	k.idle = append(k.idle, s)
}

func (k *kept) refused() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plain = time.Now().Add(plainFor)
}

// drop ends those that rest.
func (k *kept) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.idle {
		s.close(errStalled)
	}
	k.idle = nil
}

// streamed exchanges on a stream. there: it did, or could not; else the control
// plane, or something before it, has no streams.
func (c *Client) streamed(ctx context.Context, x *lease.Exchange) (out lease.Exchanged, there bool, err error) {
	token := c.token()
	s, try := c.kept.take(token)
	if s == nil {
		if !try {
			return out, false, nil
		}
		if s, err = c.open(ctx, token); s == nil {
			return out, err != nil, err
		}
	}
	keep, err := s.exchange(ctx, x, &out)
	if keep {
		c.kept.put(s)
	} else {
		s.close(errStalled)
	}
	if lost, ok := errors.AsType[*lostError](err); ok {
		err = c.away(lost.cause, lost.err)
	}
	return out, true, err
}

// open asks for a stream. Without an error and without one there are none.
func (c *Client) open(ctx context.Context, token string) (*stream, error) {
	p := newPatience(ctx, answerWait)
	defer p.end()
	resp, err := c.send(p, request{method: http.MethodGet, path: "/v1/exchange/stream", stream: true, token: token})
	if errors.Is(err, errStranger) { // a proxy, perhaps, that knows requests only
		c.kept.refused()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode == http.StatusSwitchingProtocols && ok && wire.Upgraded(resp.Header) {
		return newStream(conn, token), nil
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, c.refusal(p, resp) // a request would be told the same
	}
	c.kept.refused()
	return nil, nil
}

// lostError tells that no answer came; cause is why, when this end gave up.
type lostError struct{ cause, err error }

func (e *lostError) Error() string { return e.err.Error() }

// lost is what an error of the connection means.
func (s *stream) lost(err error) error {
	if why := s.cause(); why != nil {
		return &lostError{why, why}
	}
	return &lostError{nil, err}
}

// exchange sends one frame and reads its answer. keep: the stream is good for
// another one.
func (s *stream) exchange(ctx context.Context, x *lease.Exchange, out *lease.Exchanged) (keep bool, err error) {
	b, err := wire.AppendExchange(wire.BeginFrame(s.out, wire.FrameExchange), x)
	if err != nil {
		return true, err
	}
	if n := wire.FrameBody(b); n > MaxBody {
		return true, fmt.Errorf("exchange: body of %d bytes, over %d: %w", n, MaxBody, lease.ErrTooLarge)
	}
	s.out = wire.EndFrame(b)
	if err := context.Cause(ctx); err != nil {
		return true, &lostError{err, err}
	}
	if ctx.Done() != nil {
		leave := context.AfterFunc(ctx, func() { s.close(context.Cause(ctx)) })
		defer func() { keep = leave() && keep }()
	}
	defer func() { keep = keep && s.cause() == nil }()
	for b := s.out; len(b) > 0; {
		s.allow(streamQuiet)
		n, err := s.conn.Write(b[:min(len(b), maxKept)])
		if err != nil {
			return false, s.lost(err)
		}
		b = b[n:]
	}
	w := &waiting{s: s, until: time.Now().Add(exchangeWait(x))}
	for {
		k, body, err := wire.ReadFrame(s.in, MaxAnswer, w.begun)
		if err != nil {
			return false, s.lost(misread(err))
		}
		switch k {
		case wire.FramePatience:
			w.touch(streamQuiet)
			continue
		case wire.FrameExchanged:
			if err := wire.ParseExchanged(body, out); err != nil {
				return false, &lostError{nil, misread(err)}
			}
			return true, nil
		case wire.FrameError, wire.FrameEnd:
			if err := wire.ReadErrorFrame(body); err != nil {
				return k == wire.FrameError, err
			}
		}
		return false, &lostError{nil, fmt.Errorf("answer not understood: frame of kind %d", k)}
	}
}

// waiting is for an answer that must come until some time.
type waiting struct {
	s     *stream
	until time.Time
	io.Reader
}

// touch waits so much longer, but for what is not begun not beyond the end.
func (w *waiting) touch(d time.Duration) { w.s.allow(min(d, time.Until(w.until))) }

// begun tells that an answer comes in parts.
func (w *waiting) begun(r io.Reader) io.Reader {
	w.Reader = r
	return w
}

// Read lets the answer come for as long as it goes on coming.
func (w *waiting) Read(p []byte) (int, error) {
	w.s.allow(stallWait)
	return w.Reader.Read(p)
}
