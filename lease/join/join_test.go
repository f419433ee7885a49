package join_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/join"
	"macbatch/lease/wire"
)

// server talks TLS with the key of a folder, and counts what it is told.
type server struct {
	addr string
	pin  join.Pin
	told chan string // the first line of each connection that got through
}

func serve(t *testing.T, dir string, change func(*tls.Config)) *server {
	t.Helper()
	config, pin, err := join.Server(dir, []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(config)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), pin: pin, told: make(chan string, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = (&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.told <- r.URL.Path
			io.WriteString(w, "hello") //nolint:errcheck // the client tells
		}), ErrorLog: nil}).Serve(l)
	}()
	t.Cleanup(func() { l.Close(); <-done }) //nolint:errcheck // the server may have closed it
	return s
}

func get(client *http.Client, addr string) (string, error) {
	resp, err := client.Get("https://" + addr + "/secret")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// TestPin: a client talks to who holds the key, under any name, and to nobody else.
func TestPin(t *testing.T) {
	good, other := serve(t, t.TempDir(), nil), serve(t, t.TempDir(), nil)
	if good.pin == other.pin {
		t.Fatal("two folders have one key")
	}
	client := wire.NewClient(wire.ClientOptions{TLS: good.pin.Config()})
	if got, err := get(client, good.addr); got != "hello" || err != nil {
		t.Fatalf("the pinned server = %q, %v", got, err)
	}
	if _, err := get(client, other.addr); !errors.Is(err, join.ErrPin) {
		t.Fatalf("another key: %v, want %v", err, join.ErrPin)
	}
	if n := len(other.told); n != 0 {
		t.Fatalf("another key was told %d requests", n)
	}
	old := serve(t, t.TempDir(), func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 })
	if _, err := get(wire.NewClient(wire.ClientOptions{TLS: old.pin.Config()}), old.addr); err == nil {
		t.Fatal("TLS 1.2 was spoken")
	}
	if _, err := tls.Dial("tcp", good.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Fatal("the server speaks TLS 1.2")
	}
}

// TestPinResumed: a session that is resumed is no way around the pin.
func TestPinResumed(t *testing.T) {
	s := serve(t, t.TempDir(), func(c *tls.Config) { c.SessionTicketsDisabled = false })
	sessions := tls.NewLRUClientSessionCache(8)
	resumed := func(pin join.Pin) (bool, error) {
		config := pin.Config()
		config.ClientSessionCache, config.ServerName = sessions, "control"
		c, err := tls.Dial("tcp", s.addr, config)
		if err != nil {
			return false, err
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.0\r\n\r\n") //nolint:errcheck // the answer tells
		if _, err := io.ReadAll(c); err != nil {    // the tickets come along with it
			return false, err
		}
		return c.ConnectionState().DidResume, nil
	}
	if again, err := resumed(s.pin); again || err != nil {
		t.Fatalf("the first connection: %v, %v", again, err)
	}
	if again, err := resumed(s.pin); !again || err != nil {
		t.Fatalf("the second connection: resumed %v, %v; the test needs one that is", again, err)
	}
	if _, err := resumed(join.Pin{1}); !errors.Is(err, join.ErrPin) {
		t.Fatalf("a resumed session with another pin: %v, want %v", err, join.ErrPin)
	}
}

// TestSeek: of several addresses the one that holds the key is found, wherever it
// stands, and the others are told nothing.
func TestSeek(t *testing.T) {
	dir := t.TempDir()
	good, other := serve(t, dir, nil), serve(t, t.TempDir(), nil)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	client := wire.NewClient(wire.ClientOptions{TLS: good.pin.Config(), Addresses: []string{dead.Addr().String(), other.addr, good.addr}})
	for range 3 {
		if got, err := get(client, "control.invalid"); got != "hello" || err != nil {
			t.Fatalf("get = %q, %v", got, err)
		}
		client.CloseIdleConnections()
	}
	if n := len(other.told); n != 0 {
		t.Fatalf("another key was told %d requests", n)
	}
	client = wire.NewClient(wire.ClientOptions{TLS: good.pin.Config(), Addresses: []string{dead.Addr().String(), other.addr}})
	if _, err := get(client, "control.invalid"); !errors.Is(err, join.ErrPin) {
		t.Fatalf("none of them: %v, want %v among the causes", err, join.ErrPin)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "https://control.invalid", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(r); !errors.Is(err, context.Canceled) { //nolint:bodyclose // there is none
		t.Fatalf("a caller that left: %v", err)
	}
}

// TestKey: the key is made once and stays; the certificate follows the names.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	names := []string{"127.0.0.1", "host.local"}
	start := func(names []string, now time.Time) (string, join.Pin) {
		t.Helper()
		c, pin, err := join.Server(dir, names, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if err := c.Certificates[0].Leaf.VerifyHostname(n); err != nil {
				t.Fatal(err)
			}
		}
		return string(c.Certificates[0].Certificate[0]), pin
	}
	cert, pin := start(names, now)
	if got, again := start(names[:1], now); got != cert || again != pin {
		t.Fatal("a second start made another certificate or key")
	}
	if got, again := start([]string{"10.0.0.7"}, now); got == cert || again != pin {
		t.Fatal("another name: want another certificate of the same key")
	}
	cert, _ = start(names, now)
	if got, again := start(names, now.AddDate(9, 6, 0)); got == cert || again != pin {
		t.Fatal("near its end: want another certificate of the same key")
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, again := start(names, now); again != pin {
		t.Fatal("a torn certificate cost the key")
	}
	fi, err := os.Stat(filepath.Join(dir, "tls.key"))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", fi.Mode(), err)
	}

	refused := func(what string) {
		t.Helper()
		if _, _, err := join.Server(dir, names, now); err == nil || !strings.Contains(err.Error(), "tls.key") {
			t.Fatalf("%s: %v, want a refusal that names the file", what, err)
		}
	}
	path := filepath.Join(dir, "tls.key")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	refused("a key that others read")
	for _, torn := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "x"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a torn key")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

var ticket = join.Ticket{URLs: []string{"https://10.0.0.7:7373", "https://host.local:7373"}, Pin: strings.Repeat("0a", 32), Secret: "mbj_mac-1_AAAA"}

func TestTicket(t *testing.T) {
	s := ticket.String()
	for _, text := range []string{s, "\n" + s[:20] + "\r\n  " + s[20:] + "\n"} {
		got, err := join.ParseTicket(text)
		if err != nil || got.Actor() != "mac-1" || got.String() != s {
			t.Fatalf("ParseTicket(%q) = %+v, %v", text, got, err)
		}
	}
	for i := range len(s) {
		if _, err := join.ParseTicket(s[:i]); !errors.Is(err, lease.ErrMalformed) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
		torn := []byte(s)
		torn[i] ^= 1
		if _, err := join.ParseTicket(string(torn)); err == nil {
			t.Fatalf("byte %d changed: no error", i)
		} else if strings.Contains(err.Error(), "mac-1") || strings.Contains(err.Error(), s[10:20]) {
			t.Fatalf("an error that quotes: %v", err)
		}
	}
	for name, change := range map[string]func(*join.Ticket){
		"no address":           func(t *join.Ticket) { t.URLs = nil },
		"no TLS":               func(t *join.Ticket) { t.URLs = []string{"http://10.0.0.7:7373"} },
		"no TLS, no pin":       func(t *join.Ticket) { t.URLs, t.Pin = []string{"http://10.0.0.7:7373"}, "" },
		"no pin":               func(t *join.Ticket) { t.Pin = "" },
		"a pin of zeros":       func(t *join.Ticket) { t.Pin = strings.Repeat("0", 64) },
		"a short pin":          func(t *join.Ticket) { t.Pin = "0a" },
		"a password":           func(t *join.Ticket) { t.URLs = []string{"https://a:b@10.0.0.7"} },
		"another scheme":       func(t *join.Ticket) { t.URLs = []string{"file:///etc/passwd"} },
		"no secret":            func(t *join.Ticket) { t.Secret = "" },
		"a token":              func(t *join.Ticket) { t.Secret = "mb_mac-1_AAAA" },
		"a header in a secret": func(t *join.Ticket) { t.Secret = "mbj_mac-1_AAAA\r\nX: y" },
	} {
		bad := ticket
		change(&bad)
		if got, err := join.ParseTicket(bad.String()); err == nil {
			t.Errorf("%s: ParseTicket = %+v, want an error", name, got)
		}
	}
	near := join.Ticket{URLs: []string{"http://127.0.0.1:7373"}, Secret: "mbj_a_B"}
	if _, err := join.ParseTicket(near.String()); err != nil {
		t.Fatalf("a loopback address without TLS: %v", err)
	}
}

func FuzzParseTicket(f *testing.F) {
	f.Add(ticket.String())
	f.Add("mbjoin1-")
	f.Add("mbjoin1-AAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := join.ParseTicket(s)
		if err != nil {
			return
		}
		if again, err := join.ParseTicket(got.String()); err != nil || again.String() != got.String() {
			t.Fatalf("%+v is read as %+v, %v", got, again, err)
		}
	})
}

func TestCredential(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "credential.json")
	if _, err := join.ReadCredential(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("none: %v", err)
	}
	c := join.Credential{URLs: ticket.URLs, Pin: ticket.Pin, Actor: "mac-1", Role: lease.WorkerRole, Projects: []lease.Project{"films"}, Token: "mb_mac-1_x"}
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := join.ReadCredential(path)
	if err != nil || got.Token != c.Token || got.Pin != c.Pin || got.Role != c.Role {
		t.Fatalf("ReadCredential = %+v, %v", got, err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", fi.Mode(), err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := join.ReadCredential(path); !errors.Is(err, lease.ErrForbidden) || strings.Contains(err.Error(), "mb_") {
			t.Fatalf("mode %v: %v, want %v", mode, err, lease.ErrForbidden)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{}", `{"urls":["https://h"],"pin":"` + ticket.Pin + `","actor":"a","role":"worker"}`, `{"urls":["http://h"],"actor":"a","role":"worker","token":"t"}`, `{"token":"t","more":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := join.ReadCredential(path); err == nil {
			t.Errorf("%s = %+v, want an error", text, got)
		}
	}
}
