package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"macbatch/transcribe"
)

const (
	answerMax = 16 << 20
	tries     = 6 // rests waited out within a call
)

// ask waits for its turn and sends a request until the server did not send it away, and returns the
// answer's bytes. A server that rests is waited for; paid says that an earlier piece of
// the same sound has cost money already.
func (e *engine) ask(ctx context.Context, body *form, ms int64, sure func(context.Context) error, paid bool) ([]byte, error) {
	most := waitHere
	if paid {
		most = waitPaid
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for n := 1; ; n++ {
		if err := e.gate.wait(ctx, e.Rand, most); err != nil {
			return nil, err
		}
		if e.Paid && sure != nil {
			if err := sure(ctx); err != nil {
				return nil, err
			}
		}
		b, err := e.send(ctx, body, ms)
		busy, is := errors.AsType[*transcribe.BusyError](err)
		if !is {
			return b, err
		}
		e.gate.rest(busy.After, busy.Err)
		if left, _ := e.gate.left(); n == tries || left > most {
			busy.After = left
			return nil, busy
		}
	}
}

// send sends one request. A *transcribe.BusyError holds the Retry-After, if any.
func (e *engine) send(ctx context.Context, body *form, ms int64) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.limits.Silence(ms), errNoAnswer)
	defer cancel()
	out := &counted{r: body.reader()}
	out.left.Store(body.length())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint.String(), out)
	if err != nil {
		return nil, err
	}
	req.ContentLength = body.length()
	req.Header.Set("Content-Type", body.kind)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "macbatch")
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, e.lost(ctx, out, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, e.refusal(resp, b) // what there is of its text
	case err != nil:
		return nil, e.lost(ctx, nil, err)
	case len(b) > answerMax:
		return nil, fmt.Errorf("answered with more than %d bytes", answerMax)
	}
	return b, nil
}

// counted counts what is left of a body to be sent: a server that did not get it
// whole can't have worked on it.
type counted struct {
	r    io.Reader
	left atomic.Int64 // the transport may read on after it returned an error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.left.Add(-int64(n))
	return n, err
}

// lost is the error of a request that got no whole answer. A nil out means that
// an answer had begun.
func (e *engine) lost(ctx context.Context, out *counted, err error) error {
	cause := context.Cause(ctx)
	if cause != nil {
		err = cause
	}
	err = fmt.Errorf("request: %s", e.legible([]byte(err.Error())))
	if errors.Is(cause, errNoAnswer) {
		err = errNoAnswer
	}
	switch whole := out == nil || out.left.Load() <= 0; {
	case whole && e.Paid:
		return &transcribe.UnknownOutcomeError{Err: err}
	case cause != nil && !errors.Is(cause, errNoAnswer):
		return cause
	case whole:
		return err
	}
	return &transcribe.BusyError{Err: err}
}

// refusal is the error of an answer that is none.
func (e *engine) refusal(resp *http.Response, b []byte) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	var detail struct{ Message, Code, Param, Type string }
	text := b
	if json.Unmarshal(b, &said) == nil && len(said.Error) > 0 {
		text = said.Error
		if json.Unmarshal(said.Error, &detail) == nil && detail.Message != "" {
			text = []byte(detail.Message)
		}
	}
	err := fmt.Errorf("%d %s: %s", resp.StatusCode, http.StatusText(resp.StatusCode), e.legible(text))
	asked := retryAfter(resp.Header.Get("Retry-After"), time.Now())
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		if detail.Code == "insufficient_quota" || detail.Type == "insufficient_quota" {
			return &transcribe.UnavailableError{Err: err} // waiting buys nothing
		}
		return &transcribe.BusyError{Err: err, After: asked}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if e.Paid {
			return &transcribe.UnknownOutcomeError{Err: err}
		}
		return &transcribe.BusyError{Err: err, After: asked}
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return &transcribe.UnavailableError{Err: err}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		if detail.Code == "model_not_found" || detail.Param == "model" || detail.Param == "response_format" {
			return &transcribe.UnavailableError{Err: err} // of every sound
		}
		return &transcribe.PermanentError{Err: err}
	}
	if resp.StatusCode/100 == 3 {
		return &transcribe.UnavailableError{Err: fmt.Errorf("%w: it leads elsewhere, which is not followed", err)}
	}
	return err
}

// retryAfter reads seconds, also with a fraction, or a date; 0: nothing of use.
func retryAfter(s string, now time.Time) time.Duration {
	s = strings.TrimSpace(s)
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		if !(v > 0) {
			return 0
		}
		return time.Duration(min(v, askedMost.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(s); err == nil {
		return min(max(at.Sub(now), 0), askedMost)
	}
	return 0
}

// legible is somebody else's text on one line, bounded, without our key.
func (e *engine) legible(b []byte) string {
	s := string(b[:min(len(b), 4096)])
	if e.Key != "" {
		s = strings.ReplaceAll(s, e.Key, "(key)")
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	if s == "" {
		return "no text"
	}
	return s
}
