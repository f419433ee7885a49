package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/wire"
)

const (
	jobID  = lease.JobID(0x1c9c380<<32 | 1)
	digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
)

var (
	shardPath = "/v1/jobs/" + jobID.String() + "/shards/3"
	blobPath  = shardPath + "/blobs/" + digest

	shardID = lease.ShardID{Job: jobID, Seq: 3}
	instant = time.Date(2025, 1, 2, 3, 4, 5, 6e6, time.UTC)
	worker  = lease.Hello{Worker: "mac", Incarnation: 7, Host: "mac.local", Offer: lease.Offer{Kinds: []lease.Kind{"ocr"}}, Mark: mark}
	mark    = lease.Mark{Store: "0123456789abcdef0123456789abcdef", Epoch: 1<<32 - 1, Seq: 1<<64 - 1, Proof: "c0ffee"}
	reach   = lease.Reach{URLs: []string{"https://control.local:7373"}, Pin: digest}
	abc     = must(lease.ParseDigest(digest))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fake answers with fixed values and keeps what it was asked.
type fake struct {
	mu    sync.Mutex
	asked []any
	err   error
	wait  chan struct{} // exchange waits for it, or for its caller to go

	blobs     func() (io.ReadCloser, int64, error)
	exchanged func(lease.Exchange) lease.Exchanged
	put       func(context.Context, io.Reader) error
}

func (f *fake) note(v ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, v...)
	return f.err
}

func (f *fake) Submit(_ context.Context, s lease.Submission) (lease.JobID, error) {
	return jobID, f.note(s)
}

func (f *fake) Job(_ context.Context, id lease.JobID) (lease.Job, error) {
	return lease.Job{ID: jobID, Project: "p", Kind: "ocr", Params: json.RawMessage(`{"a":1}`), Input: lease.Input{Digest: abc, Bytes: 3}, Actor: "ann", Submitted: instant,
		Cost: lease.Bill{Max: 3, Reserved: 2, Spent: 1}, State: lease.JobPaused, Pause: lease.Pause{Target: lease.Target{Job: jobID}, Actor: "ann", Reason: "hot", Since: instant, For: time.Hour}, Shards: lease.Counts{Leased: 1}, Items: lease.Progress{Total: 1}, Events: 2, Last: 9}, f.note(id)
}

func (f *fake) Jobs(ctx context.Context, before lease.JobID, limit int) ([]lease.Job, error) {
	j, _ := (&fake{}).Job(ctx, before)
	return []lease.Job{j}, f.note(before, limit)
}

func (f *fake) Cancel(_ context.Context, id lease.JobID, reason string) error {
	return f.note(id, reason)
}

func (f *fake) Retry(_ context.Context, id lease.JobID, what lease.Selection, after uint32) (lease.Retried, error) {
	return lease.Retried{Added: 3, Found: 2, Busy: 1, Next: 9}, f.note(id, what, after)
}

func (f *fake) Pause(_ context.Context, of lease.Target, reason string, d time.Duration) error {
	return f.note(of, reason, d)
}

func (f *fake) Resume(_ context.Context, of lease.Target, reason string) error {
	return f.note(of, reason)
}

func (f *fake) Shards(_ context.Context, id lease.JobID, after uint32, limit int, results bool) ([]lease.Shard, error) {
	return []lease.Shard{{ID: shardID, Project: "p", Spec: lease.Spec{Need: lease.Need{Kind: "ocr"}, Payload: json.RawMessage(`[1]`), Range: lease.Range{From: 1, To: 9, Digest: abc}},
		State: lease.Done, Fence: 1<<60 + 1, Holder: lease.Holder{Worker: "mac", Actor: "w"}, Delay: time.Second,
		Result: lease.Result{Digest: abc, Bytes: 3, Inline: json.RawMessage(`"<\u0041>"`), Failed: 1}, Events: 3, Last: 8,
		Deadline: instant}}, f.note(id, after, limit, results)
}

func (f *fake) Events(_ context.Context, of lease.ShardID, after uint64, limit int) ([]lease.Event, error) {
	return []lease.Event{{Seq: 8, Job: jobID, Shard: 3, N: 3, Prev: 7, At: instant, Kind: lease.EventDone, Fence: 1<<60 + 1, Digest: abc, Sum: 1<<64 - 1}},
		f.note(of, after, limit)
}

func (f *fake) Follow(ctx context.Context, of lease.ShardID, after uint64, limit int, wait time.Duration) ([]lease.Event, error) {
	list, _ := (&fake{}).Events(ctx, of, after, limit)
	return list, f.note(of, after, limit, wait)
}

func (f *fake) Workers(context.Context) ([]lease.Worker, error) {
	return []lease.Worker{{
		ID: "mac", Incarnation: 7, Offer: worker.Offer, Seen: instant, Away: true, Leases: 2, Withdrawn: []lease.Withdrawal{withdrawal},
		Drain: lease.Pause{Target: lease.Target{Worker: "mac"}, Actor: "ann", Reason: "new disk", Since: instant, For: time.Hour},
	}}, f.note()
}

var withdrawal = lease.Withdrawal{Root: "films", Reason: "it is empty", Age: time.Minute, Again: time.Second}

func (f *fake) Why(_ context.Context, of lease.ShardID) (lease.Why, error) {
	return lease.Why{Shard: shardID, Kind: "ocr", State: lease.Ready, Text: "it is ready", Workers: []lease.WhyThere{{Worker: "mac", Text: "it does not do ocr"}}}, f.note(of)
}

func (f *fake) Census(context.Context) (lease.Census, error) {
	return lease.Census{
		At:     instant,
		Jobs:   []lease.JobCount{{Kind: "ocr", Jobs: map[lease.JobState]int{lease.JobDone: 2}, Items: lease.Progress{Total: 3, Done: 2, Failed: 1}, Reused: 1}},
		Shards: []lease.ShardCount{{Kind: "ocr", Counts: lease.Counts{Leased: 2}, Lapsed: 1, Old: 1}},
		Leases: []lease.LeaseCount{{Worker: "mac", Leases: 2, Lapsed: 1}},
		Makers: []lease.MakerCount{{Kind: "ocr", Maker: lease.Maker{Engine: "e", Model: "m", Server: "s"}, Results: 2, Reused: 1}},
		Pauses: []lease.Pause{{Target: lease.Target{All: true}, Actor: "ann", Since: instant}},
		Store:  lease.StoreFigures{Bytes: 1 << 40, Events: 9, Commits: 8, Blobs: 1, BlobBytes: 3},
	}, f.note()
}

func (f *fake) Search(_ context.Context, q lease.Query) (lease.Found, error) {
	return lease.Found{Looked: 2, Capped: true, Behind: 1, Hits: []lease.Hit{{
		Project: "p", Root: "films", Path: "a.mov", Shard: shardID, StartMS: 1, EndMS: 2, Text: "so it is", Marks: [][2]int{{3, 5}},
	}}}, f.note(q)
}

func (f *fake) Verify(context.Context) ([]lease.Problem, error) {
	return []lease.Problem{{Kind: "orphan_events", Subject: shardID.String(), Detail: "no row"}}, f.note()
}

func (f *fake) Prune(_ context.Context, ids []lease.JobID) error { return f.note(ids) }

func (f *fake) Backup(_ context.Context, w io.Writer) error {
	if err := f.note(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "an archive")
	return err
}

func (f *fake) Exchange(ctx context.Context, x lease.Exchange) (lease.Exchanged, error) {
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return lease.Exchanged{}, context.Cause(ctx)
		}
	}
	err := f.note(x)
	if f.exchanged != nil {
		return f.exchanged(x), err
	}
	out := lease.Exchanged{More: true, Mark: mark, Grants: []lease.Grant{{Shard: shardID, Fence: 2, Token: "t", Kind: "ocr", Model: "m",
		Payload: json.RawMessage(`{"b":[1]}`), Lines: &lease.Lines{Input: abc, Range: lease.Range{From: 1, To: 9, Digest: abc}, First: 4, Items: 2}, Needs: []lease.Result{{Digest: abc, Bytes: 3, Blob: true}}, Term: lease.Term}}}
	for _, r := range x.Reports {
		out.Verdicts = append(out.Verdicts, lease.Judgement{Shard: r.Shard, Fence: r.Fence, Verdict: lease.NeedBlobs, Missing: []lease.Digest{abc}})
	}
	return out, err
}

func (f *fake) Intend(_ context.Context, i lease.Intention) error { return f.note(i) }

func (f *fake) Heartbeat(_ context.Context, b lease.Beat) (lease.Beaten, error) {
	return lease.Beaten{Lost: []lease.ShardID{shardID}, Back: []lease.ShardID{shardID}, Mark: mark, Drain: lease.Pause{Target: lease.Target{Worker: "mac"}, Actor: "ann", Since: instant}}, f.note(b)
}

func (f *fake) PutBlob(ctx context.Context, u lease.Upload, r io.Reader) error {
	if f.put != nil {
		return f.put(ctx, r)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if lease.DigestOf(b) != u.Digest || int64(len(b)) != u.Size {
		return lease.ErrDigest
	}
	return f.note(u, string(b))
}

func (f *fake) Blob(_ context.Context, of lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	if f.blobs != nil {
		return f.blobs()
	}
	return io.NopCloser(bytes.NewReader([]byte("abc"))), 3, f.note(of, d)
}

func (f *fake) Projects(context.Context) ([]lease.Scope, error) {
	return []lease.Scope{{Project: "p", Closed: true, Created: instant, Events: 2, Last: 5}}, f.note()
}

func (f *fake) CreateProject(_ context.Context, p lease.Project) error { return f.note("create", p) }
func (f *fake) CloseProject(_ context.Context, p lease.Project) error  { return f.note("close", p) }
func (f *fake) OpenProject(_ context.Context, p lease.Project) error   { return f.note("open", p) }

func (f *fake) Actors(context.Context) ([]lease.Identity, error) {
	return []lease.Identity{{Actor: lease.Actor{ID: "ann", Role: lease.Reader, Projects: []lease.Project{"p"}}, Created: instant, Revoked: true, Used: instant, Absent: true, Invited: instant, Former: instant, Events: 3, Last: 7}}, f.note()
}

func (f *fake) AddActor(_ context.Context, a lease.Actor, token lease.Digest) error {
	return f.note(a, token)
}

func (f *fake) RotateActor(_ context.Context, id lease.ActorID, token lease.Digest, overlap time.Duration) error {
	return f.note(id, token, overlap)
}

func (f *fake) Invite(_ context.Context, i lease.Invitation) (lease.Reach, error) {
	return reach, f.note(i)
}

func (f *fake) Join(_ context.Context, token lease.Digest) (lease.Actor, error) {
	return lease.Actor{ID: "mac", Role: lease.WorkerRole, Projects: []lease.Project{"p"}}, f.note(token)
}

func (f *fake) RevokeActor(_ context.Context, id lease.ActorID) error { return f.note("revoke", id) }

func (f *fake) Assign(_ context.Context, id lease.ActorID, p lease.Project) error {
	return f.note("assign", id, p)
}

func (f *fake) Unassign(_ context.Context, id lease.ActorID, p lease.Project) error {
	return f.note("unassign", id, p)
}

func (f *fake) Input(_ context.Context, of lease.ShardID, from, to int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader([]byte("abcdef")[from:to])), f.note(of, from, to)
}

// authenticate knows one token for each role: its name.
func authenticate(token string) (lease.Actor, error) {
	switch r := lease.Role(token); r {
	case lease.Admin, lease.Submitter, lease.Reader, lease.WorkerRole, lease.Guest:
		return lease.Actor{ID: lease.ActorID("the-" + token), Role: r, Projects: []lease.Project{"p"}}, nil
	}
	return lease.Actor{}, fmt.Errorf("token %q: %w", token, lease.ErrUnauthorized)
}

func newHandler(f *fake) http.Handler {
	return api.NewHandler(api.Options{Authenticate: authenticate, Control: func(lease.Actor) lease.Control { return f }, Hosts: []string{"Control.Local"}, Reach: func() lease.Reach { return reach }})
}

// serve runs a server over f and returns its URL.
func serve(t testing.TB, h http.Handler) string {
	server := api.NewServer(h, nil)
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = &server.Server
	srv.Start()
	t.Cleanup(func() {
		server.Close() //nolint:errcheck // the next one closes the listener too
		srv.Close()
	})
	return srv.URL
}

func dial(t testing.TB, url, token string) *api.Client {
	c, err := api.Dial(url, func() string { return token }, api.NewHTTPClient(0, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// readError rebuilds the error that a handler answered with.
func readError(w *httptest.ResponseRecorder) error { return wire.ReadError(w.Code, w.Body.Bytes()) }
