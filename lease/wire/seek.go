package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// seekTime is how long one of several addresses may take to answer.
const seekTime = 4 * time.Second

// seeker dials the one server that may be found at several addresses.
type seeker struct {
	dialer    *net.Dialer
	tls       *tls.Config
	addresses []string
	good      atomic.Int32 // the address that answered last
}

// dial connects to the first address where the server that tls asks for answers.
func (s *seeker) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var errs []error
	first := int(s.good.Load())
	for i := range s.addresses {
		at := (first + i) % len(s.addresses)
		conn, err := s.try(ctx, network, s.addresses[at])
		if err == nil {
			s.good.Store(int32(at))
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.addresses[at], err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (s *seeker) try(ctx context.Context, network, address string) (net.Conn, error) {
	if len(s.addresses) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, seekTime)
		defer cancel()
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := s.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := s.tls.Clone()
	c.ServerName, c.NextProtos = host, []string{"http/1.1"}
	conn := tls.Client(raw, c)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return conn, nil
}
