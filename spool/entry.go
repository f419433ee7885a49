package spool

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// MaxBody bounds the body of one entry, in bytes. Larger results travel as blobs.
const MaxBody = 64 << 20

// maxHead bounds what precedes the body: a long film's chunks fit many times.
const maxHead = 4 << 20

const (
	version   = 1
	firstLine = "macbatch spool entry "
)

// Blob is a large part of an entry, kept beside it.
type Blob struct {
	Digest string // SHA-256 of its bytes, 64 lower-case hex digits
	Size   int64  // bytes
}

// Entry is one result waiting.
type Entry struct {
	Name  Name
	Shard string
	Fence uint64
	Body  []byte
	Blobs []Blob // in the order given to Add, repeated ones included
}

// Name is the file name of an entry. Names sort by the time of Add.
type Name string

const timeLayout = "20060102T150405.000000000Z"

func nameOf(shard string, fence uint64, at time.Time, digest string) Name {
	at = at.UTC()
	if at.Year() < 1970 || at.Year() > 9999 { // a broken clock costs the order, not the result
		at = time.Unix(0, 0).UTC()
	}
	safe := strings.Map(func(r rune) rune {
		if safeChar(r) {
			return r
		}
		return '_'
	}, shard)
	if len(safe) > 100 {
		safe = safe[:100]
	}
	return Name(fmt.Sprintf("%s-%s-%d-%s", at.Format(timeLayout), safe, fence, digest[:8]))
}

func safeChar(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		r == '.' || r == '_' || r == '-'
}

// Time returns the instant given to Add, or the zero time for a name that Add
// did not make.
func (n Name) Time() time.Time {
	if len(n) < len(timeLayout) {
		return time.Time{}
	}
	at, err := time.Parse(timeLayout, string(n[:len(timeLayout)]))
	if err != nil {
		return time.Time{}
	}
	return at
}

// Lease returns the shard and the fence that the name tells of. The shard is as the
// name has it: what no name may hold is replaced, and it may be cut.
func (n Name) Lease() (shard string, fence uint64, err error) {
	if !n.valid() {
		return "", 0, fmt.Errorf("%q is not an entry's name", string(n))
	}
	parts := strings.Split(string(n), "-")
	fence, err = strconv.ParseUint(parts[len(parts)-2], 10, 64)
	return strings.Join(parts[1:len(parts)-2], "-"), fence, err
}

// valid tells whether n has the shape of an entry's name. A valid name has no
// separators and does not begin with a dot, so it can't lead out of a folder.
func (n Name) valid() bool {
	s := string(n)
	if len(s) > 200 || n.Time().IsZero() || strings.HasSuffix(s, reasonSuffix) {
		return false
	}
	for _, r := range s {
		if !safeChar(r) {
			return false
		}
	}
	parts := strings.Split(s, "-")
	if len(parts) < 4 || !isHex(parts[len(parts)-1], 8) {
		return false
	}
	_, err := strconv.ParseUint(parts[len(parts)-2], 10, 64)
	return err == nil
}

func isHex(s string, length int) bool {
	if len(s) != length {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// encode returns the entry's file and its digest in hex.
func encode(e Entry) (file []byte, digest string) {
	head := fmt.Appendf(nil, "%s%d\n", firstLine, version)
	rest := appendRest(nil, e, len(e.Body))
	h := sha256.New()
	h.Write(head)
	h.Write(rest)
	h.Write(e.Body)
	digest = hex.EncodeToString(h.Sum(nil))
	file = fmt.Appendf(head, "sha256 %s\n", digest)
	file = append(file, rest...)
	return append(file, e.Body...), digest
}

// appendRest appends the lines between the digest and the body.
func appendRest(b []byte, e Entry, length int) []byte {
	b = fmt.Appendf(b, "shard %s\nfence %d\n", strconv.Quote(e.Shard), e.Fence)
	for _, blob := range e.Blobs {
		b = fmt.Appendf(b, "blob %s %d\n", blob.Digest, blob.Size)
	}
	return fmt.Appendf(b, "body %d\n", length)
}

// decode reads an entry's file. Its errors are ErrDamaged and ErrVersion.
func decode(file []byte) (Entry, error) {
	line1, after, ok := bytes.Cut(file, []byte{'\n'})
	if !ok {
		return Entry{}, fmt.Errorf("%w: no first line", ErrDamaged)
	}
	line2, rest, ok := bytes.Cut(after, []byte{'\n'})
	if !ok {
		return Entry{}, fmt.Errorf("%w: no digest", ErrDamaged)
	}
	h := sha256.New()
	h.Write(line1)
	h.Write([]byte{'\n'})
	h.Write(rest)
	if string(line2) != "sha256 "+hex.EncodeToString(h.Sum(nil)) {
		return Entry{}, fmt.Errorf("%w: digest differs", ErrDamaged)
	}
	if err := checkVersion(string(line1)); err != nil {
		return Entry{}, err
	}
	r := bufio.NewReader(bytes.NewReader(rest))
	e, length, err := readRest(r)
	if err != nil {
		return Entry{}, err
	}
	// One spelling only: what is read must be what would be written.
	head := appendRest(nil, e, length)
	if !bytes.HasPrefix(rest, head) || len(rest)-len(head) != length {
		return Entry{}, fmt.Errorf("%w: lengths differ", ErrDamaged)
	}
	e.Body = rest[len(head):]
	return e, nil
}

func checkVersion(line1 string) error {
	v, ok := strings.CutPrefix(line1, firstLine)
	switch {
	case !ok:
		return fmt.Errorf("%w: not an entry", ErrDamaged)
	case v != strconv.Itoa(version):
		return fmt.Errorf("%w: %q", ErrVersion, v)
	}
	return nil
}

// readRest reads the lines between the digest and the body, and the length of
// the body that the last of them gives.
func readRest(r *bufio.Reader) (e Entry, length int, err error) {
	bad := func(what string) (Entry, int, error) {
		return Entry{}, 0, fmt.Errorf("%w: bad %s line", ErrDamaged, what)
	}
	next := func(key string) (string, bool) {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", false
		}
		return strings.CutPrefix(line[:len(line)-1], key+" ")
	}
	v, ok := next("shard")
	if !ok {
		return bad("shard")
	}
	if e.Shard, err = strconv.Unquote(v); err != nil {
		return bad("shard")
	}
	if v, ok = next("fence"); !ok {
		return bad("fence")
	}
	if e.Fence, err = strconv.ParseUint(v, 10, 64); err != nil {
		return bad("fence")
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return bad("body")
		}
		line = line[:len(line)-1]
		if v, ok := strings.CutPrefix(line, "body "); ok {
			if length, err = strconv.Atoi(v); err != nil || length < 0 || length > MaxBody {
				return bad("body")
			}
			return e, length, nil
		}
		v, ok := strings.CutPrefix(line, "blob ")
		digest, size, ok2 := strings.Cut(v, " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if !ok || !ok2 || err != nil || n < 0 || !isHex(digest, 64) {
			return bad("blob")
		}
		e.Blobs = append(e.Blobs, Blob{digest, n})
	}
}

// blobsOf reads only the head of an entry, without its digest: which blobs it
// refers to.
func blobsOf(r io.Reader) ([]Blob, error) {
	b := bufio.NewReader(io.LimitReader(r, maxHead))
	line1, _ := b.ReadString('\n')
	if err := checkVersion(strings.TrimSuffix(line1, "\n")); err != nil {
		return nil, err
	}
	if _, err := b.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%w: short", ErrDamaged)
	}
	e, _, err := readRest(b)
	return e.Blobs, err
}
