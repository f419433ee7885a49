package join

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/url"
	"strings"
	"unicode"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// ticketPrefix begins every join string: its form, too.
const ticketPrefix = "mbjoin1-"

// maxTicket bounds a join string, in bytes.
const maxTicket = 16 << 10

// Ticket is what a join string says.
type Ticket struct {
	URLs   []string `json:"urls"`
	Pin    string   `json:"pin,omitempty"`
	Secret string   `json:"secret"`
}

// String returns the join string. It holds a secret.
func (t Ticket) String() string {
	var b bytes.Buffer
	if err := wire.Encode(&b, t); err != nil {
		panic(fmt.Sprintf("join: %v", err)) // URLs and secrets are valid text
	}
	sum := crc32.ChecksumIEEE(b.Bytes())
	return ticketPrefix + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b.Bytes(), sum))
}

// ParseTicket reads a join string. Its errors quote nothing of it.
func ParseTicket(s string) (t Ticket, err error) {
	fault := func(what string) (Ticket, error) {
		return Ticket{}, fmt.Errorf("join string: %s: %w", what, lease.ErrMalformed)
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	body, ok := strings.CutPrefix(s, ticketPrefix)
	switch {
	case s == "":
		return fault("there is none")
	case len(s) > maxTicket:
		return fault("too long")
	case !ok:
		return fault("it does not begin with " + ticketPrefix)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(b) < 4 || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return fault("not whole, or not as it was printed")
	}
	if err := wire.Unmarshal(b[:len(b)-4], &t); err != nil {
		return fault("not one of this version")
	}
	if err := checkReach(t.URLs, t.Pin); err != nil {
		return Ticket{}, fmt.Errorf("join string: %w", err)
	}
	if !strings.HasPrefix(t.Secret, "mbj_") || t.Actor() == "" || strings.ContainsFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' && r < 0x80 }) {
		return fault("without a secret")
	}
	return t, nil
}

// Actor is who the secret is for.
func (t Ticket) Actor() lease.ActorID {
	id, _, _ := strings.Cut(strings.TrimPrefix(t.Secret, "mbj_"), "_")
	return lease.ActorID(id)
}

// checkReach tells what keeps a control plane from being reached safely.
func checkReach(urls []string, pin string) error {
	if pin != "" {
		if _, err := ParsePin(pin); err != nil {
			return err
		}
	}
	if len(urls) == 0 || len(urls) > 100 {
		return fmt.Errorf("%d addresses: %w", len(urls), lease.ErrMalformed)
	}
	for _, s := range urls {
		u, err := url.Parse(s)
		switch {
		case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return fmt.Errorf("address %.100q: %w", s, lease.ErrMalformed)
		case u.Scheme == "https" && pin != "", u.Scheme == "http" && pin == "" && Loopback(u.Hostname()):
		default:
			return fmt.Errorf("address %.100q: beyond loopback only TLS with a pin is safe: %w", s, lease.ErrInvalid)
		}
	}
	return nil
}

// Loopback reports whether a host is this one by its name or address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
