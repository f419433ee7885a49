package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"macbatch/lease"
)

// MaxDepth is how deep objects and arrays may nest.
const MaxDepth = 64

// The struct tags of package lease are written for encoding/json: omitempty
// drops zero numbers, a duration is its nanoseconds.
var (
	reading = json.JoinOptions(
		json.RejectUnknownMembers(true),
		jsonv1.FormatDurationAsNano(true),
	)
	writing = json.JoinOptions(
		json.Deterministic(true),
		jsonv1.FormatDurationAsNano(true),
		jsonv1.OmitEmptyWithLegacySemantics(true),
		jsontext.PreserveRawStrings(true),
	)
	answering = json.JoinOptions(writing, jsontext.AllowInvalidUTF8(true))
)

// buffers hold bodies while they are read. Nothing decoded refers to them.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKept is the largest buffer that is kept for the next body.
const maxKept = 1 << 20

// Decode reads one JSON value of at most limit bytes, and the end of r behind it.
//
// Errors wrap lease.ErrTooLarge, or lease.ErrMalformed with the place of the
// fault; a fault of r itself wraps neither.
func Decode(r io.Reader, limit int64, into any) error {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= maxKept {
			buffers.Put(buf)
		}
	}()
	if _, err := buf.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if int64(buf.Len()) > limit {
		return fmt.Errorf("read JSON: over %d bytes: %w", limit, lease.ErrTooLarge)
	}
	return Unmarshal(buf.Bytes(), into)
}

// Unmarshal is Decode of bytes that are there already.
func Unmarshal(b []byte, into any) error {
	if at := tooDeep(b, MaxDepth); at >= 0 {
		return fmt.Errorf("read JSON: nested deeper than %d at %s: %w", MaxDepth, where(b, at), lease.ErrMalformed)
	}
	if err := json.Unmarshal(b, into, reading); err != nil {
		return fmt.Errorf("read JSON: %s: %w", place(err, b), lease.ErrMalformed)
	}
	return nil
}

// Encode writes v as JSON. It refuses strings that are not valid UTF-8.
func Encode(w io.Writer, v any) error {
	err := json.MarshalWrite(w, v, writing)
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("write JSON: %s: %w", place(syntax, nil), lease.ErrInvalid)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return fmt.Errorf("write JSON: %s: %w", place(semantic, nil), lease.ErrInvalid)
	}
	return err
}

// Compact reports whether a JSON value has no white space between its tokens.
// Only such a value comes through Encode with all its bytes, and with its digest.
func Compact(b []byte) bool {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\n', '\r':
			return false
		case '"':
			i = endOfString(b, i)
		}
	}
	return true
}

// tooDeep returns where b nests deeper than limit, or -1. It is sure only of
// valid JSON; the decoder finds all other faults.
func tooDeep(b []byte, limit int) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if depth++; depth > limit {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			i = endOfString(b, i)
		}
	}
	return -1
}

// endOfString returns the offset of the quote that ends the string begun at i.
func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return i
}

// place says what is wrong and where in text, in terms of the JSON and not of Go's
// types.
func place(err error, text []byte) string {
	var pointer jsontext.Pointer
	var offset int64
	var cause string
	switch e := err.(type) { //nolint:errorlint // the decoder returns its errors bare
	case *jsontext.SyntacticError:
		pointer, offset, cause = e.JSONPointer, e.ByteOffset, "syntax error"
		if e.Err != nil {
			cause = e.Err.Error()
		}
	case *json.SemanticError:
		pointer, offset, cause = e.JSONPointer, e.ByteOffset, "value of another type expected"
		if e.Err != nil {
			cause = e.Err.Error()
		}
	default:
		cause = err.Error()
	}
	cause = clip(cause, 200)
	if pointer != "" {
		cause += fmt.Sprintf(" in %q", clip(string(pointer), 200))
	}
	if text == nil { // it was being written
		return cause
	}
	return cause + " at " + where(text, int(offset))
}

// where tells an offset as an editor shows it: by line, where there are several, and
// by character.
func where(text []byte, offset int) string {
	before := text[:min(max(offset, 0), len(text))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	if bytes.IndexByte(bytes.TrimRight(text, "\r\n"), '\n') < 0 && line == 1 {
		return fmt.Sprintf("column %d", column)
	}
	return fmt.Sprintf("line %d, column %d", line, column)
}

// clip bounds what is quoted of a request.
func clip(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
