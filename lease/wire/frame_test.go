package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"macbatch/lease"
	"macbatch/lease/wire"
)

func unwatched(r io.Reader) io.Reader { return r }

func frame(k wire.Frame, body string) []byte {
	return wire.EndFrame(append(wire.BeginFrame(nil, k), body...))
}

func TestFrameBytes(t *testing.T) {
	if got, want := frame(wire.FrameExchange, "abc"), "\x00\x00\x00\x04\x01abc"; string(got) != want {
		t.Fatalf("frame = %q, want %q", got, want)
	}
	got := wire.ErrorFrame([]byte("old"), wire.FrameEnd, fmt.Errorf("job of %q: %w", "secret", lease.ErrNotFound))
	if want := "\x00\x00\x00\x40\x04\x01\x94" + `{"error":{"code":"not_found","message":"no such thing here"}}`; string(got) != want {
		t.Fatalf("error frame = %q, want %q", got, want)
	}
	k, body, err := wire.ReadFrame(bufio.NewReader(bytes.NewReader(got)), 100, unwatched)
	if err != nil || k != wire.FrameEnd || !errors.Is(wire.ReadErrorFrame(body), lease.ErrNotFound) {
		t.Fatalf("ReadFrame = %v, %q, %v", k, body, err)
	}
	for _, body := range []string{"", "\x01", "\x01\x94", "\x01\x94{}", "\x00\x00{\"error\":{\"code\":\"not_found\"}}"} {
		if err := wire.ReadErrorFrame([]byte(body)); err != nil {
			t.Fatalf("ReadErrorFrame(%q) = %v, want nil", body, err)
		}
	}
}

// TestFrameCut: a frame is read whole or not at all, wherever it ends and however
// its bytes come.
func TestFrameCut(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 200_000)
	for _, body := range [][]byte{nil, []byte("abc"), big} {
		all := append(frame(wire.FrameExchanged, string(body)), frame(wire.FramePatience, "")...)
		step := max(1, len(body)/50)
		for n := 0; n <= len(body)+5; n += step {
			_, _, err := wire.ReadFrame(bufio.NewReader(bytes.NewReader(all[:n])), 1<<20, unwatched)
			switch {
			case n == 0 && !errors.Is(err, io.EOF):
				t.Fatalf("ReadFrame of nothing = %v, want io.EOF", err)
			case n > 0 && n < len(body)+5 && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Fatalf("ReadFrame of %d of %d bytes = %v, want io.ErrUnexpectedEOF", n, len(body)+5, err)
			}
		}
		r := bufio.NewReader(iotest.HalfReader(bytes.NewReader(all)))
		k, got, err := wire.ReadFrame(r, len(big), unwatched)
		k2, _, err2 := wire.ReadFrame(r, 0, unwatched)
		if err != nil || err2 != nil || k != wire.FrameExchanged || k2 != wire.FramePatience || !bytes.Equal(got, body) {
			t.Fatalf("frames of %d bytes: kinds %d, %d, %d bytes, %v, %v", len(body), k, k2, len(got), err, err2)
		}
	}
}

func TestFrameRefused(t *testing.T) {
	for in, want := range map[string]error{
		"\x00\x00\x00\x00\x01": lease.ErrMalformed, "\x00\x00\x00\x01\x00": lease.ErrMalformed, "\x00\x00\x00\x01\x06": lease.ErrMalformed,
		"\x00\x00\x00\x66\x01": lease.ErrTooLarge, "\xff\xff\xff\xff\x01": lease.ErrTooLarge, "GET / HTTP/1.1\r\n": lease.ErrMalformed,
	} {
		if _, _, err := wire.ReadFrame(bufio.NewReader(bytes.NewReader([]byte(in))), 100, unwatched); !errors.Is(err, want) {
			t.Fatalf("ReadFrame(%q) = %v, want %v", in, err, want)
		}
	}
	// A length is a claim: little is taken for it before the bytes come.
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = wire.ReadFrame(bufio.NewReader(bytes.NewReader([]byte("\x03\xff\xff\xff\x01abc"))), 64<<20, unwatched)
		}
	}).AllocedBytesPerOp()
	if allocated > 256<<10 {
		t.Fatalf("a frame that claims 64 MiB takes %d bytes", allocated)
	}
}

func TestUpgraded(t *testing.T) {
	for _, tt := range []struct {
		connection, upgrade []string
		want                bool
	}{
		{[]string{"Upgrade"}, []string{"macbatch-exchange"}, true}, {[]string{"upgrade"}, []string{"macbatch-exchange"}, true},
		{nil, []string{"macbatch-exchange"}, false}, {[]string{"Upgrade"}, nil, false}, {[]string{"close"}, []string{"macbatch-exchange"}, false},
		{[]string{"Upgrade"}, []string{"websocket"}, false}, {[]string{"Upgrade"}, []string{"macbatch-exchange", "h2c"}, false},
	} {
		if got := wire.Upgraded(http.Header{"Connection": tt.connection, "Upgrade": tt.upgrade}); got != tt.want {
			t.Fatalf("Upgraded(%q, %q) = %v, want %v", tt.connection, tt.upgrade, got, tt.want)
		}
	}
}

// FuzzReadFrame: no panic, a known error, and what is read is what was written.
func FuzzReadFrame(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x00\x00\x00\x04\x01abc", "\x00\x00\x00\x01\x05\x00\x00\x00\x02\x02\x01", "\xff\xff\xff\xff\x01", "\x00\x00\x00\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r, rest := bufio.NewReaderSize(bytes.NewReader(in), 16), in
		for {
			k, body, err := wire.ReadFrame(r, 1<<10, unwatched)
			if err != nil {
				known := errors.Is(err, io.EOF) && len(rest) == 0 || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, lease.ErrMalformed) || errors.Is(err, lease.ErrTooLarge)
				if !known {
					t.Fatalf("ReadFrame(%q) = %v with %q left", in, err, rest)
				}
				return
			}
			b := frame(k, string(body))
			if !bytes.HasPrefix(rest, b) {
				t.Fatalf("ReadFrame(%q) = %d, %q", rest, k, body)
			}
			rest = rest[len(b):]
		}
	})
}
