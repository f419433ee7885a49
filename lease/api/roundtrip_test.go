package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/wire"
)

var update = flag.Bool("update", false, "write golden files")

var (
	submission = lease.Submission{Project: "p", Kind: "ocr", Params: json.RawMessage(`{"a":"<\u0041>"}`), Priority: -1, Input: lease.Input{Digest: abc, Bytes: 3}, Key: "k"}
	exchange   = lease.Exchange{
		Hello: worker, Request: 1<<64 - 1, Max: 4, PerKind: map[lease.Kind]int{"ocr": 2, "fetch": 1}, Job: jobID, Wait: 20 * time.Second,
		Loaded: []string{"m"}, Paces: []lease.Pace{{Kind: "ocr", Model: "m", Thousand: time.Second, Slots: 2}}, Extra: 9, Ahead: 15 * time.Second, Held: time.Second,
		Reports: []lease.Report{
			{Shard: shardID, Fence: 1<<60 + 1, Token: "t", Outcome: lease.OutcomeDone, Digest: abc, Bytes: 11, Result: json.RawMessage(`{"x":"1 2"}`), Blobs: []lease.Digest{abc}},
			{Shard: shardID, Fence: 2, Token: "u", Outcome: lease.OutcomeFailed, Digest: abc, Class: lease.Permanent, Reason: "no <sound>"},
		},
		Releases: []lease.Give{{Shard: shardID, Fence: 3, Reason: "low disk", Delay: time.Minute}},
	}
	query   = lease.Query{Words: `"so it" is*`, Film: "*.mov", Project: "p", Limit: 7}
	held    = lease.Upload{Digest: abc, Size: 3, Shard: shardID, Fence: 1<<60 + 1, Token: "t"}
	ann     = lease.Actor{ID: "ann", Role: lease.Reader, Projects: []lease.Project{"p"}}
	invited = lease.Invitation{Actor: lease.Actor{ID: "mac", Role: lease.WorkerRole, Projects: []lease.Project{"p"}}, Secret: abc, For: time.Hour, Again: true}
	beat    = lease.Beat{Hello: worker, Leases: []lease.LeaseBeat{{Shard: shardID, Fence: 3, Phase: lease.Running, Work: 5, Signs: 9}}, Withdrawn: []lease.Withdrawal{withdrawal}}
)

// operations call each route once, and say what the control plane must be asked.
var operations = []struct {
	route string
	token lease.Role
	do    func(context.Context, lease.Control) (any, error)
	asked []any
}{
	{"POST /v1/jobs", lease.Submitter, func(ctx context.Context, c lease.Control) (any, error) { return c.Submit(ctx, submission) }, []any{submission}},
	{"GET /v1/jobs", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Jobs(ctx, jobID, 7) }, []any{jobID, 7}},
	{"GET /v1/jobs", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Jobs(ctx, 0, -1) }, []any{lease.JobID(0), -1}},
	{"GET /v1/jobs/{job}", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Job(ctx, jobID) }, []any{jobID}},
	{"POST /v1/jobs/{job}/cancel", lease.Submitter, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Cancel(ctx, jobID, "no \"need\"")
	}, []any{jobID, "no \"need\""}},
	{"POST /v1/jobs/{job}/retry", lease.Submitter, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Retry(ctx, jobID, lease.Selection{Items: []uint32{0, 7}, Shards: []uint32{3}}, 1<<32-1)
	}, []any{jobID, lease.Selection{Items: []uint32{0, 7}, Shards: []uint32{3}}, uint32(1<<32 - 1)}},
	{"POST /v1/pause", lease.Submitter, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Pause(ctx, lease.Target{Job: jobID}, "hot", time.Hour)
	}, []any{lease.Target{Job: jobID}, "hot", time.Hour}},
	{"POST /v1/pause", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Pause(ctx, lease.Target{All: true}, "", 0)
	}, []any{lease.Target{All: true}, "", time.Duration(0)}},
	{"POST /v1/resume", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Resume(ctx, lease.Target{Kind: "ocr"}, "cool")
	}, []any{lease.Target{Kind: "ocr"}, "cool"}},
	{"POST /v1/pause", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Pause(ctx, lease.Target{Worker: "mac"}, "new disk", time.Hour)
	}, []any{lease.Target{Worker: "mac"}, "new disk", time.Hour}},
	{"GET /v1/jobs/{job}/why", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Why(ctx, shardID) }, []any{shardID}},
	{"GET /v1/jobs/{job}/why", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Why(ctx, lease.ShardID{Job: jobID})
	}, []any{lease.ShardID{Job: jobID}}},
	{"GET /v1/jobs/{job}/shards", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Shards(ctx, jobID, 1<<32-1, 7, true)
	}, []any{jobID, uint32(1<<32 - 1), 7, true}},
	{"GET /v1/jobs/{job}/shards", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Shards(ctx, jobID, 0, 0, false)
	}, []any{jobID, uint32(0), 0, false}},
	{"GET /v1/jobs/{job}/input", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) {
		return read(c.Input(ctx, shardID, 2, 5))
	}, []any{shardID, int64(2), int64(5)}},
	{"GET /v1/jobs/{job}/input", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return read(c.Input(ctx, lease.ShardID{Job: jobID}, 0, 0))
	}, []any{lease.ShardID{Job: jobID}, int64(0), int64(0)}},
	{"GET /v1/events", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Events(ctx, shardID, 1<<64-1, 7)
	}, []any{shardID, uint64(1<<64 - 1), 7}},
	{"GET /v1/events", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Events(ctx, lease.ShardID{Job: jobID}, 0, 7)
	}, []any{lease.ShardID{Job: jobID}, uint64(0), 7}},
	{"GET /v1/events", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Events(ctx, lease.ShardID{}, 0, 7)
	}, []any{lease.ShardID{}, uint64(0), 7}},
	{"GET /v1/events", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		return c.Follow(ctx, shardID, 5, 7, time.Second)
	}, []any{shardID, uint64(5), 7, time.Second}},
	{"GET /v1/workers", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Workers(ctx) }, nil},
	{"GET /v1/census", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Census(ctx) }, nil},
	{"POST /v1/search", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Search(ctx, query) }, []any{query}},
	{"GET /v1/verify", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return c.Verify(ctx) }, nil},
	{"POST /v1/prune", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Prune(ctx, []lease.JobID{jobID})
	}, []any{[]lease.JobID{jobID}}},
	{"GET /v1/backup", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		var b strings.Builder
		err := c.Backup(ctx, &b)
		return b.String(), err
	}, nil},
	{"POST /v1/exchange", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) {
		if far, ok := c.(*api.Client); ok {
			c = api.SpeakJSON(far)
		}
		return c.Exchange(ctx, exchange)
	}, []any{exchange}},
	{"POST /v1/exchange", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) {
		return unstreamed(c).Exchange(ctx, exchange)
	}, []any{exchange}},
	{"GET /v1/exchange/stream", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) { return c.Exchange(ctx, exchange) }, []any{exchange}},
	{"POST /v1/intend", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Intend(ctx, lease.Intention{Shard: shardID, Fence: 2, Token: "t", Reserve: 1<<63 - 1, Idle: true})
	}, []any{lease.Intention{Shard: shardID, Fence: 2, Token: "t", Reserve: 1<<63 - 1, Idle: true}}},
	{"POST /v1/heartbeat", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) { return c.Heartbeat(ctx, beat) }, []any{beat}},
	{"PUT /v1/jobs/{job}/shards/{shard}/blobs/{digest}", lease.WorkerRole, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.PutBlob(ctx, held, strings.NewReader("abc"))
	}, []any{held, "abc"}},
	{"PUT /v1/projects/{project}/blobs/{digest}", lease.Submitter, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.PutBlob(ctx, lease.Upload{Digest: abc, Size: 3, Project: "a b"}, strings.NewReader("abc"))
	}, []any{lease.Upload{Digest: abc, Size: 3, Project: "a b"}, "abc"}},
	{"GET /v1/jobs/{job}/shards/{shard}/blobs/{digest}", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) {
		r, n, err := c.Blob(ctx, shardID, abc)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		return fmt.Sprintf("%d %s", n, b), errors.Join(err, r.Close())
	}, []any{shardID, abc}},
	{"GET /v1/projects", lease.Reader, func(ctx context.Context, c lease.Control) (any, error) { return c.Projects(ctx) }, nil},
	{"POST /v1/projects", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return nil, c.CreateProject(ctx, "a/b") }, []any{"create", lease.Project("a/b")}},
	{"POST /v1/projects/{project}/close", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return nil, c.CloseProject(ctx, "a/b") }, []any{"close", lease.Project("a/b")}},
	{"POST /v1/projects/{project}/open", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return nil, c.OpenProject(ctx, "é%2f") }, []any{"open", lease.Project("é%2f")}},
	{"PUT /v1/projects/{project}/actors/{actor}", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.Assign(ctx, "ann@home", "p")
	}, []any{"assign", lease.ActorID("ann@home"), lease.Project("p")}},
	{"DELETE /v1/projects/{project}/actors/{actor}", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return nil, c.Unassign(ctx, "ann", "p") }, []any{"unassign", lease.ActorID("ann"), lease.Project("p")}},
	{"GET /v1/actors", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return c.Actors(ctx) }, nil},
	{"POST /v1/actors", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return nil, c.AddActor(ctx, ann, abc) }, []any{ann, abc}},
	{"POST /v1/actors/{actor}/revoke", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return nil, c.RevokeActor(ctx, "ann") }, []any{"revoke", lease.ActorID("ann")}},
	{"PUT /v1/actors/{actor}/token", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) {
		return nil, c.RotateActor(ctx, "ann", abc, time.Hour)
	}, []any{lease.ActorID("ann"), abc, time.Hour}},
	{"POST /v1/invitations", lease.Admin, func(ctx context.Context, c lease.Control) (any, error) { return c.Invite(ctx, invited) }, []any{invited}},
	{"POST /v1/join", lease.Guest, func(ctx context.Context, c lease.Control) (any, error) { return c.Join(ctx, abc) }, []any{abc}},
}

func read(r io.ReadCloser, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return string(b), errors.Join(err, r.Close())
}

// recorder writes down what goes over the wire.
type recorder struct {
	mu  sync.Mutex
	out bytes.Buffer
	rt  http.RoundTripper
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body = must(io.ReadAll(req.Body))
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok {
		fmt.Fprintf(&r.out, "> %s %s Upgrade: %s\n< %d Upgrade: %s\n", req.Method, req.URL.RequestURI(), req.Header.Get("Upgrade"), resp.StatusCode, resp.Header.Get("Upgrade"))
		resp.Body = &frames{conn, r}
		return resp, nil
	}
	answer := must(io.ReadAll(resp.Body))
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.out, "> %s %s %s\n", req.Method, req.URL.RequestURI(), req.Header.Get("Content-Type"))
	if req.Header.Get("Content-Type") == wire.ExchangeType { // readable in the golden file
		body, answer = fmt.Appendf(nil, "%q", body), fmt.Appendf(nil, "%q", answer)
	}
	for _, line := range []string{string(body), fmt.Sprintf("< %d %s", resp.StatusCode, resp.Header.Get("Content-Type")), string(answer)} {
		if line != "" {
			r.out.WriteString(line + "\n")
		}
	}
	r.out.WriteByte('\n')
	return resp, nil
}

// frames writes down those of a stream, each of which goes in one piece.
type frames struct {
	io.ReadWriteCloser
	r *recorder
}

func (f *frames) Write(p []byte) (int, error) {
	fmt.Fprintf(&f.r.out, "> %q\n", p)
	return f.ReadWriteCloser.Write(p)
}

func (f *frames) Read(p []byte) (int, error) {
	n, err := f.ReadWriteCloser.Read(p)
	fmt.Fprintf(&f.r.out, "< %q\n\n", p[:n])
	return n, err
}

// TestRoundTrip: what is asked far arrives near, and the other way round; the
// bytes in between are those of the golden file.
func TestRoundTrip(t *testing.T) {
	rec := &recorder{rt: http.DefaultTransport}
	covered := map[string]bool{}
	for _, op := range operations {
		f := &fake{}
		url := serve(t, newHandler(f))
		c := must(api.Dial(url, func() string { return string(op.token) }, &http.Client{Transport: rec}))
		want, err := op.do(t.Context(), &fake{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := op.do(t.Context(), c)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s from afar = %+v, %v; want %+v", op.route, got, err, want)
		}
		if !reflect.DeepEqual(f.asked, op.asked) {
			t.Fatalf("%s asked for %+v, want %+v", op.route, f.asked, op.asked)
		}
		c.Close()
		covered[op.route] = true
	}
	for _, r := range api.Routes() {
		if !covered[r.Method+" "+r.Pattern] {
			t.Fatalf("no operation covers %s %s", r.Method, r.Pattern)
		}
	}
	const golden = "testdata/protocol.golden"
	if *update {
		if err := os.WriteFile(golden, rec.out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := must(os.ReadFile(golden)); !bytes.Equal(rec.out.Bytes(), want) {
		t.Fatalf("the wire differs from %s (-update after a decision):\n%s", golden, rec.out.Bytes())
	}
}

// TestErrorsKeepTheirSentinel on every route.
func TestErrorsKeepTheirSentinel(t *testing.T) {
	f := &fake{}
	url := serve(t, newHandler(f))
	for _, want := range []error{
		lease.ErrNotFound, lease.ErrForbidden, lease.ErrMalformed, lease.ErrInvalid, lease.ErrKeyReused, lease.ErrNeedBlob, lease.ErrTwin, lease.ErrFull,
		lease.ErrUnknownOutcome, lease.ErrTooLarge, lease.ErrDigest, lease.ErrFenced, lease.ErrUnreachable, lease.ErrNotAllowed,
	} {
		f.err = fmt.Errorf("do it: %w", want)
		for _, op := range operations {
			_, err := op.do(t.Context(), dial(t, url, string(op.token)))
			if !errors.Is(err, want) {
				t.Fatalf("%s with %q = %v from afar", op.route, want, err)
			}
		}
	}
	f.err = errors.New("bug at /secret/path")
	_, err := dial(t, url, "reader").Job(t.Context(), jobID)
	if !errors.Is(err, lease.ErrUnknownOutcome) || strings.Contains(err.Error(), "secret") {
		t.Fatalf("Job with an unknown error = %v, want ErrUnknownOutcome without its text", err)
	}
}
