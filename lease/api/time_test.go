package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
)

// pipes is a network within the process, and within the bubble of a test.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs a server over f on a network of pipes in a bubble of its own time.
func bubble(t *testing.T, f *fake, test func(t *testing.T, p *pipes, c *api.Client)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		srv := api.NewServer(newHandler(f), nil)
		var done sync.WaitGroup
		done.Go(func() { srv.Serve(p) }) //nolint:errcheck // that it was closed
		defer done.Wait()
		defer srv.Close()
		client := &http.Client{Transport: &http.Transport{DialContext: p.dial, ExpectContinueTimeout: 2 * time.Second}}
		c, err := api.Dial("http://localhost", func() string { return "admin" }, client)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, p, c)
	})
}

// silence speaks to the server and returns how long it takes until the server
// ends the connection, and what it said.
func silence(t *testing.T, p *pipes, say string, then func(net.Conn)) (time.Duration, string) {
	conn, err := p.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		io.WriteString(conn, say) //nolint:errcheck // the server may hang up
		if then != nil {
			then(conn)
		}
	})
	b, _ := io.ReadAll(conn)
	took := time.Since(begun)
	conn.Close() //nolint:errcheck // the other end is what is tested
	wg.Wait()
	return took, string(b)
}

const preamble = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

const upgrade = "GET /v1/exchange/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin\r\nConnection: Upgrade\r\nUpgrade: macbatch-exchange\r\n\r\n"

func TestSlowClientsAreCut(t *testing.T) {
	f := &fake{}
	blob := "PUT " + blobPath + preamble + "Authorization: Bearer admin\r\nContent-Length: 1000000\r\n\r\n"
	drops := func(c net.Conn) {
		for {
			if _, err := c.Write([]byte{1}); err != nil {
				return
			}
			<-time.After(5 * time.Second)
		}
	}
	tests := []struct {
		name, say, answer string
		then              func(net.Conn)
		within            time.Duration
	}{
		{"header without end", "GET /v1/jobs HTTP/1.1\r\nHost: ", "", nil, 10 * time.Second},
		{"nothing at all", "", "", nil, 10 * time.Second},
		{"idle after a request", "GET /healthz" + preamble + "\r\n", "200 OK", nil, 2 * time.Minute},
		{"body withheld without a token", "POST /v1/jobs" + preamble + "Content-Length: 100\r\n\r\n", "401 Unauthorized", nil, 31 * time.Second},
		{"body withheld", "POST /v1/jobs" + preamble + "Authorization: Bearer admin\r\nContent-Length: 100\r\n\r\n{", "400 Bad Request", nil, 61 * time.Second},
		{"blob withheld", blob, "400 Bad Request", nil, 61 * time.Second},
		{"blob by drops", blob, "400 Bad Request", drops, 65 * time.Second},
		{"stream at rest", upgrade, "101 Switching Protocols", nil, 30 * time.Second},
		{"stream with a frame withheld", upgrade + "\x00\x00\x10\x00\x01\x01", "101 Switching Protocols", nil, 31 * time.Second},
		{"stream with a frame begun", upgrade + "\x00", "101 Switching Protocols", nil, 31 * time.Second},
		{"stream with a frame by drops", upgrade + "\x00\x00\x10\x00\x01\x01", "101 Switching Protocols", drops, 65 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, f, func(t *testing.T, p *pipes, _ *api.Client) {
				took, said := silence(t, p, tt.say, tt.then)
				if took > tt.within || took < tt.within/3 && tt.answer != "401 Unauthorized" || !strings.Contains(said, tt.answer) {
					t.Fatalf("cut after %v with %.40q, want %q within %v", took, said, tt.answer, tt.within)
				}
			})
		})
	}
}

// TestLongPoll: a claim may wait longer than any pause within a body.
func TestLongPoll(t *testing.T) {
	f := &fake{}
	bubble(t, f, func(t *testing.T, _ *pipes, c *api.Client) {
		f.wait = make(chan struct{}) // of the bubble
		for range 3 {                // on one connection: no deadline of one request is left to the next
			begun := time.Now()
			time.AfterFunc(50*time.Second, func() { f.wait <- struct{}{} })
			out, err := c.Exchange(t.Context(), lease.Exchange{Hello: worker, Max: 1, Wait: time.Hour})
			if err != nil || len(out.Grants) != 1 || time.Since(begun) != 50*time.Second {
				t.Fatalf("Exchange = %+v, %v after %v", out, err, time.Since(begun))
			}
			if w := f.asked[len(f.asked)-1].(lease.Exchange).Wait; w != lease.MaxWait {
				t.Fatalf("the control plane was asked to wait %v, want %v", w, lease.MaxWait)
			}
		}
	})
}

// TestSlowStore: storing a blob may take longer than any pause within its bytes,
// whatever was asked before on the connection.
func TestSlowStore(t *testing.T) {
	f := &fake{}
	bubble(t, f, func(t *testing.T, _ *pipes, c *api.Client) {
		f.put = func(ctx context.Context, r io.Reader) error {
			if _, err := io.Copy(io.Discard, r); err != nil {
				return err
			}
			if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				return fmt.Errorf("%d more bytes, %w", n, err)
			}
			select {
			case <-time.After(50 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		for range 3 {
			if err := c.PutBlob(t.Context(), upload(abc, 100_000), strings.NewReader(strings.Repeat("a", 100_000))); err != nil {
				t.Fatalf("PutBlob = %v", err)
			}
			<-time.After(50 * time.Second)
		}
	})
}

// TestDeafClient: who asks for a blob and does not read it is cut.
func TestDeafClient(t *testing.T) {
	f := &fake{}
	bubble(t, f, func(t *testing.T, p *pipes, _ *api.Client) {
		closed := make(chan struct{})
		f.blobs = func() (io.ReadCloser, int64, error) {
			return struct {
				io.Reader
				io.Closer
			}{strings.NewReader(strings.Repeat("a", 1<<20)), closerFunc(func() error { close(closed); return nil })}, 1 << 20, nil
		}
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begun := time.Now()
		io.WriteString(conn, "GET "+blobPath+preamble+"Authorization: Bearer admin\r\n\r\n") //nolint:errcheck // the wait would tell
		select {
		case <-closed:
		case <-time.After(10 * time.Minute):
		}
		if took := time.Since(begun); took < 25*time.Second || took > 2*time.Minute {
			t.Fatalf("a client that does not read is kept for %v", took)
		}
	})
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

// TestCallerLeaves: the control plane stops waiting for a caller who has gone.
func TestCallerLeaves(t *testing.T) {
	f := &fake{}
	bubble(t, f, func(t *testing.T, _ *pipes, c *api.Client) {
		f.wait = make(chan struct{}) // of the bubble
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Exchange(ctx, lease.Exchange{Hello: worker, Max: 1, Wait: lease.MaxWait})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrUnreachable) {
			t.Fatalf("Exchange = %v", err)
		}
		synctest.Wait()
		select {
		case f.wait <- struct{}{}:
			t.Fatal("the exchange still waits")
		default:
		}
	})
}

// TestSilentServer: a client's patience ends, sooner or later by what it asked.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				conn, err := p.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer conn.Close()
					r := bufio.NewReader(conn)
					rq, err := http.ReadRequest(r)
					if err == nil && rq.Method == "GET" && strings.Contains(rq.URL.Path, "blobs") {
						io.WriteString(conn, "HTTP/1.1 200 OK\r\nMacbatch-Protocol: 1\r\nContent-Length: 3\r\n\r\na") //nolint:errcheck // a test's
					}
					io.Copy(io.Discard, r) //nolint:errcheck // until the client gives up
				})
			}
		})
		client := &http.Client{Transport: &http.Transport{DialContext: p.dial, ExpectContinueTimeout: 2 * time.Second}}
		c, err := api.Dial("http://localhost", func() string { return "t" }, client)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name string
			want time.Duration
			do   func() error
		}{
			{"Job", 20 * time.Second, func() error { _, err := c.Job(t.Context(), jobID); return err }},
			{"Heartbeat", 20 * time.Second, func() error { _, err := c.Heartbeat(t.Context(), beat); return err }},
			{"asking for a stream", 20 * time.Second, func() error { _, err := c.Exchange(t.Context(), exchange); return err }},
			{"Exchange", 20 * time.Second, func() error { _, err := unstreamed(c).Exchange(t.Context(), exchange); return err }},
			{"Verify", 10 * time.Minute, func() error { _, err := c.Verify(t.Context()); return err }},
			{"PutBlob", 25 * time.Second, func() error { return c.PutBlob(t.Context(), held, strings.NewReader("abc")) }},
			{"Blob", 75 * time.Second, func() error {
				r, _, err := c.Blob(t.Context(), shardID, abc)
				if err != nil {
					return err
				}
				defer r.Close()
				<-time.After(50 * time.Second) // a slow reader is no stall
				_, err = io.ReadAll(r)
				return err
			}},
			{"slow reader", time.Hour, func() error {
				r, _, err := c.Blob(t.Context(), shardID, abc)
				if err != nil {
					return err
				}
				defer r.Close()
				if _, err := r.Read(make([]byte, 1)); err != nil {
					return fmt.Errorf("too soon: %s", err.Error())
				}
				<-time.After(time.Hour - stall)
				_, err = io.ReadAll(r)
				return err
			}},
		} {
			begun := time.Now()
			if err := tt.do(); !errors.Is(err, lease.ErrUnreachable) || errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want ErrUnreachable", tt.name, err)
			}
			if took := time.Since(begun); took < tt.want || took > tt.want+3*time.Second {
				t.Errorf("%s took %v, want %v", tt.name, took, tt.want)
			}
		}
		c.Close()
		p.Close() //nolint:errcheck // the other end is what is tested
		wg.Wait()
	})
}

const stall = 25 * time.Second

// BenchmarkExchange is one exchange of 100 reports and 100 grants, over loopback.
func BenchmarkExchange(b *testing.B) {
	x := lease.Exchange{Hello: worker, Max: 100}
	var out lease.Exchanged
	for i := range 100 {
		id := lease.ShardID{Job: jobID, Seq: uint32(i + 1)}
		result := []byte(`{"items":[{"id":"x","text":"` + strings.Repeat("word ", 30) + `"}]}`)
		x.Reports = append(x.Reports, lease.Report{Shard: id, Fence: 5, Token: strings.Repeat("t", 43), Outcome: lease.OutcomeDone, Digest: lease.DigestOf(result), Bytes: int64(len(result)), Result: result})
		out.Verdicts = append(out.Verdicts, lease.Judgement{Shard: id, Fence: 5, Verdict: lease.Accepted})
		out.Grants = append(out.Grants, lease.Grant{Shard: id, Fence: 6, Token: strings.Repeat("t", 43), Kind: "ocr", Payload: result, Term: lease.Term})
	}
	c := dial(b, serve(b, newHandler(&fake{exchanged: func(lease.Exchange) lease.Exchanged { return out }})), "worker")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Exchange(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}
