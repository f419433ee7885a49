package api

import (
	"cmp"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// Route is one operation of the protocol.
type Route struct {
	Method  string
	Pattern string       // as net/http's
	Roles   []lease.Role // any of these, or a role that includes it, may ask
	Scoped  bool         // what it shows or changes belongs to a project
}

// route is a Route and what answers it: a value for the body, nil for an empty
// one, unless it wrote the answer itself.
type route struct {
	Route
	serve func(*call, *http.Request) (any, error)
}

var (
	reader    = []lease.Role{lease.Reader}
	submitter = []lease.Role{lease.Submitter}
	worker    = []lease.Role{lease.WorkerRole}
	admin     = []lease.Role{lease.Admin}
	guest     = []lease.Role{lease.Guest}
	anyone    = []lease.Role{lease.WorkerRole, lease.Reader}
)

// routes is everything there is but /healthz.
var routes = append([]route{
	{Route{"POST", "/v1/jobs", submitter, true}, (*call).submit},
	{Route{"GET", "/v1/jobs", reader, true}, (*call).jobs},
	{Route{"GET", "/v1/jobs/{job}", reader, true}, (*call).job},
	{Route{"POST", "/v1/jobs/{job}/cancel", submitter, true}, (*call).cancel},
	{Route{"POST", "/v1/jobs/{job}/retry", submitter, true}, (*call).retry},
	{Route{"POST", "/v1/pause", submitter, true}, (*call).pause},
	{Route{"POST", "/v1/resume", submitter, true}, (*call).resume},
	{Route{"GET", "/v1/jobs/{job}/shards", reader, true}, (*call).shards},
	{Route{"GET", "/v1/jobs/{job}/input", anyone, true}, (*call).input},
	{Route{"GET", "/v1/events", reader, true}, (*call).events},
	{Route{"GET", "/v1/jobs/{job}/why", reader, true}, (*call).why},
	{Route{"GET", "/v1/workers", reader, true}, (*call).workers},
	{Route{"GET", "/v1/census", reader, true}, (*call).census},
	{Route{"POST", "/v1/search", reader, true}, (*call).search},
	{Route{"GET", "/v1/verify", admin, false}, (*call).verify},
	{Route{"POST", "/v1/prune", admin, false}, (*call).prune},
	{Route{"GET", "/v1/backup", admin, false}, (*call).backup},
	{Route{"POST", "/v1/exchange", worker, true}, (*call).exchange},
	{Route{"GET", "/v1/exchange/stream", worker, true}, (*call).stream},
	{Route{"POST", "/v1/intend", worker, true}, (*call).intend},
	{Route{"POST", "/v1/heartbeat", worker, true}, (*call).heartbeat},
	{Route{"PUT", "/v1/jobs/{job}/shards/{shard}/blobs/{digest}", worker, true}, (*call).putShardBlob},
	{Route{"PUT", "/v1/projects/{project}/blobs/{digest}", submitter, true}, (*call).putProjectBlob},
	{Route{"GET", "/v1/jobs/{job}/shards/{shard}/blobs/{digest}", anyone, true}, (*call).blob},
}, registryRoutes...)

// Routes lists every operation that needs a token.
func Routes() []Route {
	list := make([]Route, len(routes))
	for i, r := range routes {
		list[i] = r.Route
		list[i].Roles = slices.Clone(r.Roles)
	}
	return list
}

// The bodies that are no noun of package lease.
type (
	submitted struct {
		ID lease.JobID `json:"id"`
	}
	cancellation struct {
		Reason string `json:"reason"`
	}
	retrying struct {
		lease.Selection
		After uint32 `json:"after,omitempty"`
	}
	pausing struct {
		lease.Target
		Reason string        `json:"reason,omitempty"`
		For    time.Duration `json:"for_ns,omitempty"`
	}
	resuming struct {
		lease.Target
		Reason string `json:"reason,omitempty"`
	}
	jobList struct {
		Jobs []lease.Job `json:"jobs"`
	}
	shardList struct {
		Shards []lease.Shard `json:"shards"`
	}
	eventList struct {
		Events []lease.Event `json:"events"`
	}
	workerList struct {
		Workers []lease.Worker `json:"workers"`
	}
	pruning struct {
		Jobs []lease.JobID `json:"jobs"`
	}
	problemList struct {
		Problems []lease.Problem `json:"problems"`
	}
)

func (c *call) submit(r *http.Request) (any, error) {
	var s lease.Submission
	if err := c.decode(r, maxSmall, &s); err != nil {
		return nil, err
	}
	id, err := c.control.Submit(r.Context(), s)
	return submitted{id}, err
}

func (c *call) intend(r *http.Request) (any, error) {
	var i lease.Intention
	if err := c.decode(r, maxSmall, &i); err != nil {
		return nil, err
	}
	return nil, c.control.Intend(r.Context(), i)
}

func (c *call) jobs(r *http.Request) (any, error) {
	q := parseQuery(r, "before", "limit")
	var before lease.JobID
	if s := q.get("before"); s != "" {
		var err error
		before, err = lease.ParseJobID(s)
		q.fault(err)
	}
	limit := q.int("limit")
	if q.err != nil {
		return nil, q.err
	}
	list, err := c.control.Jobs(r.Context(), before, limit)
	return jobList{list}, err
}

func (c *call) job(r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	if err = cmp.Or(err, parseQuery(r).err); err != nil {
		return nil, err
	}
	j, err := c.control.Job(r.Context(), id)
	return j, err
}

func (c *call) cancel(r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	var why cancellation
	if err := c.decode(r, maxSmall, &why); err != nil {
		return nil, err
	}
	return nil, c.control.Cancel(r.Context(), id, why.Reason)
}

func (c *call) retry(r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	var what retrying
	if err := c.decode(r, maxSmall, &what); err != nil {
		return nil, err
	}
	out, err := c.control.Retry(r.Context(), id, what.Selection, what.After)
	return out, err
}

func (c *call) pause(r *http.Request) (any, error) {
	var p pausing
	if err := c.decode(r, maxSmall, &p); err != nil {
		return nil, err
	}
	return nil, c.control.Pause(r.Context(), p.Target, p.Reason, p.For)
}

func (c *call) resume(r *http.Request) (any, error) {
	var p resuming
	if err := c.decode(r, maxSmall, &p); err != nil {
		return nil, err
	}
	return nil, c.control.Resume(r.Context(), p.Target, p.Reason)
}

func (c *call) shards(r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	q := parseQuery(r, "after", "limit", "results")
	after, limit := q.uint("after", 32), q.int("limit")
	results := q.get("results")
	if results != "" && results != "1" {
		q.fault(fmt.Errorf("results %.20q: %w", results, lease.ErrMalformed))
	}
	if err = cmp.Or(err, q.err); err != nil {
		return nil, err
	}
	list, err := c.control.Shards(r.Context(), id, uint32(after), limit, results == "1")
	return shardList{list}, err
}

func (c *call) events(r *http.Request) (any, error) {
	q := parseQuery(r, "of", "after", "limit", "wait_ns")
	var of lease.ShardID
	if s := q.get("of"); s != "" {
		var err error
		if strings.Contains(s, "/") {
			of, err = lease.ParseShardID(s)
		} else {
			of.Job, err = lease.ParseJobID(s)
		}
		q.fault(err)
	}
	after, limit, wait := q.uint("after", 64), q.int("limit"), q.uint("wait_ns", 62)
	if q.err != nil {
		return nil, q.err
	}
	if wait == 0 {
		list, err := c.control.Events(r.Context(), of, after, limit)
		return eventList{list}, err
	}
	list, err := c.control.Follow(r.Context(), of, after, limit, min(time.Duration(wait), lease.MaxWait))
	return eventList{list}, err
}

func (c *call) why(r *http.Request) (any, error) {
	id, err := lease.ParseJobID(r.PathValue("job"))
	q := parseQuery(r, "shard")
	of := lease.ShardID{Job: id, Seq: uint32(q.uint("shard", 32))}
	if err = cmp.Or(err, q.err); err != nil {
		return nil, err
	}
	out, err := c.control.Why(r.Context(), of)
	return out, err
}

func (c *call) workers(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	list, err := c.control.Workers(r.Context())
	return workerList{list}, err
}

func (c *call) census(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	out, err := c.control.Census(r.Context())
	return out, err
}

func (c *call) search(r *http.Request) (any, error) {
	var q lease.Query
	if err := c.decode(r, maxSmall, &q); err != nil {
		return nil, err
	}
	out, err := c.control.Search(r.Context(), q)
	return out, err
}

func (c *call) verify(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	list, err := c.control.Verify(r.Context())
	return problemList{list}, err
}

func (c *call) prune(r *http.Request) (any, error) {
	var p pruning
	if err := c.decode(r, maxSmall, &p); err != nil {
		return nil, err
	}
	return nil, c.control.Prune(r.Context(), p.Jobs)
}

// backup streams: what goes wrong behind its first bytes cuts the answer off.
func (c *call) backup(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/x-tar")
	err := c.control.Backup(r.Context(), c.w)
	if err != nil && c.w.status != 0 {
		if r.Context().Err() == nil {
			c.h.Log.Error("backup cut", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil, err
}

func (c *call) exchange(r *http.Request) (any, error) {
	var x lease.Exchange
	compact := r.Header.Get("Content-Type") == wire.ExchangeType
	var err error
	if compact {
		err = c.decodeBody(r, MaxBody, func(body io.Reader) error { return wire.ReadExchange(body, MaxBody, &x) })
	} else {
		err = c.decode(r, MaxBody, &x)
	}
	if err != nil {
		return nil, err
	}
	x.Wait = min(max(x.Wait, 0), lease.MaxWait)
	out, err := c.control.Exchange(r.Context(), x)
	if err == nil && compact {
		wire.WriteExchanged(c.w, &out)
	}
	return out, err
}

func (c *call) heartbeat(r *http.Request) (any, error) {
	var b lease.Beat
	if err := c.decode(r, maxBeat, &b); err != nil {
		return nil, err
	}
	out, err := c.control.Heartbeat(r.Context(), b)
	return out, err
}

// LeaseToken is the header in which an upload shows the token of its lease.
const LeaseToken = "Macbatch-Lease"

// shardOf reads the shard that a path names.
func shardOf(r *http.Request) (lease.ShardID, error) {
	return lease.ParseShardID(r.PathValue("job") + "/" + r.PathValue("shard"))
}

func (c *call) putShardBlob(r *http.Request) (any, error) {
	id, err := shardOf(r)
	q := parseQuery(r, "fence")
	fence := q.uint("fence", 64)
	if err = cmp.Or(err, q.err); err != nil {
		return nil, err
	}
	return nil, c.putBlob(r, lease.Upload{Shard: id, Fence: lease.Fence(fence), Token: r.Header.Get(LeaseToken)})
}

func (c *call) putProjectBlob(r *http.Request) (any, error) {
	if err := parseQuery(r).err; err != nil {
		return nil, err
	}
	return nil, c.putBlob(r, lease.Upload{Project: lease.Project(r.PathValue("project"))})
}

func (c *call) putBlob(r *http.Request, u lease.Upload) (err error) {
	u.Digest, err = lease.ParseDigest(r.PathValue("digest"))
	u.Size = r.ContentLength
	switch {
	case err != nil:
		return err
	case u.Size < 0:
		return fmt.Errorf("put blob %v: its length must be announced: %w", u.Digest, lease.ErrMalformed)
	case u.Size > c.h.MaxBlob:
		return fmt.Errorf("put blob %v: %d bytes, over %d: %w", u.Digest, u.Size, c.h.MaxBlob, lease.ErrTooLarge)
	}
	if err = c.control.PutBlob(r.Context(), u, c.body); err != nil && c.body.broken() != nil {
		err = fmt.Errorf("put blob %v: the body ended early: %w", u.Digest, lease.ErrMalformed)
	}
	return err
}

func (c *call) blob(r *http.Request) (any, error) {
	of, err := shardOf(r)
	d, err2 := lease.ParseDigest(r.PathValue("digest"))
	if err = cmp.Or(err, err2, parseQuery(r).err); err != nil {
		return nil, err
	}
	blob, size, err := c.control.Blob(r.Context(), of, d)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	c.send(r, blob, size)
	return nil, nil
}

func (c *call) input(r *http.Request) (any, error) {
	var of lease.ShardID
	var err error
	of.Job, err = lease.ParseJobID(r.PathValue("job"))
	q := parseQuery(r, "shard", "from", "to")
	of.Seq = uint32(q.uint("shard", 32))
	from, to := int64(q.uint("from", 63)), int64(q.uint("to", 63))
	if from > to {
		q.fault(fmt.Errorf("bytes %d to %d: %w", from, to, lease.ErrMalformed))
	}
	if err = cmp.Or(err, q.err); err != nil {
		return nil, err
	}
	in, err := c.control.Input(r.Context(), of, from, to)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	c.send(r, in, to-from)
	return nil, nil
}

// send answers with size bytes.
func (c *call) send(r *http.Request, from io.Reader, size int64) {
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	c.w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := io.CopyN(c.w, from, size); err != nil {
		if r.Context().Err() == nil {
			c.h.Log.Warn("answer cut", "route", c.route, "path", r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler) // the client must see that it is not whole
	}
}

// decode reads a request's JSON body of at most limit bytes.
func (c *call) decode(r *http.Request, limit int64, into any) error {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || t != "application/json" {
		return fmt.Errorf("content type %.100q is not application/json: %w", r.Header.Get("Content-Type"), lease.ErrMalformed)
	}
	return c.decodeBody(r, limit, func(body io.Reader) error { return wire.Decode(body, limit, into) })
}

// decodeBody reads a request's body of at most limit bytes.
func (c *call) decodeBody(r *http.Request, limit int64, read func(io.Reader) error) error {
	if err := parseQuery(r).err; err != nil {
		return err
	}
	if r.ContentLength > limit {
		return fmt.Errorf("body of %d bytes, over %d: %w", r.ContentLength, limit, lease.ErrTooLarge)
	}
	size := r.ContentLength
	if size < 0 {
		size = limit
	}
	done, err := c.h.limits.read(c.actor.ID, size)
	if err != nil {
		return err
	}
	defer done()
	err = read(c.body)
	if err != nil && c.body.broken() != nil {
		return fmt.Errorf("the body ended early: %w", lease.ErrMalformed)
	}
	return err
}

// query is a strict reader of the query: known names, each once. The first fault
// sticks.
type query struct {
	values url.Values
	err    error
}

func parseQuery(r *http.Request, names ...string) *query {
	q := &query{}
	var err error
	if q.values, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		q.err = fmt.Errorf("query: %w", lease.ErrMalformed)
	}
	for name, v := range q.values {
		if !slices.Contains(names, name) || len(v) != 1 {
			q.fault(fmt.Errorf("query parameter %.100q: unknown or repeated: %w", name, lease.ErrMalformed))
		}
	}
	return q
}

func (q *query) fault(err error) {
	if q.err == nil {
		q.err = err
	}
}

func (q *query) get(name string) string { return q.values.Get(name) }

func (q *query) int(name string) int {
	s := q.get(name)
	n, err := strconv.Atoi(s)
	if s != "" && err != nil {
		q.fault(fmt.Errorf("%s %.100q: %w", name, s, lease.ErrMalformed))
	}
	return n
}

func (q *query) uint(name string, bits int) uint64 {
	s := q.get(name)
	n, err := strconv.ParseUint(s, 10, bits)
	if s != "" && err != nil {
		q.fault(fmt.Errorf("%s %.100q: %w", name, s, lease.ErrMalformed))
	}
	return n
}
