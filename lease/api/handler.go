package api

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Options of a handler. Authenticate and Control are required.
type Options struct {
	// Authenticate returns whose token it is, or lease.ErrUnauthorized.
	Authenticate func(token string) (lease.Actor, error)

	// Control returns the control plane as an actor sees it.
	Control func(lease.Actor) lease.Control

	Hosts []string // names and addresses that a Host header may carry, without port
	Log   *slog.Logger
}

type handler struct {
	Options
	mux    *http.ServeMux
	cross  *http.CrossOriginProtection
	routes map[string]Route // by "METHOD PATTERN"
}

// NewHandler serves the protocol.
func NewHandler(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &handler{Options: o, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), routes: map[string]Route{}}
	for _, rt := range Routes() {
		p := rt.Method + " " + rt.Pattern
		h.routes[p] = rt
		h.mux.Handle(p, operation(rt))
	}
	return h
}

// NewServer returns a server with the limits that a slow or hostile client needs.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	if !h.knownHost(r.Host) {
		wire.WriteError(w, fmt.Errorf("host %q is not this server's: %w", r.Host, lease.ErrMalformed))
		return
	}
	if r.URL.Path == "/healthz" && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "ok\n") // whoever asked has gone
		return
	}
	rec := &recorder{ResponseWriter: w}
	actor, pattern := lease.Actor{}, ""
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			h.Log.Error("panic", "route", pattern, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if rec.status == 0 {
				wire.WriteError(rec, errors.New("panic"))
			}
		}
		h.Log.Info("request", "method", r.Method, "route", pattern, "status", rec.status, "ms", time.Since(began).Milliseconds(), "actor", string(actor.ID))
	}()
	if err := h.answer(rec, r, &actor, &pattern); err != nil {
		if rec.status != 0 {
			panic(http.ErrAbortHandler)
		}
		if status := wire.Status(err); status >= http.StatusInternalServerError && r.Context().Err() == nil {
			h.Log.Error("request failed", "route", pattern, "error", err)
		}
		wire.WriteError(rec, err)
	}
}

// answer lets a request through the gates, in the order in which they may tell
// the caller something: nothing is told, and no body read, before the credential.
func (h *handler) answer(w *recorder, r *http.Request, actor *lease.Actor, pattern *string) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return lease.ErrUnauthorized
	}
	a, err := h.Authenticate(token)
	if err != nil {
		return err
	}
	*actor = a
	if err := h.cross.Check(r); err != nil {
		return fmt.Errorf("request from another origin: %w", lease.ErrForbidden)
	}
	if v := r.Header.Get(versionHeader); v != "" && v != Version {
		return fmt.Errorf("protocol version %q: only %s is spoken here: %w", v, Version, lease.ErrMalformed)
	}
	_, p := h.mux.Handler(r)
	rt, ok := h.routes[p]
	if !ok {
		return lease.ErrNotFound
	}
	*pattern = p
	if rt.Role != "" && !a.May(rt.Role) {
		return fmt.Errorf("%s as %s: %w", p, a.Role, lease.ErrForbidden)
	}
	if r.Header.Get("Content-Encoding") != "" {
		return fmt.Errorf("content encoding %q is not taken: %w", r.Header.Get("Content-Encoding"), lease.ErrMalformed)
	}
	if r.Method == http.MethodPost {
		if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
			return fmt.Errorf("content type %q: must be application/json: %w", r.Header.Get("Content-Type"), lease.ErrMalformed)
		}
	}
	h.deadlines(w, r, rt)
	w.control = h.Control(a)
	h.mux.ServeHTTP(w, r)
	return w.err
}

// operation is a route behind the gates. The mux has filled in the path's values.
func operation(rt Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rec, ok := w.(*recorder)
		if !ok {
			panic("api: an operation is served by its handler only")
		}
		var out any
		if out, rec.err = rt.serve(rec.control, rec, r); rec.err == nil && out != nil {
			rec.err = wire.WriteJSON(rec, http.StatusOK, out)
		}
	}
}

// deadlines bounds how long a request may take: the whole of it, or, of a
// stream, each of its steps. Not every server under test knows deadlines.
func (h *handler) deadlines(w *recorder, r *http.Request, rt Route) {
	c := http.NewResponseController(w.ResponseWriter)
	if !rt.stream {
		_ = c.SetReadDeadline(time.Now().Add(requestTime))
		_ = c.SetWriteDeadline(time.Now().Add(requestTime))
		return
	}
	_ = c.SetWriteDeadline(time.Time{})
	_ = c.SetReadDeadline(time.Time{})
	r.Body = &steppedBody{ReadCloser: r.Body, c: c}
	w.c = c
}

func (h *handler) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	for _, n := range h.Hosts {
		if strings.EqualFold(host, n) {
			return true
		}
	}
	return false
}

// recorder is one request under way: who asks, and how it was answered. It moves
// the deadline of a stream's writes.
type recorder struct {
	http.ResponseWriter
	control lease.Control
	status  int
	err     error
	c       *http.ResponseController
}

func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.c != nil {
		_ = w.c.SetWriteDeadline(time.Now().Add(streamIdle))
	}
	return w.ResponseWriter.Write(b)
}

// steppedBody gives each read of a stream its own deadline.
type steppedBody struct {
	io.ReadCloser
	c *http.ResponseController
}

func (b *steppedBody) Read(p []byte) (int, error) {
	_ = b.c.SetReadDeadline(time.Now().Add(streamIdle))
	return b.ReadCloser.Read(p)
}
