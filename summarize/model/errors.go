package model

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The kinds of error, see the package's documentation.
var (
	ErrRefused     = errors.New("request refused")
	ErrOverflow    = errors.New("input longer than the model's context")
	ErrTruncated   = errors.New("answer cut before its end")
	ErrNoModel     = errors.New("model not on this server")
	ErrDenied      = errors.New("server does not serve us")
	ErrBusy        = errors.New("server busy")
	ErrUnavailable = errors.New("server unavailable")
	ErrStalled     = errors.New("server fell silent")
	ErrBadAnswer   = errors.New("no usable answer")
)

// Error is what went wrong at a server. errors.Is finds its Kind.
type Error struct {
	Kind   error         // one of the above
	Status int           // of the HTTP answer; 0: there was none
	After  time.Duration // ErrBusy: how long the server asked to be left alone; 0: it did not say
	Text   string        // what the server said, one bounded line
	cause  error
}

func (e *Error) Error() string {
	s := e.Kind.Error()
	if e.Status != 0 && e.Status != 200 {
		s = fmt.Sprintf("%s (HTTP %d)", s, e.Status)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

// Unknown reports whether the request may have been answered, and paid for, though
// no answer came: it was sent.
func (e *Error) Unknown() bool {
	var op *net.OpError
	dialing := errors.As(e.cause, &op) && op.Op == "dial"
	return e.Status == 0 && !dialing && (errors.Is(e.Kind, ErrUnavailable) || errors.Is(e.Kind, ErrStalled))
}

// Errorf makes an Error of a kind.
func Errorf(kind error, format string, args ...any) *Error {
	return &Error{Kind: kind, Text: line(fmt.Sprintf(format, args...))}
}

// Permanent reports whether asking again, here or elsewhere, gets no other answer.
func Permanent(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrOverflow) || errors.Is(err, ErrTruncated)
}

// maxText bounds what is kept of a server's words.
const maxText = 400

// line makes text from a server fit for a reason: one line, bounded, no control
// or formatting characters.
func line(s string) string {
	if len(s) > 4*maxText {
		s = s[:4*maxText]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		s = s[:maxText]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return s
}
