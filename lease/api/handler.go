package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Protocol is the version of the protocol, and Header where both ends state it.
const (
	Protocol = "1"
	Header   = "Macbatch-Protocol"
)

// Limits of what a handler reads.
const (
	MaxBody     = 4 << 20   // bytes of an exchange, the largest JSON body
	maxBeat     = 1 << 20   // bytes of a heartbeat
	maxSmall    = 256 << 10 // bytes of any other JSON body
	MaxBlob     = 4 << 30   // bytes of a blob, unless Options say otherwise
	maxToken    = 1 << 10
	maxHeader   = 16 << 10
	idleTimeout = 2 * time.Minute // longer than a client keeps a connection
)

// Options are what a handler needs. The first two must be set.
type Options struct {
	// Authenticate tells whose token it is, or lease.ErrUnauthorized.
	Authenticate func(token string) (lease.Actor, error)
	// Control returns the control plane bound to an actor. It enforces scope.
	Control func(lease.Actor) lease.Control
	// Hosts are the names, without port, by which clients may call this host,
	// beside those of the loopback.
	Hosts []string
	// Reach tells guests where to come; nil: nowhere.
	Reach   func() lease.Reach
	MaxBlob int64        // 0: MaxBlob
	Beside  *Beside      // nil: none
	Log     *slog.Logger // nil: none
}

// Beside is another protocol for the same actors at the same place. Who asks is
// settled before it is called, and its transfers are paced like this one's.
type Beside struct {
	Prefixes []string // of paths: "/v1/x" is itself and all below it

	// Serve answers a request; an error is for Fail to tell. The request's body may be
	// read up to MaxBlob bytes, and then ends in lease.ErrTooLarge.
	Serve func(http.ResponseWriter, *http.Request, lease.Actor, lease.Control) error
	Fail  func(http.ResponseWriter, error)
}

func (b *Beside) owns(path string) bool {
	return b != nil && slices.ContainsFunc(b.Prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

type handler struct {
	Options
	mux    *http.ServeMux
	origin *http.CrossOriginProtection
	limits limits
}

// NewHandler serves the protocol.
func NewHandler(o Options) http.Handler {
	if o.Authenticate == nil || o.Control == nil {
		panic("api: handler without Authenticate or Control")
	}
	o.Hosts = append([]string{"localhost", "127.0.0.1", "::1"}, o.Hosts...)
	for i, h := range o.Hosts {
		o.Hosts[i] = strings.ToLower(h)
	}
	if o.MaxBlob == 0 {
		o.MaxBlob = MaxBlob
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &handler{Options: o, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection(), limits: limits{of: map[lease.ActorID]*share{}}}
	for _, rt := range routes {
		h.mux.HandleFunc(rt.Method+" "+rt.Pattern, func(_ http.ResponseWriter, r *http.Request) {
			callOf(r).serve(r, rt)
		})
	}
	h.mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { callOf(r).fail(lease.ErrNotFound) })
	return h
}

// ServeHTTP decides who asks before it looks at what is asked, and that before
// it reads a body.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(h, w, r)
	header := c.w.Header()
	header.Set(Header, Protocol)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	defer c.end(r)
	if r.URL.Path == "/healthz" && r.Method == http.MethodGet {
		c.route = "GET /healthz"
		header.Set("Content-Type", "text/plain; charset=utf-8")
		c.w.Write([]byte("ok\n")) //nolint:errcheck // whoever asked has gone
		return
	}
	beside := h.Beside.owns(r.URL.Path)
	if beside {
		c.route, c.tell = "beside", h.Beside.Fail
	}
	if err := h.admit(c, r); err != nil {
		c.fail(err)
		return
	}
	known(r, c.actor.ID)
	if err := h.limits.begin(c.actor.ID, c.begun); err != nil {
		c.fail(err)
		return
	}
	defer h.limits.end(c.actor.ID)
	if p := r.URL.EscapedPath(); path.Clean(p) != p {
		c.fail(lease.ErrNotFound) // the mux would redirect it
		return
	}
	if beside {
		c.beside(r)
		return
	}
	h.mux.ServeHTTP(c.w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// admit says who asks, or why it is not to be known.
func (h *handler) admit(c *call, r *http.Request) error {
	if name := hostname(r.Host); !slices.Contains(h.Hosts, name) && !arrived(r, name) {
		// A name that somebody else's DNS points here.
		return fmt.Errorf("host %.100q is not among this server's names: %w", r.Host, lease.ErrForbidden)
	}
	if err := h.origin.Check(r); err != nil {
		return fmt.Errorf("%w: %w", err, lease.ErrForbidden)
	}
	token, err := bearer(r)
	if err != nil {
		return err
	}
	if c.actor, err = h.Authenticate(token); err != nil {
		return err
	}
	if v := r.Header.Values(Header); len(v) > 1 || len(v) == 1 && v[0] != Protocol {
		return fmt.Errorf("protocol %.100q is not spoken here, but %q is: %w", v, Protocol, lease.ErrMalformed)
	}
	return nil
}

func bearer(r *http.Request) (string, error) {
	v := r.Header.Values("Authorization")
	if len(v) != 1 {
		return "", lease.ErrUnauthorized
	}
	scheme, token, _ := strings.Cut(v[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", lease.ErrUnauthorized
	}
	return token, nil
}

// arrived reports whether a request's connection came to the address of this name.
func arrived(r *http.Request, name string) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	ip := net.ParseIP(name)
	return ok && ip != nil && ip.Equal(at.IP)
}

// hostname is a Host header without its port and brackets, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(host)
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// call is one request being answered.
type call struct {
	h       *handler
	w       *answer
	body    *body
	actor   lease.Actor
	control lease.Control
	route   string
	tell    func(http.ResponseWriter, error) // writes an error
	begun   time.Time
}

func newCall(h *handler, w http.ResponseWriter, r *http.Request) *call {
	c := &call{h: h, begun: time.Now(), tell: wire.WriteError, w: &answer{ResponseWriter: w}, body: &body{Reader: r.Body}}
	c.w.control = http.NewResponseController(w)
	c.body.control = c.w.control
	if r.Body == http.NoBody {
		c.body.err = io.EOF
	} else {
		// Even what is refused unread may be drained a little.
		c.w.control.SetReadDeadline(c.begun.Add(grace)) //nolint:errcheck // a connection without deadlines: a recorder's
	}
	return c
}

// serve answers a request that is somebody's and has a route.
func (c *call) serve(r *http.Request, rt route) {
	c.route = rt.Method + " " + rt.Pattern
	if !slices.ContainsFunc(rt.Roles, c.actor.May) {
		c.fail(fmt.Errorf("%s: %w", c.route, lease.ErrForbidden))
		return
	}
	if err := encoded(r); err != nil {
		c.fail(err)
		return
	}
	c.control = c.h.Control(c.actor)
	c.w.ready = false // it has set headers, but nobody else does from here on
	if signs := func() { c.w.signs(r) }; r.Header.Get("Expect") == "" {
		signs()
	} else { // until it is read, the server itself may write an answer to that
		c.body.whole = signs
	}
	out, err := rt.serve(c, r)
	switch {
	case err != nil:
		c.refuse(r, err)
	case c.w.status != 0: // it streamed
	case out == nil:
		c.w.WriteHeader(http.StatusNoContent)
	default:
		if err := wire.WriteJSON(c.w, http.StatusOK, out); err != nil {
			c.fail(err)
		}
	}
}

// beside has another protocol answer a request that is somebody's.
func (c *call) beside(r *http.Request) {
	if err := encoded(r); err != nil {
		c.fail(err)
		return
	}
	own := r.WithContext(r.Context()) // the server looks at the body of the other one
	own.Body = &capped{Reader: c.body, Closer: r.Body, left: c.h.MaxBlob}
	err := c.h.Beside.Serve(c.w, own, c.actor, c.h.Control(c.actor))
	switch {
	case err == nil:
	case c.w.status != 0:
		if r.Context().Err() == nil {
			c.h.Log.Warn("answer cut", "path", r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler) // the client must see that it is not whole
	default:
		if c.body.broken() != nil {
			err = fmt.Errorf("the body ended early: %w", lease.ErrMalformed)
		}
		c.refuse(r, err)
	}
}

// encoded refuses a body that is not sent as it is.
func encoded(r *http.Request) error {
	if v := r.Header.Get("Content-Encoding"); v != "" {
		return fmt.Errorf("content encoding %.100q is not accepted: %w", v, lease.ErrMalformed)
	}
	return nil
}

// refuse answers with an error, if somebody waits for the answer.
func (c *call) refuse(r *http.Request, err error) {
	if r.Context().Err() == nil || c.body.broken() != nil {
		c.fail(err)
		return
	}
	c.tell(c.w, lease.ErrUnreachable)
	c.w.status = statusGone
}

// statusGone stands in the log for a caller who did not wait for the answer.
const statusGone = 499

// fail answers with an error. What no table knows is this program's fault and
// goes into the log.
func (c *call) fail(err error) {
	if c.body.unread() {
		c.w.Header().Set("Connection", "close") // rather than read it
	}
	if wire.Status(err) >= http.StatusInternalServerError {
		c.h.Log.Error("request failed", "route", c.route, "actor", c.actor.ID, "error", err)
	}
	c.tell(c.w, err)
}

// end turns a panic into an answer, and logs the request.
func (c *call) end(r *http.Request) {
	abort := false
	if p := recover(); p != nil {
		if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			c.h.Log.Error("panic", "route", c.route, "panic", p, "stack", string(debug.Stack()))
		}
		// Half an answer must not look whole.
		if abort = c.w.status != 0; !abort {
			c.w.Header().Set("Connection", "close")
			c.tell(c.w, errPanic)
		}
	}
	level := slog.LevelDebug
	if c.w.status >= 400 {
		level = slog.LevelInfo
	}
	c.h.Log.Log(r.Context(), level, "request", "method", clipMethod(r.Method), "route", c.route, "status", c.w.status,
		"ms", time.Since(c.begun).Milliseconds(), "actor", c.actor.ID)
	if abort {
		panic(http.ErrAbortHandler)
	}
}

var errPanic = errors.New("panic")

// clipMethod bounds what a stranger can write into the log.
func clipMethod(m string) string { return m[:min(len(m), 16)] }
