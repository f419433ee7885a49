package join

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"macbatch/lease"
)

// ErrPin is returned when a server holds another key than the pinned one. Nothing
// was sent to it.
var ErrPin = errors.New("its key is not the one that is pinned: somebody else answers there, or the control plane lost its key")

// Pin is the SHA-256 of a public key. The zero value is none.
type Pin [sha256.Size]byte

// PinOf returns the pin of a certificate's key.
func PinOf(c *x509.Certificate) Pin { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

// ParsePin reads 64 hexadecimal digits.
func ParsePin(s string) (p Pin, err error) {
	b, err := hex.DecodeString(strings.ToLower(s))
	if err != nil || len(b) != len(p) || Pin(b) == (Pin{}) {
		return Pin{}, fmt.Errorf("pin %.80q: 64 hexadecimal digits are needed: %w", s, lease.ErrMalformed)
	}
	return Pin(b), nil
}

func (p Pin) String() string { return hex.EncodeToString(p[:]) }

// IsZero reports whether there is none.
func (p Pin) IsZero() bool { return p == Pin{} }

// Config is how a client talks TLS to who holds the pinned key: to nobody else,
// under whatever name. The key is checked when the handshake has shown that the
// server holds it, and before anything is sent; in a resumed session too.
func (p Pin) Config() *tls.Config {
	if p.IsZero() {
		panic("join: no pin")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // names and authorities: VerifyConnection checks the key itself
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return ErrPin
			}
			if got := PinOf(s.PeerCertificates[0]); subtle.ConstantTimeCompare(got[:], p[:]) != 1 {
				return ErrPin
			}
			return nil
		},
	}
}
