package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// The times of a stream.
const (
	streamIdle  = 30 * time.Second // the next frame begins within, or up to a third sooner; clients leave before
	streamKeep  = 15 * time.Second // a client keeps one that it does not need
	streamPulse = 10 * time.Second // between two signs that an answer is being made
	streamQuiet = 30 * time.Second // silence after which a client gives up, though it waits for an answer
	streamWatch = time.Second      // an answer that takes longer is made only while the client is there
)

// streamed is the control plane's end of a stream. One goroutine reads, asks and
// answers; only where an answer takes its time others look after the client.
type streamed struct {
	h      *handler
	conn   net.Conn
	in     *bufio.Reader
	out    []byte // the newest frame
	token  string
	actor  lease.Actor
	ctrl   lease.Control
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Deadlines, and the timer, are moved when they come close: moving one with
	// each frame would wake a thread each time.
	readBy  time.Time // the read deadline; zero: another one was set
	writeBy time.Time // the write deadline

	watched chan struct{} // the watch has ended
	pulse   *time.Timer

	mu       sync.Mutex
	leaving  bool
	resting  bool        // between two frames
	asking   time.Time   // since when an answer is being made; zero: none is
	watching bool        // over the client, meanwhile
	vigil    *time.Timer // begins to watch, when it is time
	armed    bool        // it runs

	telling sync.Mutex // guards what is written while the client waits
	waiting bool       // and is told so
}

// stream answers a request for a stream, and serves it.
func (c *call) stream(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	if !wire.Upgraded(r.Header) || r.ContentLength != 0 {
		return nil, fmt.Errorf("a stream begins with \"Upgrade: %s\" and no body: %w", wire.StreamType, lease.ErrMalformed)
	}
	token, err := bearer(r)
	if err != nil {
		return nil, err
	}
	open, _ := r.Context().Value(streamsKey{}).(*streams)
	if open == nil {
		return nil, fmt.Errorf("no streams here: %w", lease.ErrNotAllowed)
	}
	// From here on what the server makes of the connection is none of the stream's concern.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	s := &streamed{h: c.h, token: token, actor: c.actor, ctrl: c.control, ctx: ctx, cancel: cancel, watched: make(chan struct{}, 1)}
	if !open.join(s) {
		return nil, fmt.Errorf("no more streams now: %w", lease.ErrNotAllowed)
	}
	defer open.end(s)
	conn, rw, err := c.w.control.Hijack()
	if err != nil {
		return nil, fmt.Errorf("no streams on this connection: %w", lease.ErrNotAllowed)
	}
	defer conn.Close() //nolint:errcheck // whatever it says, it is over
	c.w.status = http.StatusSwitchingProtocols
	header := c.w.Header()
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", wire.StreamType)
	answer := bytes.NewBufferString("HTTP/1.1 101 Switching Protocols\r\n")
	header.Write(answer) //nolint:errcheck // to memory
	answer.WriteString("\r\n")
	s.attach(conn, rw.Reader)
	if s.write(answer.Bytes()) == nil {
		s.serve()
	}
	return nil, nil
}

// attach gives the stream its connection, unless it was cut meanwhile.
func (s *streamed) attach(conn net.Conn, early *bufio.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.in = conn, bufio.NewReader(conn)
	if n := early.Buffered(); n > 0 {
		b, _ := early.Peek(n) // they are there
		s.in = bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(b)), conn))
	}
	s.vigil = time.AfterFunc(time.Hour, s.look)
	s.vigil.Stop()
	s.pulse = time.AfterFunc(time.Hour, s.beat)
	s.pulse.Stop()
	if s.ctx.Err() != nil {
		s.conn.Close() //nolint:errcheck // it is over
	}
}

// leave ends the stream when it is at rest.
func (s *streamed) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	if s.resting {
		s.conn.SetReadDeadline(past) //nolint:errcheck // it ends anyway
	}
}

// cut ends the stream now.
func (s *streamed) cut(why error) {
	s.cancel(why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close() //nolint:errcheck // likewise
	}
}

var past = time.Unix(1, 0)

// rest begins to wait for a frame. false: the stream ends instead.
func (s *streamed) rest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return false
	}
	s.resting = true
	if now := time.Now(); s.readBy.Sub(now) < streamIdle*2/3 {
		s.readBy = now.Add(streamIdle)
		return s.conn.SetReadDeadline(s.readBy) == nil
	}
	return true
}

// serve answers frame by frame, until either end has enough of it.
func (s *streamed) serve() {
	for s.rest() {
		k, body, err := wire.ReadFrame(s.in, MaxBody, s.begun)
		s.mu.Lock()
		s.resting = false
		s.mu.Unlock()
		begun := time.Now()
		switch {
		case errors.Is(err, lease.ErrMalformed), errors.Is(err, lease.ErrTooLarge):
		case err != nil:
			return // it ended, or nothing comes
		case k != wire.FrameExchange:
			err = fmt.Errorf("a client sends no frame of kind %d: %w", k, lease.ErrMalformed)
		}
		ends := err != nil
		if err == nil {
			ends, err = s.answer(body)
		}
		if err != nil {
			k := wire.FrameError
			if ends {
				k = wire.FrameEnd
			}
			s.out = wire.ErrorFrame(s.out, k, err)
		}
		if s.ctx.Err() != nil {
			err = errGone
		} else if e := s.write(s.out); e != nil {
			err, ends = errGone, true
		}
		s.log(begun, err)
		if ends || s.ctx.Err() != nil {
			return
		}
		if cap(s.out) > maxKept {
			s.out = nil
		}
	}
}

// maxKept bounds the buffer kept for the next frame.
const maxKept = 64 << 10

// begun watches over the rest of a frame.
func (s *streamed) begun(r io.Reader) io.Reader {
	s.readBy = time.Time{}
	return &paced{Reader: r, conn: s.conn, begun: time.Now()}
}

// paced reads against the clock.
type paced struct {
	io.Reader
	conn  net.Conn
	begun time.Time
	n     int64
}

func (p *paced) Read(b []byte) (int, error) {
	if err := p.conn.SetReadDeadline(pace(p.begun, p.n)); err != nil {
		return 0, err
	}
	n, err := p.Reader.Read(b)
	p.n += int64(n)
	return n, err
}

// write sends bytes against the clock.
func (s *streamed) write(b []byte) error {
	// Setting it each time would cost more than it is worth.
	if now := time.Now(); len(b) > maxKept || s.writeBy.Sub(now) < grace {
		s.writeBy = pace(now, int64(len(b))).Add(grace)
		if err := s.conn.SetWriteDeadline(s.writeBy); err != nil {
			return err
		}
	}
	_, err := s.conn.Write(b)
	return err
}

// answer makes the answer to an exchange. ends: there will be no other.
func (s *streamed) answer(body []byte) (ends bool, err error) {
	// Whose token it is may have changed since the stream began.
	a, err := s.h.Authenticate(s.token)
	if err == nil && a.ID != s.actor.ID {
		err = lease.ErrUnauthorized
	}
	if err != nil {
		return true, err
	}
	var x lease.Exchange
	if err := wire.ParseExchange(body, &x); err != nil {
		return true, err
	}
	x.Wait = min(max(x.Wait, 0), lease.MaxWait)
	out, err := s.ask(x)
	if err != nil {
		return errors.Is(err, lease.ErrUnauthorized) || errors.Is(err, errPanic), err
	}
	s.out = wire.EndFrame(wire.AppendExchanged(wire.BeginFrame(s.out, wire.FrameExchanged), &out))
	return false, nil
}

// ask has the control plane answer. Where that takes its time, it ends when the
// client goes.
func (s *streamed) ask(x lease.Exchange) (out lease.Exchanged, err error) {
	s.mu.Lock()
	s.asking = time.Now()
	if !s.armed {
		s.armed = true
		s.vigil.Reset(streamWatch)
	}
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			s.h.Log.Error("panic", "route", streamRoute, "panic", p, "stack", string(debug.Stack()))
			err = errPanic
		}
		s.mu.Lock()
		s.asking = time.Time{}
		watching := s.watching
		s.watching = false
		s.mu.Unlock()
		if watching {
			s.relieve()
		}
	}()
	return s.ctrl.Exchange(s.ctx, x)
}

// look begins to watch over a client whose answer takes its time.
func (s *streamed) look() {
	s.mu.Lock()
	s.armed = false
	if s.asking.IsZero() {
		s.mu.Unlock()
		return
	}
	if left := streamWatch - time.Since(s.asking); left > 0 {
		s.armed = true
		s.vigil.Reset(left)
		s.mu.Unlock()
		return
	}
	s.watching = true
	s.mu.Unlock()
	s.watch()
}

// watch notices that the client goes while it waits, and tells it that it waits.
func (s *streamed) watch() {
	s.telling.Lock()
	s.waiting = true
	s.pulse.Reset(streamPulse - streamWatch)
	s.telling.Unlock()
	// Bytes are those of its next frame.
	if _, err := s.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.cancel(errGone)
	}
	s.watched <- struct{}{}
}

var errGone = errors.New("the client has gone")

// relieve ends the watch.
func (s *streamed) relieve() {
	s.readBy = time.Time{}
	s.conn.SetReadDeadline(past) //nolint:errcheck // then it has ended already
	<-s.watched
	s.telling.Lock()
	s.waiting = false
	s.telling.Unlock()
	s.pulse.Stop()
}

// beat tells the client that its answer is still being made.
func (s *streamed) beat() {
	s.telling.Lock()
	defer s.telling.Unlock()
	if !s.waiting {
		return
	}
	if err := s.write(wire.EndFrame(wire.BeginFrame(nil, wire.FramePatience))); err != nil {
		s.cancel(errGone)
		return
	}
	s.pulse.Reset(streamPulse)
}

const streamRoute = "GET /v1/exchange/stream"

// log tells of one exchange, as of any request.
func (s *streamed) log(begun time.Time, err error) {
	level, status := slog.LevelDebug, http.StatusOK
	switch {
	case errors.Is(err, errGone):
		level, status = slog.LevelInfo, statusGone
	case err != nil:
		level, status = slog.LevelInfo, wire.Status(err)
	}
	if status >= http.StatusInternalServerError && !errors.Is(err, errPanic) {
		s.h.Log.Error("request failed", "route", streamRoute, "actor", s.actor.ID, "error", err)
	}
	if s.h.Log.Enabled(s.ctx, level) {
		s.h.Log.Log(s.ctx, level, "request", "method", "FRAME", "route", streamRoute, "status", status, "ms", time.Since(begun).Milliseconds(), "actor", s.actor.ID)
	}
}
