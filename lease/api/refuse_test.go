package api_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/wire"
)

// target fills a pattern in.
func target(pattern string) string {
	return strings.NewReplacer("{job}", jobID.String(), "{shard}", "3", "{digest}", digest, "{project}", "p", "{actor}", "ann").Replace(pattern)
}

// ask sends one request to a handler. Headers come as name, value, …
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:7333/", strings.NewReader(body))
	r.URL = must(url.Parse(path))
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// untouchable fails a test when a body is read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestNoToken: whoever has no token learns nothing, not even which paths exist.
func TestNoToken(t *testing.T) {
	f := &fake{}
	h := newHandler(f)
	const want = `{"error":{"code":"unauthorized","message":"credential missing or unknown"}}`
	type place struct{ method, path string }
	places := []place{
		{"GET", "/"}, {"GET", "/v1"}, {"GET", "/v1/"}, {"GET", "/v2/jobs"}, {"GET", "/v1/nope"}, {"GET", "/v1//jobs"}, {"GET", "/v1/../x"}, {"GET", "/v1/jobs/"},
		{"DELETE", "/v1/jobs"}, {"OPTIONS", "/v1/jobs"}, {"POST", "/healthz"}, {"GET", "/healthz/"}, {"TRACE", "/"}, {"HEAD", "/v1/jobs"},
		{"GET", "/v1/jobs/nonsense"}, {"GET", "/v1/jobs?nope=1"}, {"PUT", shardPath + "/blobs/nonsense"}, {"BREW", "/v1/exchange"}, {"GET", "/debug/pprof/"},
	}
	for _, r := range api.Routes() {
		places = append(places, place{r.Method, target(r.Pattern)})
	}
	credentials := [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer nope"}, {"Basic admin"}, {"admin"}, {"Bearer  admin"}, {"Bearer admin "}, {"Bearer ADMIN"},
		{"Bearer " + strings.Repeat("a", 1<<14)}, {"Bearer admin", "Bearer admin"}, {"Bearer admin, Bearer admin"},
	}
	for _, p := range places {
		for _, c := range credentials {
			r := httptest.NewRequest(p.method, "http://localhost/", untouchable{t})
			r.URL = must(url.Parse(p.path))
			r.Header["Authorization"] = c
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(api.Header, "99")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusUnauthorized || w.Body.String() != want {
				t.Fatalf("%s %s with %q = %d %s", p.method, p.path, c, w.Code, w.Body)
			}
			if got := fmt.Sprint(w.Header()); got != fmt.Sprint(http.Header{
				api.Header: {"1"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}, "Connection": {"close"},
				"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"}, "Www-Authenticate": {"Bearer"},
				"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(want))},
			}) {
				t.Fatalf("%s %s with %q has headers %s", p.method, p.path, c, got)
			}
		}
	}
	if len(f.asked) > 0 {
		t.Fatalf("the control plane was asked for %v", f.asked)
	}
}

func TestHealthz(t *testing.T) {
	w := ask(newHandler(&fake{}), "GET", "/healthz", "", "Host", "10.0.0.1")
	if w.Code != 200 || w.Body.String() != "ok\n" {
		t.Fatalf("healthz = %d %q", w.Code, w.Body)
	}
}

// TestRoles: every role on every route, against the table of the protocol.
func TestRoles(t *testing.T) {
	may := map[string]string{
		"POST /v1/jobs": "admin submitter", "GET /v1/jobs": "admin submitter reader", "GET /v1/jobs/{job}": "admin submitter reader",
		"POST /v1/jobs/{job}/cancel": "admin submitter", "GET /v1/jobs/{job}/shards": "admin submitter reader",
		"GET /v1/census": "admin submitter reader", "POST /v1/search": "admin submitter reader", "POST /v1/jobs/{job}/retry": "admin submitter", "POST /v1/pause": "admin submitter", "POST /v1/resume": "admin submitter",
		"GET /v1/events": "admin submitter reader", "GET /v1/jobs/{job}/why": "admin submitter reader", "GET /v1/workers": "admin submitter reader", "GET /v1/verify": "admin",
		"POST /v1/prune": "admin", "GET /v1/backup": "admin", "POST /v1/exchange": "admin worker", "GET /v1/exchange/stream": "admin worker", "POST /v1/heartbeat": "admin worker", "POST /v1/intend": "admin worker",
		"PUT /v1/jobs/{job}/shards/{shard}/blobs/{digest}": "admin worker", "PUT /v1/projects/{project}/blobs/{digest}": "admin submitter",
		"GET /v1/jobs/{job}/shards/{shard}/blobs/{digest}": "admin submitter reader worker",
		"GET /v1/projects": "admin submitter reader worker", "POST /v1/projects": "admin",
		"POST /v1/projects/{project}/close": "admin", "POST /v1/projects/{project}/open": "admin",
		"PUT /v1/projects/{project}/actors/{actor}": "admin", "DELETE /v1/projects/{project}/actors/{actor}": "admin",
		"GET /v1/actors": "admin", "POST /v1/actors": "admin", "POST /v1/actors/{actor}/revoke": "admin", "PUT /v1/actors/{actor}/token": "admin",
		"GET /v1/jobs/{job}/input": "admin submitter reader worker", "POST /v1/invitations": "admin", "POST /v1/join": "admin guest",
	}
	for _, r := range api.Routes() {
		roles, ok := may[r.Method+" "+r.Pattern]
		if !ok {
			t.Fatalf("%s %s has no row here", r.Method, r.Pattern)
		}
		for _, role := range []string{"admin", "submitter", "reader", "worker", "guest"} {
			f := &fake{}
			body, kind := "{}", "application/json"
			if strings.Contains(r.Pattern, "/blobs/") {
				body, kind = "abc", "application/octet-stream"
			}
			w := ask(newHandler(f), r.Method, target(r.Pattern), body, "Authorization", "bearer "+role, "Content-Type", kind)
			allowed := strings.Contains(" "+roles+" ", " "+role+" ")
			done := w.Code < 300 || strings.HasSuffix(r.Pattern, "/stream") && w.Code == http.StatusBadRequest // no stream was asked for
			if allowed != done || !allowed && (w.Code != http.StatusForbidden || len(f.asked) > 0) {
				t.Fatalf("%s on %s %s = %d %s, want allowed %v", role, r.Method, r.Pattern, w.Code, w.Body, allowed)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	big := `{"reason":"` + strings.Repeat("a", 256<<10) + `"}`
	compact := string(must(wire.AppendExchange(nil, &exchange)))
	cancel := "/v1/jobs/" + jobID.String() + "/cancel"
	tests := []struct {
		name, method, path, body string
		headers                  []string
		want                     error
	}{
		{"unknown path", "GET", "/v1/nope", "", nil, lease.ErrNotFound},
		{"root", "GET", "/", "", nil, lease.ErrNotFound},
		{"wrong method", "DELETE", "/v1/jobs", "", nil, lease.ErrNotFound},
		{"trailing slash", "GET", "/v1/jobs/", "", nil, lease.ErrNotFound},
		{"double slash", "GET", "/v1//jobs", "", nil, lease.ErrNotFound},
		{"dots", "GET", "/v1/x/../jobs", "", nil, lease.ErrNotFound},
		{"no id", "GET", "/v1/jobs/-", "", nil, lease.ErrMalformed},
		{"id in another spelling", "GET", "/v1/jobs/HV05C-1", "", nil, lease.ErrMalformed},
		{"escaped slash in an id", "GET", "/v1/jobs/hv05c-1%2f3", "", nil, lease.ErrMalformed},
		{"escaped dots in an id", "GET", "/v1/jobs/%2e%2e", "", nil, lease.ErrMalformed},
		{"no digest", "GET", shardPath + "/blobs/abc", "", nil, lease.ErrMalformed},
		{"digest in upper case", "GET", shardPath + "/blobs/" + strings.ToUpper(digest), "", nil, lease.ErrMalformed},

		{"unknown parameter", "GET", "/v1/jobs?page=1", "", nil, lease.ErrMalformed},
		{"parameter twice", "GET", "/v1/jobs?limit=1&limit=2", "", nil, lease.ErrMalformed},
		{"parameter on a body", "POST", cancel + "?reason=x", `{"reason":"x"}`, nil, lease.ErrMalformed},
		{"broken query", "GET", "/v1/jobs?limit=%zz", "", nil, lease.ErrMalformed},
		{"semicolon", "GET", "/v1/jobs?limit=1;before=", "", nil, lease.ErrMalformed},
		{"limit of words", "GET", "/v1/jobs?limit=ten", "", nil, lease.ErrMalformed},
		{"negative after", "GET", "/v1/events?after=-1", "", nil, lease.ErrMalformed},
		{"huge after", "GET", "/v1/jobs/hv05c-1/shards?after=4294967296", "", nil, lease.ErrMalformed},
		{"results=true", "GET", "/v1/jobs/hv05c-1/shards?results=true", "", nil, lease.ErrMalformed},
		{"events of nothing", "GET", "/v1/events?of=x", "", nil, lease.ErrMalformed},
		{"events of shard 0", "GET", "/v1/events?of=hv05c-1/0", "", nil, lease.ErrMalformed},

		{"no body", "POST", cancel, "", nil, lease.ErrMalformed},
		{"duplicate key", "POST", cancel, `{"reason":"a","reason":"b"}`, nil, lease.ErrMalformed},
		{"miscased key", "POST", cancel, `{"Reason":"a"}`, nil, lease.ErrMalformed},
		{"unknown key", "POST", "/v1/jobs", `{"kind":"ocr","project":"p","params":{},"owner":"me"}`, nil, lease.ErrMalformed},
		{"trailing data", "POST", cancel, `{}{}`, nil, lease.ErrMalformed},
		{"duplicate key within a result", "POST", "/v1/exchange", `{"reports":[{"result":{"a":1,"a":2}}]}`, nil, lease.ErrMalformed},
		{"depth", "POST", "/v1/jobs", `{"params":` + strings.Repeat("[", 1<<16) + `}`, nil, lease.ErrMalformed},
		{"body over the limit", "POST", cancel, big, nil, lease.ErrTooLarge},
		{"heartbeat over the limit", "POST", "/v1/heartbeat", strings.Repeat(" ", 1<<20+1), nil, lease.ErrTooLarge},
		{"exchange over the limit", "POST", "/v1/exchange", strings.Repeat(" ", api.MaxBody+1), nil, lease.ErrTooLarge},
		{"compact exchange cut", "POST", "/v1/exchange", "\x01\x00", []string{"Content-Type", wire.ExchangeType}, lease.ErrMalformed},
		{"compact exchange with a parameter", "POST", "/v1/exchange?x=1", compact, []string{"Content-Type", wire.ExchangeType}, lease.ErrMalformed},
		{"compact exchange over the limit", "POST", "/v1/exchange", strings.Repeat("\x01", api.MaxBody+1), []string{"Content-Type", wire.ExchangeType}, lease.ErrTooLarge},
		{"JSON called compact", "POST", "/v1/exchange", `{}`, []string{"Content-Type", wire.ExchangeType}, lease.ErrMalformed},
		{"compact called JSON", "POST", "/v1/exchange", compact, nil, lease.ErrMalformed},
		{"compact heartbeat", "POST", "/v1/heartbeat", compact, []string{"Content-Type", wire.ExchangeType}, lease.ErrMalformed},
		{"form", "POST", cancel, `{"reason":"a"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, lease.ErrMalformed},
		{"plain text", "POST", cancel, `{"reason":"a"}`, []string{"Content-Type", "text/plain"}, lease.ErrMalformed},
		{"no content type", "POST", cancel, `{"reason":"a"}`, []string{"Content-Type", ""}, lease.ErrMalformed},
		{"gzip", "POST", cancel, `{"reason":"a"}`, []string{"Content-Encoding", "gzip"}, lease.ErrMalformed},
		{"identity", "PUT", blobPath, `abc`, []string{"Content-Encoding", "identity"}, lease.ErrMalformed},

		{"foreign host", "GET", "/v1/jobs", "", []string{"Host", "evil.example"}, lease.ErrForbidden},
		{"foreign host with a port", "GET", "/v1/jobs", "", []string{"Host", "evil.example:7333"}, lease.ErrForbidden},
		{"host that ends like ours", "GET", "/v1/jobs", "", []string{"Host", "x.control.local"}, lease.ErrForbidden},
		{"host with a dot", "GET", "/v1/jobs", "", []string{"Host", "localhost."}, lease.ErrForbidden},
		{"other loopback address", "GET", "/v1/jobs", "", []string{"Host", "127.0.0.2"}, lease.ErrForbidden},
		{"no host", "GET", "/v1/jobs", "", []string{"Host", ""}, lease.ErrForbidden},
		{"cross-site", "POST", cancel, `{"reason":"a"}`, []string{"Sec-Fetch-Site", "cross-site"}, lease.ErrForbidden},
		{"same-site", "POST", cancel, `{"reason":"a"}`, []string{"Sec-Fetch-Site", "same-site"}, lease.ErrForbidden},
		{"foreign origin", "PUT", blobPath, `abc`, []string{"Origin", "https://evil.example"}, lease.ErrForbidden},
		{"null origin", "POST", cancel, `{"reason":"a"}`, []string{"Origin", "null"}, lease.ErrForbidden},
		{"other protocol", "GET", "/v1/jobs", "", []string{api.Header, "2"}, lease.ErrMalformed},
		{"two protocols", "GET", "/v1/jobs", "", []string{api.Header, "1", api.Header, "1"}, lease.ErrMalformed},

		{"our host", "GET", "/v1/jobs", "", []string{"Host", "control.LOCAL:7333"}, nil},
		{"IPv6", "GET", "/v1/jobs", "", []string{"Host", "[::1]"}, nil},
		{"IPv6 with a port", "GET", "/v1/jobs", "", []string{"Host", "[::1]:7333"}, nil},
		{"our protocol", "GET", "/v1/jobs", "", []string{api.Header, "1"}, nil},
		{"charset", "POST", cancel, `{"reason":"a"}`, []string{"Content-Type", "application/json; charset=utf-8"}, nil},
		{"our origin", "POST", cancel, `{"reason":"a"}`, []string{"Origin", "http://localhost:7333"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			headers := append([]string{"Authorization", "Bearer admin"}, tt.headers...)
			if !strings.Contains(fmt.Sprint(tt.headers), "Content-Type") && tt.body != "" {
				headers = append(headers, "Content-Type", "application/json")
			}
			w := ask(newHandler(f), tt.method, tt.path, tt.body, headers...)
			if tt.want == nil {
				if w.Code >= 300 || len(f.asked) == 0 {
					t.Fatalf("%s %s = %d %s, want it done", tt.method, tt.path, w.Code, w.Body)
				}
				return
			}
			if got := readError(w); !errors.Is(got, tt.want) || len(f.asked) > 0 {
				t.Fatalf("%s %s = %d %s, asked %v; want %v", tt.method, tt.path, w.Code, w.Body, f.asked, tt.want)
			}
			if w.Body.Len() > 1500 {
				t.Fatalf("%s %s answered with %d bytes", tt.method, tt.path, w.Body.Len())
			}
		})
	}
}

// TestNotThereIsNotYours: one answer, byte for byte.
func TestNotThereIsNotYours(t *testing.T) {
	absent := ask(newHandler(&fake{err: lease.ErrNotFound}), "GET", "/v1/jobs/hv05c-2", "", "Authorization", "Bearer reader")
	hidden := ask(newHandler(&fake{err: fmt.Errorf("job of project %q: %w", "secret", lease.ErrNotFound)}), "GET", "/v1/jobs/hv05c-1", "", "Authorization", "Bearer reader")
	if absent.Body.String() != hidden.Body.String() || fmt.Sprint(absent.Code, absent.Header()) != fmt.Sprint(hidden.Code, hidden.Header()) {
		t.Fatalf("absent: %d %v %s\nhidden: %d %v %s", absent.Code, absent.Header(), absent.Body, hidden.Code, hidden.Header(), hidden.Body)
	}
}

// TestRawRequests: what net/http itself answers, or would, below the handler.
func TestRawRequests(t *testing.T) {
	addr := strings.TrimPrefix(serve(t, newHandler(&fake{})), "http://")
	const auth = "Host: localhost\r\nAuthorization: Bearer admin\r\n"
	tests := []struct {
		name, in string
		status   int
	}{
		{"options *", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 401},
		{"connect", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 401},
		{"absolute form names the host", "GET http://evil.example/v1/jobs HTTP/1.1\r\n" + auth + "\r\n", 403},
		{"huge header", "GET /v1/jobs HTTP/1.1\r\n" + auth + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431},
		{"two lengths", "POST /v1/jobs HTTP/1.1\r\n" + auth + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
		{"length and chunks", "PUT " + blobPath + " HTTP/1.1\r\n" + auth + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400},
		{"blob in chunks", "PUT " + blobPath + " HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400},
		{"JSON in chunks over the limit", "POST /v1/jobs HTTP/1.1\r\n" + auth + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n", api.MaxBody+1) + strings.Repeat(" ", api.MaxBody+1) + "\r\n0\r\n\r\n", 413},
		{"blob of enormous length", "PUT " + blobPath + " HTTP/1.1\r\n" + auth + "Content-Length: 9223372036854775807\r\n\r\n", 413},
		{"JSON of enormous length", "POST /v1/jobs HTTP/1.1\r\n" + auth + "Content-Type: application/json\r\nContent-Length: 9223372036854775807\r\n\r\n", 413},
		{"wrong digest", "PUT " + blobPath + " HTTP/1.1\r\n" + auth + "Content-Length: 3\r\n\r\nabd", 422},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, tt.in) //nolint:errcheck // it is cut off where it is too long
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Fatalf("%.60q = %s, want %d", tt.in, resp.Status, tt.status)
			}
		})
	}
}

// TestLogs: a line for each request, a panic with its stack; no token, no body,
// no path of a stranger's making.
func TestLogs(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f := &fake{}
	h := api.NewHandler(api.Options{Authenticate: authenticate, Log: log, Control: func(a lease.Actor) lease.Control {
		if a.Role == lease.Admin {
			panic("kaboom")
		}
		return f
	}})
	ask(h, "POST", "/v1/jobs", `{"kind":"hush"}`, "Authorization", "Bearer submitter", "Content-Type", "application/json")
	ask(h, "GET", "/v1/jobs/hush", "", "Authorization", "Bearer hush-token")
	ask(h, strings.Repeat("HUSH", 1000), "/hush", "", "Authorization", "Bearer reader")
	w := ask(h, "GET", "/v1/jobs", "", "Authorization", "Bearer admin")
	if w.Code != 500 || strings.Contains(w.Body.String(), "kaboom") {
		t.Fatalf("a panic = %d %s", w.Code, w.Body)
	}
	for _, want := range []string{
		`msg=request method=POST route="POST /v1/jobs" status=200 ms=`, "actor=the-submitter\n", "status=401", "status=404",
		"level=ERROR msg=panic", "kaboom", "status=500",
	} {
		if !strings.Contains(out.String(), want) {
			t.Fatalf("the log lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "hush") || strings.Contains(out.String(), "HUSHHUSHHUSHHUSHH") {
		t.Fatalf("the log tells too much:\n%s", &out)
	}
}
