package api

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"macbatch/lease"
)

// What one actor may ask for at once, whatever machines share its token.
const (
	maxRate     = 2000     // requests a second, on the long run
	maxBurst    = 4000     // requests at once
	maxRequests = 512      // under way, long polls among them
	maxReading  = 32 << 20 // announced bytes of JSON bodies that are being read
)

// limits are what actors ask for at the moment.
type limits struct {
	mu sync.Mutex
	of map[lease.ActorID]*share
}

type share struct {
	rate     *rate.Limiter
	requests int
	reading  int64
	last     time.Time // that it asked
}

// shareKept is how long the share of an actor that asks no more is remembered: by
// then its rate is as good as new.
const shareKept = time.Minute

// begin counts a request in; its end must be told.
func (l *limits) begin(a lease.ActorID, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[a]
	if s == nil {
		for id, old := range l.of { // actors come and go
			if old.requests == 0 && now.Sub(old.last) > shareKept {
				delete(l.of, id)
			}
		}
		s = &share{rate: rate.NewLimiter(maxRate, maxBurst)}
		l.of[a] = s
	}
	s.last = now
	switch {
	case s.requests >= maxRequests:
		return fmt.Errorf("%d requests of actor %q are under way: %w", s.requests, a, lease.ErrBusy)
	case !s.rate.AllowN(now, 1):
		return fmt.Errorf("over %d requests a second of actor %q: %w", maxRate, a, lease.ErrBusy)
	}
	s.requests++
	return nil
}

func (l *limits) end(a lease.ActorID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[a].requests--
}

// read counts a body of so many bytes in, until done is called.
func (l *limits) read(a lease.ActorID, n int64) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[a]
	if s == nil {
		return func() {}, nil // no request of its own: a test's
	}
	if s.reading+n > maxReading {
		return nil, fmt.Errorf("%d bytes of actor %q are being read, %d more: %w", s.reading, a, n, lease.ErrBusy)
	}
	s.reading += n
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.reading -= n
	}, nil
}
