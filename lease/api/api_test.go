package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/wire"
)

const adminToken = "mb_admin_secret"

// serve puts a handler over a fixture's store, with a token for each role.
func serve(t *testing.T) (*httptest.Server, *leasetest.Fixture) {
	t.Helper()
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.NewServer(api.NewHandler(api.Options{
		Authenticate: func(token string) (lease.Actor, error) {
			switch token {
			case adminToken:
				return leasetest.Admin, nil
			case "submitter", "reader", "worker":
				return lease.Actor{ID: lease.ActorID(token), Role: lease.Role(token)}, nil
			}
			return lease.Actor{}, lease.ErrUnauthorized
		},
		Control: func(a lease.Actor) lease.Control {
			if a.Role == lease.Admin {
				return f.Near()
			}
			return f.As(a)
		},
	}))
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, f
}

func dial(t *testing.T, srv *httptest.Server, token string) *api.Client {
	t.Helper()
	c, err := api.Dial(srv.URL+"/", token, wire.NewClient(wire.ClientOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestControl(t *testing.T) {
	leasetest.TestControl(t, func(t *testing.T) (lease.Control, *leasetest.Fixture) {
		srv, f := serve(t)
		return dial(t, srv, adminToken), f
	})
}

// request sends one raw request and returns the status and the body.
func request(t *testing.T, srv *httptest.Server, method, path, token string, header http.Header, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if h := header.Get("Host"); h != "" {
		r.Host = h
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// path fills in a route's pattern.
func path(rt api.Route) string {
	return strings.NewReplacer("{job}", "1-1", "{digest}", lease.Digest{1}.String()).Replace(rt.Pattern)
}

func TestNoTokenNoAnswer(t *testing.T) {
	srv, _ := serve(t)
	if status, body := request(t, srv, "GET", "/healthz", "", nil, nil); status != 200 || body != "ok\n" {
		t.Errorf("GET /healthz = %d %q, want 200 ok", status, body)
	}
	want := ""
	probe := append(api.Routes(), api.Route{Method: "GET", Pattern: "/"}, api.Route{Method: "GET", Pattern: "/v1/none"}, api.Route{Method: "POST", Pattern: "/healthz"})
	for _, rt := range probe {
		for _, token := range []string{"", "wrong", adminToken + "x"} {
			status, body := request(t, srv, rt.Method, path(rt), token, nil, nil)
			if want == "" {
				want = body
			}
			if status != 401 || body != want {
				t.Errorf("%s %s with token %q = %d %q, want 401 %q", rt.Method, rt.Pattern, token, status, body, want)
			}
		}
	}
}

// TestRoles is the matrix of routes and roles: a route without a row fails.
func TestRoles(t *testing.T) {
	allowed := map[string]string{
		"POST /v1/jobs": "submitter", "GET /v1/jobs": "submitter reader", "GET /v1/jobs/{job}": "submitter reader",
		"POST /v1/jobs/{job}/cancel": "submitter", "GET /v1/jobs/{job}/shards": "submitter reader", "GET /v1/events": "submitter reader",
		"GET /v1/workers": "submitter reader", "GET /v1/verify": "", "POST /v1/exchange": "worker", "POST /v1/heartbeat": "worker",
		"PUT /v1/blobs/{digest}": "worker", "GET /v1/blobs/{digest}": "submitter reader worker",
	}
	srv, _ := serve(t)
	for _, rt := range api.Routes() {
		roles, ok := allowed[rt.Method+" "+rt.Pattern]
		if !ok {
			t.Errorf("route %s %s has no row", rt.Method, rt.Pattern)
		}
		for _, role := range []string{"submitter", "reader", "worker"} {
			status, body := request(t, srv, rt.Method, path(rt), role, http.Header{"Content-Type": {"application/json"}}, strings.NewReader("{"))
			if forbidden := status == 403; forbidden == strings.Contains(roles, role) && rt.Pattern != "/v1/events" {
				t.Errorf("%s %s as %s = %d %s; allowed are %q", rt.Method, rt.Pattern, role, status, body, roles)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	srv, _ := serve(t)
	jsonType := http.Header{"Content-Type": {"application/json"}}
	with := func(k, v string) http.Header {
		h := jsonType.Clone()
		h.Set(k, v)
		return h
	}
	for _, c := range []struct {
		name, path string
		header     http.Header
		body       string
		want       int
	}{
		{"another host", "/v1/jobs", with("Host", "evil.example"), "{}", 400},
		{"a page of another origin", "/v1/jobs", with("Sec-Fetch-Site", "cross-site"), "{}", 403},
		{"compressed", "/v1/jobs", with("Content-Encoding", "gzip"), "{}", 400},
		{"a form", "/v1/jobs", http.Header{"Content-Type": {"text/plain"}}, "{}", 400},
		{"another protocol", "/v1/jobs", with("Macbatch-Protocol", "2"), "{}", 400},
		{"doubled key", "/v1/jobs", jsonType, `{"kind":"test","kind":"test","params":{}}`, 400},
		{"key in another case", "/v1/jobs", jsonType, `{"Kind":"test","params":{}}`, 400},
		{"unknown key", "/v1/jobs", jsonType, `{"kind":"test","params":{},"admin":true}`, 400},
		{"two values", "/v1/jobs", jsonType, `{"kind":"test","params":{}}{}`, 400},
		{"too large", "/v1/jobs", jsonType, `{"kind":"` + strings.Repeat("x", 300<<10) + `"}`, 413},
		{"unknown kind", "/v1/jobs", jsonType, `{"kind":"none","params":{}}`, 422},
		{"id that is none", "/v1/jobs/../cancel/cancel", jsonType, `{}`, 404},
	} {
		if status, body := request(t, srv, "POST", c.path, adminToken, c.header, strings.NewReader(c.body)); status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, status, body, c.want)
		}
	}
}

func TestBlobCut(t *testing.T) {
	srv, f := serve(t)
	c := dial(t, srv, adminToken)
	b := bytes.Repeat([]byte("sound"), 100_000)
	d := lease.DigestOf(b)
	ctx, cancel := context.WithCancel(t.Context())
	r := io.MultiReader(bytes.NewReader(b[:len(b)/2]), readerFunc(func([]byte) (int, error) { cancel(); return 0, errors.New("cut") }))
	if err := c.PutBlob(ctx, d, int64(len(b)), r); err == nil {
		t.Error("an upload that was cut succeeded")
	}
	if here, _ := f.Blobs.Has(d); here {
		t.Error("half an upload is a blob")
	}
	if err := c.PutBlob(t.Context(), d, int64(len(b)), bytes.NewReader(b)); err != nil {
		t.Fatalf("PutBlob = %v", err)
	}
	if err := c.PutBlob(t.Context(), lease.Digest{1}, int64(len(b)), bytes.NewReader(b)); !errors.Is(err, lease.ErrDigest) {
		t.Errorf("PutBlob under another digest = %v, want %v", err, lease.ErrDigest)
	}
	body, n, err := c.Blob(t.Context(), d)
	if err != nil || n != int64(len(b)) {
		t.Fatalf("Blob = %d bytes, %v", n, err)
	}
	got, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("read back %d bytes, %v", len(got), err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestDial(t *testing.T) {
	for base, ok := range map[string]bool{
		"http://127.0.0.1:7373": true, "http://localhost:1/": true, "https://mini.local:7373": true, "http://[::1]:7373": true,
		"http://mini.local:7373": false, "ftp://127.0.0.1": false, "127.0.0.1:7373": false, "http://u:p@127.0.0.1:1": false, "http://127.0.0.1:1/?x=1": false, "": false,
	} {
		if _, err := api.Dial(base, "t", http.DefaultClient); (err == nil) != ok {
			t.Errorf("Dial(%q) = %v, want ok: %v", base, err, ok)
		}
	}
	c, err := api.Dial("http://127.0.0.1:1", "t", wire.NewClient(wire.ClientOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Workers(t.Context()); !errors.Is(err, lease.ErrUnreachable) {
		t.Errorf("Workers of nobody = %v, want %v", err, lease.ErrUnreachable)
	}
}
