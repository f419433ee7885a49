package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/join"
)

var abuse = flag.Int("abuse", 10, "percent of the full size of TestAbuse; 100 also bounds how long a good client waits")

// besieged is a control process that strangers and an actor abuse.
type besieged struct {
	t      *testing.T
	addr   string
	token  string
	stderr *os.File
	pid    int
	client *api.Client
}

// besiege starts a control plane over TLS on a loopback address.
func besiege(t *testing.T) *besieged {
	t.Helper()
	dir := t.TempDir()
	bin, err := exec.LookPath("macbatch")
	if err != nil {
		t.Fatal(err)
	}
	b := &besieged{t: t}
	if b.stderr, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "control", "--data", filepath.Join(dir, "d"), "--listen", "127.0.0.2:0", "--tls", "--verbose")
	cmd.Stderr, cmd.Env = b.stderr, append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.pid = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // its end tells
		if err := <-ended; err != nil {
			t.Errorf("the control plane ended with %v", err)
		}
		if err := b.stderr.Close(); err != nil {
			t.Error(err)
		}
	})
	var p party
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		r, err := readReach(filepath.Join(dir, "d"))
		if err == nil {
			p = party{urls: r.URLs, pin: r.Pin}
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the control plane did not start: %v", err)
		default:
		}
	}
	if p.token, err = readToken(filepath.Join(dir, "d", tokenName)); err != nil {
		t.Fatal(err)
	}
	if b.client, err = p.client(); err != nil {
		t.Fatal(err)
	}
	b.addr, b.token = strings.TrimPrefix(p.urls[0], "https://"), p.token
	return b
}

// memory is the most that the process ever had in memory, in MiB.
func (b *besieged) memory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	if err != nil {
		b.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.t.Fatal(err)
	}
	return kib >> 10
}

// connect opens a connection that is closed at the end of ctx.
func (b *besieged) connect(ctx context.Context, secure bool) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", b.addr)
	if err != nil {
		return nil, err
	}
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an abuser does not care
	}
	context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // it ends
	return conn, nil
}

// drop sends begin, and then a byte a tick, until the other end has enough.
func (b *besieged) drop(ctx context.Context, begin string) {
	conn, err := b.connect(ctx, true)
	if err != nil {
		return
	}
	defer conn.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for _, err = io.WriteString(conn, begin); err == nil; _, err = conn.Write([]byte("x")) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// post sends a whole body and reads the answer.
func (b *besieged) post(ctx context.Context, header string, body io.Reader) {
	conn, err := b.connect(ctx, true)
	if err != nil {
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, header); err == nil {
		io.Copy(conn, body)       //nolint:errcheck // it is refused somewhere on the way
		io.Copy(io.Discard, conn) //nolint:errcheck // likewise
	}
}

// idle opens a connection and says nothing.
func (b *besieged) idle(ctx context.Context, secure bool) {
	conn, err := b.connect(ctx, secure)
	if err != nil {
		return
	}
	defer conn.Close()
	if t, ok := conn.(*tls.Conn); ok && t.HandshakeContext(ctx) != nil {
		return
	}
	io.Copy(io.Discard, conn) //nolint:errcheck // until it is cut
}

// TestAbuse: beside strangers and an actor that mean harm, a good client is served
// and memory stays bounded.
func TestAbuse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	b := besiege(t)
	ask := func() (time.Duration, error) {
		begun := time.Now()
		_, err := b.client.Jobs(t.Context(), 0, 10)
		return time.Since(begun), err
	}
	if _, err := ask(); err != nil {
		t.Fatal(err)
	}
	// The abusers have a token too, of a submitter.
	const stolen = "mb_eve_stolen"
	if err := b.client.AddActor(t.Context(), lease.Actor{ID: "eve", Role: lease.Submitter, Projects: []lease.Project{lease.DefaultProject}}, lease.DigestOf([]byte(stolen))); err != nil {
		t.Fatal(err)
	}
	auth := "Host: " + b.addr + "\r\nAuthorization: Bearer " + stolen + "\r\nContent-Type: application/json\r\n"
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(bytes.Repeat([]byte("[["), 16<<20)) //nolint:errcheck // to memory
	z.Close()                                   //nolint:errcheck // to memory
	large := []byte(strings.Repeat("[", 64<<20))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	many := func(n int, do func(i int)) int {
		n = max(1, n**abuse/100)
		for i := range n {
			group.Go(func() {
				for ctx.Err() == nil { // whoever is cut comes again
					do(i)
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
					}
				}
			})
		}
		return n
	}
	counts := []int{
		many(500, func(int) { b.drop(ctx, "GET /v1/jobs HTTP/1.1\r\nHost: h\r\nX: ") }),
		many(200, func(int) {
			b.drop(ctx, "POST /v1/jobs HTTP/1.1\r\n"+auth+"Content-Length: 262144\r\n\r\n"+strings.Repeat("[", 200_000))
		}),
		many(20, func(i int) {
			length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(large))
			if i%2 == 0 {
				length = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(large))
			}
			b.post(ctx, "POST /v1/jobs HTTP/1.1\r\n"+auth+length, bytes.NewReader(large))
		}),
		many(50, func(int) {
			b.post(ctx, fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\n%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", auth, bomb.Len()), bytes.NewReader(bomb.Bytes()))
		}),
		many(2000, func(i int) { b.idle(ctx, i%4 == 0) }),
	}
	var took []time.Duration
	seconds := 3 + 17**abuse/100
	pace := time.NewTicker(2 * time.Millisecond) // it stays below what one actor may ask
	defer pace.Stop()
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); <-pace.C {
		d, err := ask()
		if err != nil {
			t.Fatalf("the good client, after %d requests: %v", len(took), err)
		}
		took = append(took, d)
	}
	// One that comes only now is served, too.
	fresh := besiegedBy(t, b)
	if _, err := fresh.Jobs(t.Context(), 0, 1); err != nil {
		t.Errorf("a good client that comes amid all that: %v", err)
	}
	cancel()
	group.Wait()
	slices.Sort(took)
	p99, rss := took[len(took)*99/100], b.memory()
	t.Logf("abuse: %d slow headers, %d slow bodies, %d bodies of 64 MiB, %d gzip bombs, %d idle connections: p99 %v of %d requests in %d s, %d MiB at most",
		counts[0], counts[1], counts[2], counts[3], counts[4], p99.Round(time.Millisecond), len(took), seconds, rss)
	if rss > 256 {
		t.Errorf("the control plane took %d MiB, over 256", rss)
	}
	if *abuse >= 100 && p99 > 250*time.Millisecond {
		t.Errorf("p99 of a good client is %v, over 250 ms", p99)
	}
}

// besiegedBy is another client of the same actor, with connections of its own.
func besiegedBy(t *testing.T, b *besieged) *api.Client {
	t.Helper()
	client := api.NewHTTPClient(0, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the pin is tested elsewhere
	c, err := api.Dial("https://"+b.addr, func() string { return b.token }, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestStranger: whoever has no token is told the same on every path, over TLS.
func TestStranger(t *testing.T) {
	b := besiege(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as a port scan
	t.Cleanup(client.CloseIdleConnections)
	seen := map[string]bool{}
	paths := []string{"/", "/v1", "/v1/join", "/v1/files", "/v1/batches", "/admin", "/healthz/", "/debug/pprof/", "/v1/jobs/../jobs", "/%2e%2e/etc/passwd"}
	for _, r := range api.Routes() {
		paths = append(paths, strings.NewReplacer("{job}", "zz-1", "{shard}", "1", "{digest}", strings.Repeat("0", 64), "{project}", "p", "{actor}", "a").Replace(r.Pattern))
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			r, err := http.NewRequestWithContext(t.Context(), method, "https://"+b.addr+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s = %s %s, %v, want 401", method, path, resp.Status, body, err)
			}
			if strings.HasPrefix(path, "/v1/files") || strings.HasPrefix(path, "/v1/batches") {
				continue // told in that protocol's words
			}
			seen[string(body)] = true
		}
	}
	if len(seen) != 1 {
		t.Errorf("strangers are told %d things: %v", len(seen), seen)
	}
}

// proxy passes bytes on to an address until it falls silent: then it keeps all
// connections, and passes on nothing.
type proxy struct {
	l      net.Listener
	to     string
	silent atomic.Int64 // connections up to this number are
	n      atomic.Int64
}

func (p *proxy) run() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		id := p.n.Add(1)
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			in.Close() //nolint:errcheck // nobody is there
			continue
		}
		pass := func(to, from net.Conn) {
			defer to.Close()
			defer from.Close()
			buf := make([]byte, 32<<10)
			for {
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				if id > p.silent.Load() {
					if _, err := to.Write(buf[:n]); err != nil {
						return
					}
				}
			}
		}
		go pass(in, out)
		go pass(out, in)
	}
}

// TestHalfDead: a connection that went silent costs a caller less than 30 s: of a
// request, and of a claim that waits.
func TestHalfDead(t *testing.T) {
	b := besiege(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: b.addr}
	go p.run()
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // it may be closed
	far := *b
	far.addr = l.Addr().String()
	c := besiegedBy(t, &far)
	if _, err := c.Jobs(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	claim := lease.Exchange{Hello: lease.Hello{Worker: "mac", Incarnation: 1, Offer: lease.Offer{Kinds: []lease.Kind{"scan"}}}, Request: 1, Max: 1, Wait: time.Second}
	if _, err := c.Exchange(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	// A claim that waits longer than a client is patient, on a connection that lives.
	group.Go(func() {
		x := claim
		x.Hello.Worker, x.Wait = "other", lease.MaxWait
		if _, err := besiegedBy(t, b).Exchange(t.Context(), x); err != nil {
			t.Errorf("a long claim: %v", err)
		}
	})
	p.silent.Store(p.n.Load())
	for what, do := range map[string]func() error{
		"request": func() error { _, err := c.Jobs(t.Context(), 0, 1); return err },
		"claim": func() error {
			x := claim
			x.Request, x.Wait = 2, lease.MaxWait
			_, err := c.Exchange(t.Context(), x)
			return err
		},
	} {
		group.Go(func() {
			begun := time.Now()
			err := do()
			if took := time.Since(begun); took > 40*time.Second || err != nil && !errors.Is(err, lease.ErrUnreachable) {
				t.Errorf("a %s on a silent connection took %v: %v", what, took, err)
			}
		})
	}
	group.Wait()
	if _, err := c.Jobs(t.Context(), 0, 1); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestCanary: no secret is where it does not belong: not in a process's arguments,
// environment or log, nor in the store, a backup or the ledger.
func TestCanary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	b := besiege(t)
	dir := filepath.Dir(b.stderr.Name())
	home := filepath.Join(dir, "mac")
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command("macbatch", args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "HOME="+home, "MACBATCH_TOKEN_FILE=")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, &errs)
		}
		if strings.Contains(errs.String(), "mbj_") || strings.Contains(errs.String(), "mb_") {
			t.Errorf("%v tells a secret: %s", args, &errs)
		}
		return out.String()
	}
	admin := []string{"--token-file", filepath.Join(dir, "d", tokenName)}
	text := run("", append([]string{"join", "new", "--role", "submitter", "--project", "default", "--name", "mac"}, admin...)...)
	ticket, err := join.ParseTicket(text)
	if err != nil {
		t.Fatal(err)
	}
	run(text, "join", "use")
	cred, err := join.ReadCredential(filepath.Join(home, ".config", "macbatch", credentialName))
	if err != nil {
		t.Fatal(err)
	}
	run("", "submit", "library", "films:")
	run("", "jobs")
	events := run("", append([]string{"events"}, admin...)...)
	run("", append([]string{"backup", filepath.Join(dir, "backup.tar")}, admin...)...)
	secrets := []string{b.token, ticket.Secret, cred.Token, strings.TrimSpace(text)}
	look := func(where string, text []byte) {
		t.Helper()
		for i, s := range secrets {
			if bytes.Contains(text, []byte(s)) {
				t.Errorf("secret %d is in %s", i, where)
			}
		}
	}
	look("the ledger", []byte(events))
	for _, f := range []string{"log", "backup.tar", "d/store.db", "d/control.json", "d/tls.crt"} {
		text, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %d bytes, %v", f, len(text), err)
		}
		look(f, text)
	}
	for _, f := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", b.pid, f))
		if err != nil {
			t.Fatal(err)
		}
		look(f, text)
	}
	var reach lease.Reach
	if text, err := os.ReadFile(filepath.Join(dir, "d", reachName)); err != nil || json.Unmarshal(text, &reach) != nil || reach.Pin != ticket.Pin {
		t.Errorf("%s: %s, %v", reachName, text, err)
	}
	err = filepath.WalkDir(filepath.Join(dir, "d"), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Base(path) != tokenName {
			text, err := os.ReadFile(path)
			look(path, text)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
