package inventory

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Path is a slash-separated path relative to a root, in the bytes the file
// system has: it may hold any byte but NUL, and need not be UTF-8.
//
// As text, so also in JSON, a path is itself when it is valid UTF-8 and does not
// begin with "percent:"; any other is "percent:" and then the path with every
// byte outside A–Z a–z 0–9 - . _ ~ / written as %XX. A path has exactly one
// such form, and the form is read back byte for byte. As the *key* of a Go map,
// encoding/json would write the raw bytes: keep paths in values.
type Path string

const percentPrefix = "percent:"

// ErrPath is returned for a path that is empty, absolute, has an element that is
// empty, "." or "..", or holds a NUL.
var ErrPath = errors.New("not a path inside a root")

// Check reports whether p names something inside a root: nothing is cleaned.
func (p Path) Check() error {
	if p == "" || strings.IndexByte(string(p), 0) >= 0 {
		return fmt.Errorf("path %q: %w", string(p), ErrPath)
	}
	for e := range strings.SplitSeq(string(p), "/") {
		if e == "" || e == "." || e == ".." {
			return fmt.Errorf("path %q: %w", string(p), ErrPath)
		}
	}
	return nil
}

// MarshalText returns the text form. It refuses what UnmarshalText would refuse.
func (p Path) MarshalText() ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return []byte(p.text()), nil
}

// UnmarshalText reads the text form.
func (p *Path) UnmarshalText(text []byte) error {
	q := Path(text)
	if enc, ok := strings.CutPrefix(string(text), percentPrefix); ok {
		raw, err := percentDecode(enc)
		if err != nil {
			return fmt.Errorf("path %q: %w", text, err)
		}
		q = Path(raw)
	}
	if err := q.Check(); err != nil {
		return err
	}
	// Two spellings of one path would be two keys for one film.
	if q.text() != string(text) {
		return fmt.Errorf("path %q: not in its one text form", text)
	}
	*p = q
	return nil
}

func (p Path) text() string {
	if utf8.ValidString(string(p)) && !strings.HasPrefix(string(p), percentPrefix) {
		return string(p)
	}
	var b strings.Builder
	b.WriteString(percentPrefix)
	for i := range len(p) {
		if c := p[i]; unreserved(c) || c == '/' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

func percentDecode(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 > len(s) {
			return "", errors.New("cut off after %")
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", fmt.Errorf("%q is no percent code", s[i:i+3])
		}
		b.Write(c)
		i += 2
	}
	return b.String(), nil
}
