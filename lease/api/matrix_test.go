package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
	"macbatch/lease/wire"
)

// scene is what an operation of the matrix is tried on: things of the project "ours".
type scene struct {
	who     string // asks
	project lease.Project
	job     lease.JobID
	grant   lease.Grant // of a shard of the job, to the worker of the project
	sound   lease.Digest
	list    lease.ShardID // of a job over a list, held by the worker
	actor   lease.ActorID // of the project
}

// absent is the same of things that are not there, under names of the same length.
func (s scene) absent() scene {
	s.project, s.actor = "gone", "nobody"
	s.job += 5
	s.grant.Shard.Job = s.job
	s.list.Job += 5
	return s
}

// rename makes an answer about what is absent one about what is there.
func (s scene) rename(text string) string {
	a := s.absent()
	return strings.NewReplacer(
		a.job.String(), s.job.String(), a.list.Job.String(), s.list.Job.String(), raw(a.job), raw(s.job),
		string(a.project), string(s.project), string(a.actor), string(s.actor),
	).Replace(text)
}

// raw is a job's id as the compact form writes it.
func raw(id lease.JobID) string { return string(binary.BigEndian.AppendUint64(nil, uint64(id))) }

func (s scene) hello() lease.Hello {
	return lease.Hello{Worker: lease.WorkerID("of " + s.who), Incarnation: 1, Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}}}
}

func (s scene) exchange(ctx context.Context, c lease.Control) error {
	_, err := c.Exchange(ctx, lease.Exchange{
		Hello: s.hello(), Request: 1, Max: 9, PerKind: map[lease.Kind]int{leasetest.Work: 9}, Job: s.job,
		Reports: []lease.Report{leasetest.Done(s.grant, "x")}, Releases: []lease.Give{{Shard: s.grant.Shard, Fence: s.grant.Fence}},
	})
	return err
}

// unstreamed makes a client exchange by requests.
func unstreamed(c lease.Control) lease.Control {
	if far, ok := c.(*api.Client); ok {
		return api.SpeakCompact(far)
	}
	return c
}

// classes are who may ask, in the order of the matrix: of the project, of another
// one, nobody's, and who was invited to be a worker of the project. Where the matrix
// says nothing of a guest it is 403.
var classes = []string{"admin", "submitter", "reader", "worker", "other submitter", "other reader", "other worker", "revoked", "no token", "guest"}

// matrix is every route and what each class is answered on it. A route that has
// no row fails the test, and so does a method of lease.Control.
var matrix = []struct {
	route, method string
	want          string // by class
	do            func(context.Context, lease.Control, scene) error
}{
	{"POST /v1/jobs", "Submit", "200 200 403 403  404 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Submit(ctx, lease.Submission{Project: s.project, Kind: "test", Params: []byte(`{"items":1}`)})
		return err
	}},
	{"GET /v1/jobs", "Jobs", "200 200 200 403  200 200 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Jobs(ctx, 0, 9))
	}},
	{"GET /v1/jobs/{job}", "Job", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Job(ctx, s.job)
		return err
	}},
	{"POST /v1/jobs/{job}/cancel", "Cancel", "204 204 403 403  404 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.Cancel(ctx, s.job, "")
	}},
	{"POST /v1/jobs/{job}/retry", "Retry", "200 200 403 403  404 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Retry(ctx, s.job, lease.Selection{}, 0)
		return err
	}},
	{"POST /v1/pause", "Pause", "204 204 403 403  404 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.Pause(ctx, lease.Target{Job: s.job}, "", 0)
	}},
	{"POST /v1/pause", "Pause", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error {
		return c.Pause(ctx, lease.Target{All: true}, "", 0)
	}},
	{"POST /v1/pause", "Pause", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error {
		return c.Pause(ctx, lease.Target{Worker: "mac of ours"}, "", 0)
	}},
	{"POST /v1/resume", "Resume", "204 204 403 403  404 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.Resume(ctx, lease.Target{Job: s.job}, "")
	}},
	{"POST /v1/resume", "Resume", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error {
		return c.Resume(ctx, lease.Target{Kind: leasetest.Work}, "")
	}},
	{"GET /v1/jobs/{job}/shards", "Shards", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Shards(ctx, s.job, 0, 9, true))
	}},
	{"GET /v1/jobs/{job}/input", "Input", "200 200 200 200  404 404 404  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return drained(c.Input(ctx, s.list, 0, 2))
	}},
	{"GET /v1/jobs/{job}/input", "Input", "200 200 200 404  404 404 404  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return drained(c.Input(ctx, lease.ShardID{Job: s.list.Job}, 0, 2))
	}},
	{"GET /v1/events", "Events", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Events(ctx, lease.ShardID{Job: s.job}, 0, 9))
	}},
	{"GET /v1/events", "Events", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Events(ctx, s.grant.Shard, 0, 9))
	}},
	{"GET /v1/events", "Events", "200 403 403 403  403 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Events(ctx, lease.ShardID{}, 0, 9))
	}},
	{"GET /v1/events", "Follow", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Follow(ctx, s.grant.Shard, 0, 9, 0))
	}},
	{"GET /v1/census", "Census", "200 200 200 403  200 200 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Census(ctx)
		return err
	}},
	{"POST /v1/search", "Search", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Search(ctx, lease.Query{Words: "word", Project: s.project})
		return err
	}},
	{"POST /v1/search", "Search", "200 200 200 403  200 200 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		out, err := c.Search(ctx, lease.Query{Words: "word"})
		return listed(out.Hits, err)
	}},
	{"GET /v1/jobs/{job}/why", "Why", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Why(ctx, s.grant.Shard)
		return err
	}},
	{"GET /v1/jobs/{job}/why", "Why", "200 200 200 403  404 404 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Why(ctx, lease.ShardID{Job: s.job})
		return err
	}},
	{"GET /v1/workers", "Workers", "200 200 200 403  200 200 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Workers(ctx))
	}},
	{"GET /v1/verify", "Verify", "200 403 403 403  403 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Verify(ctx))
	}},
	{"POST /v1/prune", "Prune", "204 403 403 403  403 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.Prune(ctx, nil)
	}},
	{"GET /v1/backup", "Backup", "200 403 403 403  403 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.Backup(ctx, io.Discard)
	}},
	{"POST /v1/exchange", "Exchange", "200 403 403 200  403 403 200  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return s.exchange(ctx, unstreamed(c))
	}},
	{"GET /v1/exchange/stream", "Exchange", "101 403 403 101  403 403 101  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return s.exchange(ctx, c)
	}},
	{"POST /v1/intend", "Intend", "404 403 403 204  403 403 404  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.Intend(ctx, lease.Intention{Shard: s.grant.Shard, Fence: s.grant.Fence, Token: s.grant.Token, Reserve: 1})
	}},
	{"POST /v1/heartbeat", "Heartbeat", "200 403 403 200  403 403 200  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Heartbeat(ctx, lease.Beat{Hello: s.hello(), Leases: []lease.LeaseBeat{{Shard: s.grant.Shard, Fence: s.grant.Fence}}})
		return err
	}},
	{"PUT /v1/jobs/{job}/shards/{shard}/blobs/{digest}", "PutBlob", "204 403 403 204  403 403 404  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.PutBlob(ctx, leasetest.Under(s.grant, abc, 3), strings.NewReader("abc"))
	}},
	{"PUT /v1/projects/{project}/blobs/{digest}", "PutBlob", "204 204 403 403  404 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return c.PutBlob(ctx, lease.Upload{Digest: abc, Size: 3, Project: s.project}, strings.NewReader("abc"))
	}},
	{"GET /v1/jobs/{job}/shards/{shard}/blobs/{digest}", "Blob", "200 200 200 200  404 404 404  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		r, _, err := c.Blob(ctx, s.grant.Shard, s.sound)
		return drained(r, err)
	}},
	{"GET /v1/projects", "Projects", "200 200 200 200  200 200 200  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		return listed(c.Projects(ctx))
	}},
	{"POST /v1/projects", "CreateProject", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.CreateProject(ctx, s.project) }},
	{"POST /v1/projects/{project}/close", "CloseProject", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.CloseProject(ctx, s.project) }},
	{"POST /v1/projects/{project}/open", "OpenProject", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.OpenProject(ctx, s.project) }},
	{"PUT /v1/projects/{project}/actors/{actor}", "Assign", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.Assign(ctx, s.actor, s.project) }},
	{"DELETE /v1/projects/{project}/actors/{actor}", "Unassign", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.Unassign(ctx, s.actor, s.project) }},
	{"GET /v1/actors", "Actors", "200 403 403 403  403 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error { return listed(c.Actors(ctx)) }},
	{"POST /v1/actors", "AddActor", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error {
		return c.AddActor(ctx, lease.Actor{ID: "new", Role: lease.Admin}, abc)
	}},
	{"POST /v1/actors/{actor}/revoke", "RevokeActor", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.RevokeActor(ctx, s.actor) }},
	{"PUT /v1/actors/{actor}/token", "RotateActor", onlyAdmin, func(ctx context.Context, c lease.Control, s scene) error { return c.RotateActor(ctx, s.actor, abc, 0) }},
	{"POST /v1/invitations", "Invite", "200 403 403 403  403 403 403  401 401", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Invite(ctx, lease.Invitation{Actor: lease.Actor{ID: "new", Role: lease.WorkerRole, Projects: []lease.Project{s.project}}, Secret: abc, For: time.Minute})
		return err
	}},
	{"POST /v1/join", "Join", "403 403 403 403  403 403 403  401 401 200", func(ctx context.Context, c lease.Control, s scene) error {
		_, err := c.Join(ctx, abc)
		return err
	}},
}

const onlyAdmin = "204 403 403 403  403 403 403  401 401"

// listed drops a list: what it must not hold is looked for in the answer's bytes.
func listed[T any](_ []T, err error) error { return err }

func drained(r io.ReadCloser, err error) error {
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return err
}

// stage is a control plane with a scene, and a token for each class.
type stage struct {
	scene
	f      *leasetest.Fixture
	h      http.Handler
	actors map[string]lease.Actor
	tokens map[string]string
}

func newStage(t *testing.T) *stage {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	st := &stage{f: f, actors: map[string]lease.Actor{}, tokens: map[string]string{}}
	st.h = api.NewHandler(api.Options{Authenticate: f.Authenticate, Control: f.As})
	ctl := f.Near()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []lease.Project{"ours", "theirs"} {
		check(ctl.CreateProject(t.Context(), p))
	}
	for _, class := range classes {
		role, other := strings.CutPrefix(class, "other ")
		project := lease.Project("ours")
		if other {
			project = "theirs"
		}
		switch class {
		case "revoked":
			role = "admin"
		case "no token":
			continue
		case "guest":
			secret, hash := store.NewInvite("mac5")
			_, err := ctl.Invite(t.Context(), lease.Invitation{Actor: lease.Actor{ID: "mac5", Role: lease.WorkerRole, Projects: []lease.Project{"ours"}}, Secret: hash, For: time.Minute})
			check(err)
			st.actors[class], st.tokens[class] = must(f.Authenticate(secret)), secret
			continue
		}
		a := lease.Actor{ID: lease.ActorID(strings.ReplaceAll(class, " ", "-")), Role: lease.Role(role), Projects: []lease.Project{project}}
		token, hash := store.NewToken(a.ID)
		check(ctl.AddActor(t.Context(), a, hash))
		st.actors[class], st.tokens[class] = a, token
	}
	check(ctl.RevokeActor(t.Context(), "revoked"))
	check(ctl.AddActor(t.Context(), lease.Actor{ID: "victim", Role: lease.Reader, Projects: []lease.Project{"ours"}}, lease.Digest{1}))

	id, err := ctl.Submit(t.Context(), lease.Submission{Project: "ours", Kind: "test", Params: []byte(`{"items":1,"then":2,"sound":true}`)})
	check(err)
	w := leasetest.NewWorker(t, f.As(st.actors["worker"]), "mac of ours")
	g := w.Claim(1)[0]
	sound := w.Sound(g)
	w.Report(leasetest.Done(g, "x", sound))
	st.scene = scene{project: "ours", job: id, grant: w.Claim(1)[0], sound: sound, actor: "victim"}
	w.Claim(1) // the other one
	b, in := leasetest.Lines(1)
	check(ctl.PutBlob(t.Context(), lease.Upload{Digest: in.Digest, Size: in.Bytes, Project: "ours"}, bytes.NewReader(b)))
	_, err = ctl.Submit(t.Context(), lease.Submission{Project: "ours", Kind: "list", Params: []byte(`{}`), Input: in})
	check(err)
	st.list = w.Claim(1)[0].Shard
	return st
}

// far is a client's transport that calls the handler, and keeps the answer: on a
// stream, which needs a server, the newest frame.
type far struct {
	h    http.Handler
	url  string
	last *httptest.ResponseRecorder
}

func (f *far) upgrade(r *http.Request) (*http.Response, error) {
	r.URL = must(url.Parse(f.url + r.URL.Path))
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Header.Del("Date")
	f.last.Code = resp.StatusCode
	maps.Copy(f.last.Header(), resp.Header)
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok {
		resp.Body = &taped{conn, f.last.Body}
		return resp, nil
	}
	defer resp.Body.Close()
	f.last.Body = bytes.NewBuffer(must(io.ReadAll(resp.Body)))
	resp.Body = io.NopCloser(bytes.NewReader(f.last.Body.Bytes()))
	return resp, nil
}

// taped keeps what was read since the last write.
type taped struct {
	io.ReadWriteCloser
	tape *bytes.Buffer
}

func (t *taped) Read(p []byte) (int, error) {
	n, err := t.ReadWriteCloser.Read(p)
	t.tape.Write(p[:n])
	return n, err
}

func (t *taped) Write(p []byte) (int, error) {
	t.tape.Reset()
	return t.ReadWriteCloser.Write(p)
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	f.last = httptest.NewRecorder()
	if r.Header.Get("Upgrade") != "" {
		return f.upgrade(r)
	}
	f.h.ServeHTTP(f.last, r)
	body := bytes.Clone(f.last.Body.Bytes())
	resp := f.last.Result()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// answer is what was answered last: status, headers and bytes.
func (f *far) answer() string {
	return fmt.Sprintf("%d %v\n%s", f.last.Code, f.last.Header(), f.last.Body)
}

func (st *stage) client(t *testing.T, class string) (*api.Client, *far) {
	f := &far{h: st.h, url: serve(t, st.h)}
	token := st.tokens[class]
	if class == "no token" {
		token = "none"
	}
	c := must(api.Dial("http://localhost", func() string { return token }, &http.Client{Transport: f}))
	t.Cleanup(c.Close)
	return c, f
}

// TestMatrix: each class on each route, far and near. What is another project's is
// answered byte by byte as what is not there, and nothing of it is told.
func TestMatrix(t *testing.T) {
	rows, methods := map[string]bool{}, map[string]bool{}
	for _, row := range matrix {
		rows[row.route], methods[row.method] = true, true
		want := strings.Fields(row.want)
		if len(want) < len(classes) {
			want = append(want, "403")
		}
		for i, class := range classes {
			t.Run(row.route+"/"+class, func(t *testing.T) {
				st := newStage(t)
				s := st.scene
				s.who = class
				if a, known := st.actors[class]; known {
					near := newStage(t)
					ns := near.scene
					ns.who = class
					err := row.do(t.Context(), near.f.As(a), ns)
					if got := fmt.Sprint(wire.Status(err)); err != nil && got != want[i] || (err == nil) != (want[i] < "300") {
						t.Errorf("near: %v (%s), want %s", err, got, want[i])
					}
				}
				if strings.HasPrefix(class, "other") { // before, as it changes nothing
					c, f := st.client(t, class)
					_ = row.do(t.Context(), c, s.absent()) // its answer is compared
					absent := s.rename(f.answer())
					_ = row.do(t.Context(), c, s)
					if got := f.answer(); got != absent {
						t.Errorf("what is not theirs is answered\n%s\nwhat is not there\n%s", got, absent)
					}
					if f.last.Code < 300 {
						for _, secret := range []string{"ours", "victim", `"id":"` + s.job.String() + `"`} {
							if strings.Contains(f.last.Body.String(), secret) {
								t.Errorf("the answer tells %q:\n%s", secret, f.answer())
							}
						}
					}
				}
				c, f := st.client(t, class)
				_ = row.do(t.Context(), c, s) // its status tells
				if got := fmt.Sprint(f.last.Code); got != want[i] {
					t.Errorf("answered %s, want %s", f.answer(), want[i])
				}
			})
		}
	}
	for _, r := range api.Routes() {
		if !rows[r.Method+" "+r.Pattern] {
			t.Errorf("%s %s has no row in the matrix", r.Method, r.Pattern)
		}
	}
	control := reflect.TypeFor[lease.Control]()
	for i := range control.NumMethod() {
		if name := control.Method(i).Name; !methods[name] {
			t.Errorf("%s has no row in the matrix", name)
		}
	}
}
