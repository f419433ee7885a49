package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"macbatch/lease"
)

// A transfer may stand still for grace, and must on the whole be faster than
// minRate: a phone's hotspot is, a connection held open for harm is not.
const (
	grace   = 30 * time.Second
	minRate = 16 << 10 // bytes a second
)

// pace is the instant by which more than n bytes must have moved.
func pace(begun time.Time, n int64) time.Time {
	return begun.Add(grace + time.Duration(n)*time.Second/minRate)
}

// body reads a request's body against the clock. The request keeps its own: the
// server looks at it to decide whether the connection can be used again.
type body struct {
	io.Reader
	control *http.ResponseController
	begun   time.Time
	n       int64
	err     error  // io.EOF: read whole
	whole   func() // is called then
}

// Read sets no deadline behind the end: the server, which lifted the last one,
// then reads on to learn whether the client is still there, as long as it takes.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.begun.IsZero() {
		b.begun = time.Now()
	}
	b.control.SetReadDeadline(pace(b.begun, b.n)) //nolint:errcheck // a connection without deadlines: a recorder's
	n, err := b.Reader.Read(p)
	b.n += int64(n)
	if b.err = err; errors.Is(err, io.EOF) && b.whole != nil {
		b.whole()
	}
	return n, err
}

// unread reports whether the client may still have bytes to send.
func (b *body) unread() bool { return !errors.Is(b.err, io.EOF) }

// broken returns why the body could not be read, if so.
func (b *body) broken() error {
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}

// capped is a body of so many bytes at most.
type capped struct {
	io.Reader
	io.Closer
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, fmt.Errorf("body: %w", lease.ErrTooLarge)
	}
	n, err := c.Reader.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// answer is a response, written against the clock, that knows its status.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   time.Time
	n       int64
	status  int

	mu    sync.Mutex
	sign  *time.Timer // nil: the client is told nothing meanwhile
	ready bool        // the answer has begun
}

// signEvery is how often a client that waits is told that it is still heard.
const signEvery = 5 * time.Second

// signs tells a client of this protocol that its answer is being made, so that it
// knows a slow control plane from a dead connection.
func (a *answer) signs(r *http.Request) {
	if r.Header.Get(Header) == "" || r.Header.Get("Upgrade") != "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sign = time.AfterFunc(signEvery, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.ready {
			return
		}
		a.control.SetWriteDeadline(time.Now().Add(grace)) //nolint:errcheck // a connection without deadlines: a recorder's
		a.ResponseWriter.WriteHeader(http.StatusProcessing)
		a.sign.Reset(signEvery)
	})
}

// Header ends the signs: they would read what is changed now.
func (a *answer) Header() http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = true
	if a.sign != nil {
		a.sign.Stop()
	}
	return a.ResponseWriter.Header()
}

func (a *answer) WriteHeader(status int) {
	a.Header()
	if a.status == 0 {
		a.status = status
	}
	a.deadline()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.Header()
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.n += int64(len(p))
	a.deadline()
	return a.ResponseWriter.Write(p)
}

func (a *answer) deadline() {
	if a.begun.IsZero() {
		a.begun = time.Now()
	}
	a.control.SetWriteDeadline(pace(a.begun, a.n)) //nolint:errcheck // a connection without deadlines: a recorder's
}

// Unwrap lets http.ResponseController find the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
