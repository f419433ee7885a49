package wire_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/lease/wire"
)

func TestBackoff(t *testing.T) {
	most := func(n int64) int64 { return n - 1 }
	for attempt, want := range map[int]time.Duration{
		-1: 250 * time.Millisecond, 0: 250 * time.Millisecond, 1: 500 * time.Millisecond, 5: 8 * time.Second,
		6: 15 * time.Second, 15: 15 * time.Second, 16: 15 * time.Second, 1 << 40: 15 * time.Second,
	} {
		if got := wire.Backoff(attempt, most); got != want {
			t.Fatalf("Backoff(%d) is at most %v, want %v", attempt, got, want)
		}
	}
	if got := wire.Backoff(9, func(int64) int64 { return 0 }); got != 0 {
		t.Fatalf("Backoff(9) is at least %v, want 0", got)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if got := wire.Backoff(3, rnd.Int64N); got < 0 || got > 2*time.Second {
			t.Fatalf("Backoff(3) = %v, want within 2 s", got)
		}
	}
}

func TestClientFollowsNoRedirect(t *testing.T) {
	var hits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	c := wire.NewClient(wire.ClientOptions{})
	defer c.CloseIdleConnections()
	resp, err := c.Get(here.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect || hits.Load() != 0 {
		t.Fatalf("Get = %d with %d requests elsewhere, want the redirect itself", resp.StatusCode, hits.Load())
	}
}

// proxied counts requests to the proxy that the environment names. The variables
// are read once in a process, so they are set before anything else.
var proxied atomic.Int32

func TestMain(m *testing.M) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		os.Setenv(name, proxy.URL) //nolint:errcheck // these names are valid
	}
	code := m.Run()
	proxy.Close()
	os.Exit(code)
}

func TestClientKnowsNoProxy(t *testing.T) {
	c := wire.NewClient(wire.ClientOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// An address for documentation, where nobody answers.
	req, err := http.NewRequestWithContext(ctx, "GET", "http://192.0.2.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(req); err == nil {
		resp.Body.Close()
		t.Fatalf("Do = %s from nowhere", resp.Status)
	}
	if proxied.Load() != 0 {
		t.Fatal("the proxy of the environment was asked")
	}
}

// TestClientDropsIdle: once an exchange broke, no older connection is trusted.
func TestClientDropsIdle(t *testing.T) {
	var conns atomic.Int32
	var both sync.WaitGroup
	both.Add(2)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/both":
			both.Done()
			both.Wait()
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c := wire.NewClient(wire.ClientOptions{})
	defer c.CloseIdleConnections()
	get := func(path string) {
		resp, err := c.Get(srv.URL + path)
		if err != nil {
			t.Errorf("Get(%q) = %v", path, err)
			return
		}
		resp.Body.Close()
	}
	var done sync.WaitGroup
	done.Go(func() { get("/both") })
	done.Go(func() { get("/both") })
	done.Wait()
	get("/")
	if n := conns.Load(); n != 2 {
		t.Fatalf("%d connections, want the 2 kept alive", n)
	}
	if resp, err := c.Post(srv.URL+"/cut", "", nil); err == nil {
		resp.Body.Close()
		t.Fatal("Post was not cut")
	}
	get("/")
	if n := conns.Load(); n != 3 {
		t.Fatalf("%d connections after an error, want a new one beside the 2 old", n)
	}
}
