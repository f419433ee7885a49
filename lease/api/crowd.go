package api

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"macbatch/lease"
)

// How many connections are kept open: of those that no token was shown on, and of
// each actor. Where there are more, the one that was opened first is cut.
const (
	maxStrangers = 256
	maxOfActor   = 512
)

// crowd are a server's connections by whose they are: strangers', under no name,
// and those of each actor.
type crowd struct {
	mu  sync.Mutex
	of  map[lease.ActorID]*list.List // of *visitor, in the order in which they came
	all map[net.Conn]*visitor
}

func newCrowd() *crowd {
	return &crowd{of: map[lease.ActorID]*list.List{}, all: map[net.Conn]*visitor{}}
}

// visitor is a connection.
type visitor struct {
	crowd *crowd
	conn  net.Conn
	actor lease.ActorID
	at    *list.Element
}

type visitorKey struct{}

// come takes a connection in.
func (c *crowd) come(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := &visitor{crowd: c, conn: conn}
	c.all[conn] = v
	c.enter(v, "")
	return context.WithValue(ctx, visitorKey{}, v)
}

// state forgets a connection that has ended, or is the server's no more.
func (c *crowd) state(conn net.Conn, s http.ConnState) {
	if s != http.StateClosed && s != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.all[conn]; v != nil {
		delete(c.all, conn)
		c.leave(v)
	}
}

// enter puts a visitor at the end of an actor's, and cuts the first of too many.
func (c *crowd) enter(v *visitor, a lease.ActorID) {
	l := c.of[a]
	if l == nil {
		l = list.New()
		c.of[a] = l
	}
	v.actor, v.at = a, l.PushBack(v)
	limit := maxOfActor
	if a == "" {
		limit = maxStrangers
	}
	if l.Len() <= limit {
		return
	}
	first := l.Front().Value.(*visitor)
	c.leave(first)
	raw := first.conn
	if t, ok := raw.(*tls.Conn); ok {
		raw = t.NetConn() // whose end waits for nobody
	}
	raw.Close() //nolint:errcheck // the server meets the error, and ends
}

func (c *crowd) leave(v *visitor) {
	if v.at == nil {
		return
	}
	l := c.of[v.actor]
	if l.Remove(v.at); l.Len() == 0 {
		delete(c.of, v.actor)
	}
	v.at = nil
}

// known tells whose token was shown on the connection of a request.
func known(r *http.Request, a lease.ActorID) {
	v, ok := r.Context().Value(visitorKey{}).(*visitor)
	if !ok {
		return // not from a server of NewServer
	}
	v.crowd.mu.Lock()
	defer v.crowd.mu.Unlock()
	if v.actor != a && v.at != nil {
		v.crowd.leave(v)
		v.crowd.enter(v, a)
	}
}
