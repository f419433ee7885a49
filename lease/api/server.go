package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is an HTTP server whose end is that of its streams too.
type Server struct {
	http.Server
	streams *streams
}

// NewServer returns a server for a handler: it waits for no header and no idle
// client for ever, while the handler sets the deadlines of bodies and answers by
// what is asked. HTTP/1.1 only, as the clients. A nil log is none.
func NewServer(h http.Handler, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	crowd := newCrowd()
	open := &streams{all: map[*streamed]bool{}}
	return &Server{streams: open, Server: http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            10 * time.Second,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true, // "OPTIONS *" needs a token like the rest
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Protocols:                    http1,
		ConnContext:                  crowd.come,
		ConnState:                    crowd.state,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), streamsKey{}, open)
		},
	}}
}

// Shutdown is that of http.Server: streams at rest end at once, the others behind
// the answer they are at.
func (s *Server) Shutdown(ctx context.Context) error {
	s.streams.leave()
	err := s.Server.Shutdown(ctx)
	return errors.Join(err, s.streams.wait(ctx))
}

// Close is that of http.Server. It cuts the streams, and waits until nothing is
// asked for them any more.
func (s *Server) Close() error {
	s.streams.cut()
	return errors.Join(s.Server.Close(), s.streams.wait(context.Background()))
}

type streamsKey struct{}

// maxStreams bounds how many there are; who comes then is served by requests.
const maxStreams = 1024

// streams are those of a server.
type streams struct {
	mu      sync.Mutex
	all     map[*streamed]bool
	leaving bool
	ended   chan struct{} // closed when none is left; nil: nobody waits
}

// join takes a stream in, unless the server leaves or has enough.
func (t *streams) join(s *streamed) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leaving || len(t.all) >= maxStreams {
		return false
	}
	t.all[s] = true
	return true
}

func (t *streams) end(s *streamed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.all, s); len(t.all) == 0 && t.ended != nil {
		close(t.ended)
		t.ended = nil
	}
}

// leave lets streams end when they are at rest.
func (t *streams) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaving = true
	for s := range t.all {
		s.leave()
	}
}

// cut ends them now.
func (t *streams) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaving = true
	for s := range t.all {
		s.cut(http.ErrServerClosed)
	}
}

func (t *streams) wait(ctx context.Context) error {
	t.mu.Lock()
	if len(t.all) == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.ended == nil {
		t.ended = make(chan struct{})
	}
	ended := t.ended
	t.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
