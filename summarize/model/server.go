package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Server is where a Runtime's requests go.
type Server struct {
	URL  string        // as ParseURL returns it
	Key  string        // credential, sent as a bearer token; "": none
	HTTP *http.Client  // with time-outs of its own for connecting
	Wait time.Duration // how long it may be silent, loading a model included; 0: five minutes
}

const (
	defaultWait = 5 * time.Minute
	maxAnswer   = 256 << 20       // bytes of one answer
	maxProblem  = 64 << 10        // bytes of one that tells an error, or follow an answer
	lingerTime  = time.Second / 4 // that the end of a stream may take when its answer is there
)

// JSON sends body (nil: a GET) as one JSON value and reads the answer's into into. A
// server may know more fields than we do. refuse is Do's.
func (s *Server) JSON(ctx context.Context, path string, body, into any, refuse func(status int, text string) error) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return Errorf(ErrRefused, "%v", err)
		}
	}
	return s.Do(ctx, path, b, func(in io.Reader) error {
		answer, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(answer, into); err != nil {
			return Errorf(ErrBadAnswer, "%v", err)
		}
		return nil
	}, refuse)
}

// Do sends one request and hands the body of a 2xx answer to read. A nil body is
// a GET. When nothing arrives for s.Wait the request is given up with ErrStalled.
// Other answers become what refuse makes of status and text (nil: by status).
func (s *Server) Do(ctx context.Context, path string, body []byte, read func(r io.Reader) error, refuse func(status int, text string) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	watched, give := context.WithCancelCause(ctx)
	defer give(nil)
	wait := s.Wait
	if wait <= 0 {
		wait = defaultWait
	}
	timer := time.AfterFunc(wait, func() { give(ErrStalled) })
	defer timer.Stop()
	err := s.do(watched, path, body, func() { timer.Reset(wait) }, func() { timer.Reset(lingerTime) }, read, refuse)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if context.Cause(watched) == ErrStalled { //nolint:errorlint // the cause is what was given
		return &Error{Kind: ErrStalled, Text: "nothing arrived for " + wait.String()}
	}
	return err
}

func (s *Server) do(ctx context.Context, path string, body []byte, alive, last func(), read func(r io.Reader) error, refuse func(int, string) error) error {
	method := http.MethodGet
	var sent io.Reader
	if body != nil {
		method, sent = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, sent)
	if err != nil {
		return Errorf(ErrDenied, "%v", err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	client := *s.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return lost(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	in := &liveReader{io.LimitReader(resp.Body, maxAnswer), alive}
	if resp.StatusCode/100 == 2 {
		if err = read(in); err == nil {
			// A stream goes on behind what its reader wanted: only one that was read to
			// its end leaves its connection for the next request.
			last()
			_, _ = io.CopyN(io.Discard, resp.Body, maxProblem)
			return nil
		}
		if known := new(Error); errors.As(err, &known) {
			return known
		}
		return lost(err)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxProblem))
	if err != nil {
		return lost(err)
	}
	return s.refusal(resp, complaint(text), refuse)
}

// refusal makes an error of an answer that is none.
func (s *Server) refusal(resp *http.Response, text string, refuse func(int, string) error) error {
	e := &Error{Status: resp.StatusCode, Text: line(text)}
	if s.Key != "" {
		e.Text = strings.ReplaceAll(e.Text, s.Key, "…")
	}
	if refuse != nil {
		e.Kind = refuse(resp.StatusCode, text)
	}
	switch n := resp.StatusCode; {
	case e.Kind != nil:
	case n == http.StatusTooManyRequests, n == http.StatusServiceUnavailable, n == 529:
		e.Kind = ErrBusy
	case n == http.StatusUnauthorized, n == http.StatusForbidden, n == http.StatusPaymentRequired, n/100 == 3:
		e.Kind = ErrDenied
	case n == http.StatusRequestTimeout, n == http.StatusConflict, n == http.StatusTooEarly, n/100 == 5:
		e.Kind = ErrUnavailable
	default:
		e.Kind = ErrRefused
	}
	if e.Kind == ErrBusy { //nolint:errorlint // a kind is one of the sentinels themselves
		e.After = retryAfter(resp.Header.Get("Retry-After"))
	}
	return e
}

// maxAfter bounds how long a server may ask to be left alone.
const maxAfter = time.Hour

func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil && n > 0 {
		return time.Duration(min(n, maxAfter.Seconds()) * float64(time.Second))
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(max(0, time.Until(t)), maxAfter)
	}
	return 0
}

// lost is an error of the connection.
func lost(err error) *Error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Kind: ErrStalled, Text: "no answer in time", cause: err}
	}
	return &Error{Kind: ErrUnavailable, Text: line(err.Error()), cause: err}
}

// liveReader tells that bytes arrive.
type liveReader struct {
	r     io.Reader
	alive func()
}

func (l *liveReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.alive()
	}
	return n, err
}

// complaint finds the message in the bodies that servers tell errors with; what
// is no such body is the message itself.
func complaint(body []byte) string {
	var b struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &b) != nil {
		return string(body)
	}
	for _, raw := range []json.RawMessage{b.Error, b.Detail} {
		var text string
		var object struct {
			Message string `json:"message"`
			Code    any    `json:"code"`
		}
		switch {
		case len(raw) == 0 || string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			return text
		case json.Unmarshal(raw, &object) == nil && object.Message != "":
			if code, ok := object.Code.(string); ok && code != "" {
				return code + ": " + object.Message
			}
			return object.Message
		default:
			return string(raw)
		}
	}
	if b.Message != "" {
		return b.Message
	}
	return string(body)
}

// Complaint returns the error that a body tells of though its status is 200; "" for none.
func Complaint(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" || string(raw) == `""` {
		return ""
	}
	return complaint([]byte(`{"error":` + string(raw) + `}`))
}
