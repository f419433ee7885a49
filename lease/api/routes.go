package api

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Version is the protocol spoken, in the header Macbatch-Protocol of requests.
const (
	Version       = "1"
	versionHeader = "Macbatch-Protocol"
)

// The limits of bodies, in bytes.
const (
	maxSubmission = 256 << 10
	maxExchange   = 32 << 20
	maxBeat       = 1 << 20
	maxSmall      = 16 << 10
	maxAnswer     = 64 << 20 // that a client reads
)

// Route is one operation of the protocol.
type Route struct {
	Method  string
	Pattern string     // of the path, as http.ServeMux takes it
	Role    lease.Role // the least role that may ask; the Control decides the rest
	stream  bool       // bodies of any length, no deadline of the whole request
	serve   func(c lease.Control, w http.ResponseWriter, r *http.Request) (any, error)
}

// Routes lists all operations that need a credential: there are no others.
func Routes() []Route {
	return []Route{
		{Method: "POST", Pattern: "/v1/jobs", Role: lease.Submitter, serve: submit},
		{Method: "GET", Pattern: "/v1/jobs", Role: lease.Reader, serve: jobs},
		{Method: "GET", Pattern: "/v1/jobs/{job}", Role: lease.Reader, serve: job},
		{Method: "POST", Pattern: "/v1/jobs/{job}/cancel", Role: lease.Submitter, serve: cancel},
		{Method: "GET", Pattern: "/v1/jobs/{job}/shards", Role: lease.Reader, serve: shards},
		{Method: "GET", Pattern: "/v1/events", Role: lease.Reader, serve: events},
		{Method: "GET", Pattern: "/v1/workers", Role: lease.Reader, serve: workers},
		{Method: "GET", Pattern: "/v1/verify", Role: lease.Admin, stream: true, serve: verify},
		{Method: "POST", Pattern: "/v1/exchange", Role: lease.WorkerRole, serve: exchange},
		{Method: "POST", Pattern: "/v1/heartbeat", Role: lease.WorkerRole, serve: heartbeat},
		{Method: "PUT", Pattern: "/v1/blobs/{digest}", Role: lease.WorkerRole, stream: true, serve: putBlob},
		{Method: "GET", Pattern: "/v1/blobs/{digest}", stream: true, serve: getBlob},
	}
}

// The bodies that are no nouns of package lease.
type (
	submitted struct {
		ID lease.JobID `json:"id"`
	}
	cancelation struct {
		Reason string `json:"reason"`
	}
	empty struct{}
)

func submit(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	var s lease.Submission
	if err := wire.Decode(r.Body, maxSubmission, &s); err != nil {
		return nil, err
	}
	id, err := c.Submit(r.Context(), s)
	return submitted{id}, err
}

func jobs(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	var before lease.JobID
	if v := r.URL.Query().Get("before"); v != "" {
		if err := before.UnmarshalText([]byte(v)); err != nil {
			return nil, err
		}
	}
	limit, err := number(r, "limit", lease.MaxPage)
	if err != nil {
		return nil, err
	}
	list, err := c.Jobs(r.Context(), before, int(limit))
	return orEmpty(list), err
}

func job(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	return c.Job(r.Context(), id)
}

func cancel(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	var b cancelation
	if err := wire.Decode(r.Body, maxSmall, &b); err != nil {
		return nil, err
	}
	return empty{}, c.Cancel(r.Context(), id, b.Reason)
}

func shards(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	after, err := number(r, "after", 1<<32-1)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", lease.MaxPage)
	if err != nil {
		return nil, err
	}
	list, err := c.Shards(r.Context(), id, uint32(after), int(limit), r.URL.Query().Get("results") == "1")
	return orEmpty(list), err
}

func events(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	var of lease.ShardID
	if v := r.URL.Query().Get("of"); v != "" {
		var err error
		if of, err = lease.ParseShardID(v); err != nil {
			if of.Job, err = lease.ParseJobID(v); err != nil {
				return nil, err
			}
		}
	}
	after, err := number(r, "after", 1<<63)
	if err != nil {
		return nil, err
	}
	limit, err := number(r, "limit", lease.MaxPage)
	if err != nil {
		return nil, err
	}
	list, err := c.Events(r.Context(), of, after, int(limit))
	return orEmpty(list), err
}

func workers(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := c.Workers(r.Context())
	return orEmpty(list), err
}

func verify(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := c.Verify(r.Context())
	return orEmpty(list), err
}

func exchange(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	var x lease.Exchange
	if err := wire.Decode(r.Body, maxExchange, &x); err != nil {
		return nil, err
	}
	return c.Exchange(r.Context(), x)
}

func heartbeat(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	var b lease.Beat
	if err := wire.Decode(r.Body, maxBeat, &b); err != nil {
		return nil, err
	}
	return c.Heartbeat(r.Context(), b)
}

func putBlob(c lease.Control, _ http.ResponseWriter, r *http.Request) (any, error) {
	d, err := lease.ParseDigest(r.PathValue("digest"))
	if err != nil {
		return nil, err
	}
	if r.ContentLength < 0 {
		return nil, fmt.Errorf("put blob %v: no Content-Length: %w", d, lease.ErrMalformed)
	}
	return empty{}, c.PutBlob(r.Context(), d, r.ContentLength, r.Body)
}

// getBlob writes its own answer.
func getBlob(c lease.Control, w http.ResponseWriter, r *http.Request) (any, error) {
	d, err := lease.ParseDigest(r.PathValue("digest"))
	if err != nil {
		return nil, err
	}
	b, size, err := c.Blob(r.Context(), d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // it was only read
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if _, err := io.CopyN(w, b, size); err != nil {
		panic(http.ErrAbortHandler) // a shorter answer must not look whole
	}
	return nil, nil
}

// number reads a query parameter; absent, it is zero.
func number(r *http.Request, name string, most uint64) (uint64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s=%q: must be a number of at most %d: %w", name, v, most, lease.ErrMalformed)
	}
	return n, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// requestTime bounds a request that is no stream: a long poll and its answer.
const requestTime = lease.MaxWait + 40*time.Second

// streamIdle ends a stream in which nothing moves.
const streamIdle = 60 * time.Second
