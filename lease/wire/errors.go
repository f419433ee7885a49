package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"macbatch/lease"
)

// answers is the one table from errors to answers. An error that wraps several
// of them is the first. Those that are fixed say nothing but their own text: of
// what is not the caller's nothing may show, and of the host not its paths.
var answers = []struct {
	err    error
	code   string
	status int
	fixed  bool
}{
	{lease.ErrUnauthorized, "unauthorized", http.StatusUnauthorized, true},
	{lease.ErrNotFound, "not_found", http.StatusNotFound, true},
	{lease.ErrForbidden, "forbidden", http.StatusForbidden, false},
	{lease.ErrUnknownOutcome, "outcome_unknown", http.StatusServiceUnavailable, true},
	{lease.ErrFull, "full", http.StatusInsufficientStorage, true},
	{lease.ErrBusy, "busy", http.StatusTooManyRequests, false},
	{lease.ErrUnreachable, "unreachable", http.StatusBadGateway, true},
	{lease.ErrTooLarge, "too_large", http.StatusRequestEntityTooLarge, false},
	{lease.ErrMalformed, "malformed", http.StatusBadRequest, false},
	{lease.ErrInvalid, "invalid", http.StatusUnprocessableEntity, false},
	{lease.ErrDigest, "digest", http.StatusUnprocessableEntity, false},
	{lease.ErrKeyReused, "key_reused", http.StatusConflict, false},
	{lease.ErrNeedBlob, "need_blob", http.StatusConflict, false},
	{lease.ErrTwin, "twin", http.StatusConflict, false},
	{lease.ErrFenced, "fenced", http.StatusConflict, false},
	{lease.ErrDuplicate, "duplicate", http.StatusConflict, false},
	{lease.ErrConflict, "conflict", http.StatusConflict, false},
	{lease.ErrNotAllowed, "not_allowed", http.StatusConflict, false},
	{lease.ErrOverBudget, "over_budget", http.StatusConflict, false},
	{lease.ErrBudgetHeld, "budget_held", http.StatusConflict, false},
}

// internal is the code of an error that is in no table: a fault of the program.
const internal = "internal"

// Status returns the HTTP status of an error: 500 for one that is not in the table.
func Status(err error) int {
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return a.status
		}
	}
	return http.StatusInternalServerError
}

type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Explain is how a request is answered with err: status, code and message. What no
// table knows is this program's fault, and told of in no more words.
func Explain(err error) (status int, code, message string) {
	for _, a := range answers {
		switch {
		case !errors.Is(err, a.err):
		case a.fixed:
			return a.status, a.code, a.err.Error()
		default:
			return a.status, a.code, clip(err.Error(), 1000)
		}
	}
	return http.StatusInternalServerError, internal, "internal error"
}

// WriteError answers a request with err.
func WriteError(w http.ResponseWriter, err error) {
	var body errorBody
	status := 0
	status, body.Error.Code, body.Error.Message = Explain(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	WriteJSON(w, status, body) //nolint:errcheck // two clipped strings always have a JSON
}

// WriteJSON answers a request with v. An error says that v has no JSON, and that
// nothing was written. Invalid UTF-8 in a string goes out as U+FFFD: one odd byte
// in a reason must not hide a whole list.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	if err := json.MarshalWrite(buf, v, answering); err != nil {
		return fmt.Errorf("write answer %T: %w", v, err)
	}
	writeBody(w, status, "application/json", buf.Bytes())
	if buf.Cap() <= maxKept {
		buffers.Put(buf)
	}
	return nil
}

func writeBody(w http.ResponseWriter, status int, mediaType string, b []byte) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	w.Write(b) //nolint:errcheck // whoever asked has gone, and asks again
}

// remote is an error that came over the wire.
type remote struct {
	message  string
	sentinel error
}

func (e *remote) Error() string { return e.message }
func (e *remote) Unwrap() error { return e.sentinel }

// ReadError rebuilds the error that WriteError wrote. It returns nil when body
// is not such an answer.
func ReadError(status int, body []byte) error {
	var b errorBody
	if err := Unmarshal(body, &b); err != nil || b.Error.Code == "" {
		return nil
	}
	e := &remote{message: clip(b.Error.Message, 1000)}
	for _, a := range answers {
		if a.code == b.Error.Code && a.status == status {
			e.sentinel = a.err
			return e
		}
	}
	// The fault may have come before or after the change was durable.
	if status >= 500 {
		e.sentinel = lease.ErrUnknownOutcome
		return e
	}
	return nil
}
