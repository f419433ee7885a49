package wire

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// ClientOptions shapes an HTTP client. The zero value is usable.
type ClientOptions struct {
	TLS    *tls.Config   // nil: the system's trust
	Conns  int           // idle connections kept to a host; 0: 16
	Header time.Duration // how long an answer's header may take; 0: one minute

	// Addresses (HOST:PORT) are where the one server that the client is for may be
	// found, whatever host a URL of https names. They are tried in turn, the one that
	// was good last before all: it is good when TLS, which must be set, says so.
	Addresses []string
}

// NewClient returns the only kind of HTTP client used. It waits for nothing
// without a limit (the whole of a request is bounded by its context), follows no
// redirect, and knows no proxy: an environment variable must not decide who sees
// a credential. After any transport error it drops its idle connections, which
// after a sleep or a change of network are all dead. It speaks HTTP/1.1: a stuck
// long poll then never holds up a heartbeat.
func NewClient(o ClientOptions) *http.Client {
	if o.Conns <= 0 {
		o.Conns = 16
	}
	if o.Header <= 0 {
		o.Header = time.Minute
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	dialer := &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	dialTLS := (&seeker{dialer: dialer, tls: o.TLS, addresses: o.Addresses}).dial
	if len(o.Addresses) == 0 {
		dialTLS = nil
	}
	return &http.Client{
		Transport: &transport{&http.Transport{
			DialContext:            dialer.DialContext,
			DialTLSContext:         dialTLS,
			TLSClientConfig:        o.TLS,
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  o.Header,
			ExpectContinueTimeout:  2 * time.Second,
			IdleConnTimeout:        time.Minute, // shorter than a server's: the client closes first
			MaxIdleConns:           4 * o.Conns,
			MaxIdleConnsPerHost:    o.Conns,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true, // no bombs, and bytes as they are
			Protocols:              http1,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transport drops idle connections after an error.
type transport struct{ *http.Transport }

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		t.CloseIdleConnections()
	}
	return resp, err
}

// The bounds of the back-off between two attempts.
const (
	backoffBase = 250 * time.Millisecond
	backoffCap  = 15 * time.Second
)

// Backoff returns how long to wait after attempt number attempt (from 0) went
// wrong: anything up to 250 ms, doubling to 15 s ("full jitter"), so that a
// fleet that lost its control plane doesn't come back at one instant. rnd
// returns a number in [0, n), as rand.Int64N does.
func Backoff(attempt int, rnd func(n int64) int64) time.Duration {
	limit := backoffCap
	if attempt < 16 {
		limit = min(limit, backoffBase<<max(attempt, 0))
	}
	return time.Duration(rnd(int64(limit) + 1))
}
