package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"

	"macbatch/lease"
)

// StreamType names, in the header Upgrade, the protocol of a connection on which
// exchanges travel as frames.
const StreamType = "macbatch-exchange"

// Frame says what a frame is.
type Frame byte

// The frames. The first goes to the control plane, the others come from it.
const (
	FrameExchange  Frame = 1 // a compact exchange
	FrameExchanged Frame = 2 // its compact answer
	FrameError     Frame = 3 // instead of one: a status (2 bytes), and the JSON of the error
	FrameEnd       Frame = 4 // likewise, and the connection ends
	FramePatience  Frame = 5 // nothing: the answer is still to come
)

// frameHead is the length of what follows, in 4 bytes, and the kind of the frame.
const frameHead = 5

// BeginFrame begins a frame in b, which it empties. The body is appended to it.
func BeginFrame(b []byte, k Frame) []byte { return append(b[:0], 0, 0, 0, 0, byte(k)) }

// EndFrame fills in the length of the one frame that b is.
func EndFrame(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// FrameBody is the length of the body of the frame that b is so far.
func FrameBody(b []byte) int { return len(b) - frameHead }

// ErrorFrame makes of b the frame that tells of err.
func ErrorFrame(b []byte, k Frame, err error) []byte {
	var body errorBody
	status := 0
	status, body.Error.Code, body.Error.Message = Explain(err)
	b = binary.BigEndian.AppendUint16(BeginFrame(b, k), uint16(status))
	text := bytes.NewBuffer(b)
	json.MarshalWrite(text, body, answering) //nolint:errcheck // two clipped strings always have a JSON
	return EndFrame(text.Bytes())
}

// ReadErrorFrame is ReadError of the body of a frame.
func ReadErrorFrame(body []byte) error {
	if len(body) < 2 {
		return nil
	}
	return ReadError(int(binary.BigEndian.Uint16(body)), body[2:])
}

// ReadFrame reads a frame whose body has at most limit bytes: lease.ErrTooLarge for
// a longer one, of which nothing more is read, and lease.ErrMalformed for one that
// is none. io.EOF comes before its first byte only. begun is called when the first
// bytes are there but not all of them, to watch over those that follow.
func ReadFrame(r *bufio.Reader, limit int, begun func(io.Reader) io.Reader) (k Frame, body []byte, err error) {
	if _, err := r.Peek(1); err != nil {
		return 0, nil, err
	}
	var in io.Reader = r
	var head [frameHead]byte
	if r.Buffered() < frameHead {
		in = begun(r)
	}
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, cut(err)
	}
	n := int64(binary.BigEndian.Uint32(head[:])) - 1
	k = Frame(head[4])
	switch {
	case n < 0 || k < FrameExchange || k > FramePatience:
		return 0, nil, fmt.Errorf("no frame: length %d, kind %d: %w", n+1, k, lease.ErrMalformed)
	case n > int64(limit):
		return 0, nil, fmt.Errorf("frame of %d bytes, over %d: %w", n, limit, lease.ErrTooLarge)
	}
	if int64(r.Buffered()) >= n {
		body = make([]byte, n)
		_, err = io.ReadFull(r, body)
		return k, body, err
	}
	if in == io.Reader(r) {
		in = begun(r)
	}
	// Memory is taken as bytes come: a length is only a claim.
	buf := bytes.NewBuffer(make([]byte, 0, min(n, 64<<10)+bytes.MinRead))
	got, err := buf.ReadFrom(io.LimitReader(in, n))
	if err == nil && got < n {
		err = io.ErrUnexpectedEOF
	}
	return k, buf.Bytes(), cut(err)
}

// cut is what an error within a frame is: its end is not the end.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Upgraded reports whether a header asks for, or grants, the connection of
// StreamType.
func Upgraded(h http.Header) bool {
	u, c := h.Values("Upgrade"), h.Values("Connection")
	return len(u) == 1 && u[0] == StreamType && len(c) == 1 && http.CanonicalHeaderKey(c[0]) == "Upgrade"
}
