package api_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
	"macbatch/lease/wire"
)

// counted tells how many requests of a kind a handler got.
type counted struct {
	http.Handler
	upgrades, posts atomic.Int32
	strip           bool // as a proxy that does not know upgrades
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		c.posts.Add(1)
	}
	if r.Header.Get("Upgrade") != "" {
		c.upgrades.Add(1)
	}
	if c.strip {
		r.Header.Del("Upgrade")
		r.Header.Set("Connection", "close")
	}
	c.Handler.ServeHTTP(w, r)
}

// echo answers a claim with its number, so that answers can't be mistaken.
func echo(x lease.Exchange) lease.Exchanged { return lease.Exchanged{Mark: lease.Mark{Seq: x.Request}} }

func claimed(ctx context.Context, c lease.Control, n uint64) error {
	out, err := c.Exchange(ctx, lease.Exchange{Hello: worker, Request: n, Max: 1})
	if err == nil && out.Mark.Seq != n {
		err = fmt.Errorf("claim %d was answered with %d", n, out.Mark.Seq)
	}
	return err
}

// TestStreamIsKept: exchanges share a stream, also behind a refusal; one that its
// caller left in the middle is not used again.
func TestStreamIsKept(t *testing.T) {
	f := &fake{exchanged: echo}
	h := &counted{Handler: newHandler(f)}
	c := dial(t, serve(t, h), "worker")
	for n := range uint64(20) {
		if err := claimed(t.Context(), c, n+1); err != nil {
			t.Fatal(err)
		}
	}
	f.err = fmt.Errorf("no: %w", lease.ErrInvalid)
	if err := claimed(t.Context(), c, 21); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("Exchange = %v, want ErrInvalid", err)
	}
	f.err = nil
	if _, err := c.Exchange(t.Context(), lease.Exchange{Reports: []lease.Report{{Shard: shardID, Reason: "\xff"}}}); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("Exchange of bad text = %v, want ErrInvalid", err)
	}
	if err := claimed(t.Context(), c, 22); err != nil {
		t.Fatal(err)
	}
	if n := h.upgrades.Load(); n != 1 || h.posts.Load() != 0 {
		t.Fatalf("22 exchanges took %d streams and %d requests, want one stream", n, h.posts.Load())
	}

	f.wait = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- claimed(ctx, c, 23) }()
	f.wait <- struct{}{} // that one is answered: who leaves behind it does no harm
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	go func() { left <- claimed(ctx, c, 24) }()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("Exchange canceled = %v", err)
	}
	close(f.wait)
	var group sync.WaitGroup
	for i := range uint64(8) {
		group.Go(func() {
			for n := range uint64(50) {
				if err := claimed(t.Context(), c, 100*i+n+25); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := h.upgrades.Load(); n > 10 {
		t.Fatalf("8 callers took %d streams", n)
	}
}

// TestStreamOfAServerThatWas: a stream that ended while it rested costs nobody an
// error.
func TestStreamOfAServerThatWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		c := must(api.Dial("http://localhost", func() string { return "worker" }, &http.Client{Transport: &http.Transport{DialContext: p.dial}}))
		defer c.Close()
		for n := range uint64(3) {
			h := &counted{Handler: newHandler(&fake{exchanged: echo})}
			srv := api.NewServer(h, nil)
			p.done, p.once = make(chan struct{}), sync.Once{}
			var done sync.WaitGroup
			done.Go(func() { srv.Serve(p) }) //nolint:errcheck // that it was closed
			for range 2 {
				if err := claimed(t.Context(), c, n+1); err != nil {
					t.Fatalf("Exchange with server %d = %v", n, err)
				}
				<-time.After(time.Second) // it is looked at, and is good
			}
			if h.upgrades.Load() != 1 {
				t.Fatalf("2 exchanges took %d streams", h.upgrades.Load())
			}
			if err := srv.Close(); err != nil {
				t.Fatal(err)
			}
			done.Wait()
		}
	})
}

// TestStreamWhereThereIsNone: a proxy that lets only requests through costs one
// question a minute.
func TestStreamWhereThereIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		h := &counted{Handler: newHandler(&fake{exchanged: echo}), strip: true}
		srv := api.NewServer(h, nil)
		var done sync.WaitGroup
		done.Go(func() { srv.Serve(p) }) //nolint:errcheck // that it was closed
		defer done.Wait()
		defer srv.Close()
		c := must(api.Dial("http://localhost", func() string { return "worker" }, &http.Client{Transport: &http.Transport{DialContext: p.dial}}))
		defer c.Close()
		for n := range uint64(5) {
			if err := claimed(t.Context(), c, n+1); err != nil {
				t.Fatal(err)
			}
		}
		if h.upgrades.Load() != 1 || h.posts.Load() != 5 {
			t.Fatalf("5 exchanges took %d questions and %d requests", h.upgrades.Load(), h.posts.Load())
		}
		<-time.After(61 * time.Second)
		h.strip = false
		if err := claimed(t.Context(), c, 6); err != nil || h.upgrades.Load() != 2 || h.posts.Load() != 5 {
			t.Fatalf("a minute later: %v, %d questions, %d requests", err, h.upgrades.Load(), h.posts.Load())
		}
	})
}

// mute is a server that grants streams and then does what it is told with them.
func mute(t *testing.T, with func(net.Conn, *bufio.Reader), test func(*api.Client)) {
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
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nMacbatch-Protocol: 1\r\nConnection: Upgrade\r\nUpgrade: macbatch-exchange\r\n\r\n") //nolint:errcheck // a test's
				if _, _, err := wire.ReadFrame(r, api.MaxBody, func(r io.Reader) io.Reader { return r }); err == nil {
					with(conn, r)
				}
			})
		}
	})
	c := must(api.Dial("http://localhost", func() string { return "t" }, &http.Client{Transport: &http.Transport{DialContext: p.dial}}))
	test(c)
	c.Close()
	p.Close() //nolint:errcheck // the other end is what is tested
	wg.Wait()
}

// TestStreamPatience: silence on a stream ends it within 30 s, whatever was asked;
// signs that the answer is being made prolong that, but not for ever.
func TestStreamPatience(t *testing.T) {
	for _, tt := range []struct {
		name string
		want time.Duration
		with func(net.Conn, *bufio.Reader)
	}{
		{"silence", 30 * time.Second, func(_ net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) }}, //nolint:errcheck // until the client gives up
		{"signs", 65 * time.Second, func(conn net.Conn, _ *bufio.Reader) {
			for {
				if _, err := conn.Write(wire.EndFrame(wire.BeginFrame(nil, wire.FramePatience))); err != nil {
					return
				}
				<-time.After(10 * time.Second)
			}
		}},
		{"half an answer", 30 * time.Second, func(conn net.Conn, r *bufio.Reader) {
			conn.Write([]byte("\x00\x00\x10\x00\x02\x01")) //nolint:errcheck // a test's
			io.Copy(io.Discard, r)                         //nolint:errcheck // likewise
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mute(t, tt.with, func(c *api.Client) {
					begun := time.Now()
					_, err := c.Exchange(t.Context(), exchange)
					if took := time.Since(begun); !errors.Is(err, lease.ErrUnreachable) || took < tt.want || took > tt.want+time.Second {
						t.Fatalf("Exchange = %v after %v, want ErrUnreachable after %v", err, took, tt.want)
					}
				})
			})
		})
	}
}

// TestStreamCutAnswers: half an answer is none, wherever it is cut, and neither is
// one that cannot be read.
func TestStreamCutAnswers(t *testing.T) {
	out := must((&fake{}).Exchange(t.Context(), exchange))
	whole := wire.EndFrame(wire.AppendExchanged(wire.BeginFrame(nil, wire.FrameExchanged), &out))
	answers := []string{
		"\x00\x00\x00\x01\x02", "\x00\x00\x00\x01\x01", "\x00\x00\x00\x02\x03x", "\x00\x00\x00\x03\x04\x01\x94", "\xff\xff\xff\xff\x02", "HTTP/1.1 200 OK\r\n\r\n",
		string(wire.EndFrame(wire.AppendExchanged(wire.BeginFrame(nil, wire.FrameExchanged), &lease.Exchanged{}))), // no verdicts
	}
	for n := range whole {
		answers = append(answers, string(whole[:n]))
	}
	synctest.Test(t, func(t *testing.T) {
		var i atomic.Int32
		mute(t, func(conn net.Conn, _ *bufio.Reader) {
			io.WriteString(conn, answers[i.Load()]) //nolint:errcheck // a test's
		}, func(c *api.Client) {
			for n := range answers {
				i.Store(int32(n))
				if got, err := c.Exchange(t.Context(), exchange); !errors.Is(err, lease.ErrUnreachable) {
					t.Fatalf("an exchange answered with %q = %+v, %v; want ErrUnreachable", answers[n], got, err)
				}
			}
		})
	})
}

// upgraded opens a stream by hand.
func upgraded(t *testing.T, url, token string) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // it may be closed
	return conn, granted(t, conn, token)
}

// granted asks for a stream on a connection.
func granted(t *testing.T, conn net.Conn, token string) *bufio.Reader {
	io.WriteString(conn, strings.Replace(upgrade, "Bearer admin", "Bearer "+token, 1)) //nolint:errcheck // the answer tells
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("a stream was answered with %s", resp.Status)
	}
	return r
}

// TestStreamBadFrames: what is no exchange is told so and ends the stream; what
// does not come whole is not asked.
func TestStreamBadFrames(t *testing.T) {
	f := &fake{}
	url := serve(t, newHandler(f))
	x := must(wire.AppendExchange(nil, &exchange))
	over := binary.BigEndian.AppendUint32(nil, api.MaxBody+2)
	tests := map[string]struct {
		say  string
		want error // nil: nothing is said
	}{
		"no frame":       {"\x00\x00\x00\x00\x01", lease.ErrMalformed},
		"HTTP":           {"POST /v1/exchange HTTP/1.1\r\n", lease.ErrMalformed},
		"another kind":   {string(wire.EndFrame(append(wire.BeginFrame(nil, wire.FrameExchanged), x...))), lease.ErrMalformed},
		"no exchange":    {string(wire.EndFrame(append(wire.BeginFrame(nil, wire.FrameExchange), "{}"...))), lease.ErrMalformed},
		"bytes too many": {string(wire.EndFrame(append(append(wire.BeginFrame(nil, wire.FrameExchange), x...), 0))), lease.ErrMalformed},
		"over the limit": {string(over) + "\x01", lease.ErrTooLarge},
	}
	whole := wire.EndFrame(append(wire.BeginFrame(nil, wire.FrameExchange), x...))
	for n := range whole {
		tests[fmt.Sprintf("cut at %d", n)] = struct {
			say  string
			want error
		}{string(whole[:n]), nil}
	}
	for name, tt := range tests {
		conn, r := upgraded(t, url, "worker")
		io.WriteString(conn, tt.say)     //nolint:errcheck // the answer tells
		conn.(*net.TCPConn).CloseWrite() //nolint:errcheck // likewise
		k, body, err := wire.ReadFrame(r, 1<<20, func(r io.Reader) io.Reader { return r })
		switch {
		case tt.want == nil && err == nil:
			t.Fatalf("%s: answered with %d %q", name, k, body)
		case tt.want == nil:
		case err != nil || k != wire.FrameEnd || !errors.Is(wire.ReadErrorFrame(body), tt.want):
			t.Fatalf("%s: answered with %d %q, %v; want the end with %v", name, k, body, err, tt.want)
		}
		if b, _ := io.ReadAll(r); len(b) > 0 {
			t.Fatalf("%s: the stream goes on with %q", name, b)
		}
		conn.Close() //nolint:errcheck // done with it
	}
	if len(f.asked) > 0 {
		t.Fatalf("the control plane was asked for %v", f.asked)
	}
}

// TestStreamRights: a stream gives no right that its actor has lost, nor to its
// token what has another one now; a claim that waits learns it too.
func TestStreamRights(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	url := serve(t, api.NewHandler(api.Options{Authenticate: f.Authenticate, Control: f.As}))
	ctl := f.Near()
	add := func(id lease.ActorID) *api.Client {
		token, hash := store.NewToken(id)
		if err := ctl.AddActor(t.Context(), lease.Actor{ID: id, Role: lease.WorkerRole, Projects: []lease.Project{lease.DefaultProject}}, hash); err != nil {
			t.Fatal(err)
		}
		return dial(t, url, token)
	}
	ask := func(c *api.Client, id lease.WorkerID, n uint64, wait time.Duration) error {
		_, err := c.Exchange(t.Context(), lease.Exchange{Hello: lease.Hello{Worker: id, Incarnation: 1}, Request: n, Max: 1, Wait: wait})
		return err
	}
	for name, end := range map[lease.ActorID]func() error{
		"revoked": func() error { return ctl.RevokeActor(t.Context(), "revoked") },
		"rotated": func() error { return ctl.RotateActor(t.Context(), "rotated", lease.Digest{1}, 0) },
	} {
		c := add(name)
		if err := ask(c, lease.WorkerID(name), 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(2) {
			if err := ask(c, lease.WorkerID(name), n+2, 0); !errors.Is(err, lease.ErrUnauthorized) {
				t.Fatalf("%s: Exchange = %v, want ErrUnauthorized", name, err)
			}
		}
	}
}

// TestStreamsEndWithTheServer: Shutdown waits for the answer under way, and ends
// what rests; Close cuts both. Either returns when no stream is left.
func TestStreamsEndWithTheServer(t *testing.T) {
	for _, how := range []string{"Shutdown", "Close"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				f := &fake{wait: make(chan struct{})}
				srv := api.NewServer(newHandler(f), nil)
				var done sync.WaitGroup
				done.Go(func() { srv.Serve(p) }) //nolint:errcheck // that it was closed
				c := must(api.Dial("http://localhost", func() string { return "worker" }, &http.Client{Transport: &http.Transport{DialContext: p.dial}}))
				defer c.Close()
				answers := make(chan error, 2)
				for range 2 {
					go func() {
						_, err := c.Exchange(t.Context(), lease.Exchange{Hello: worker, Max: 1, Wait: lease.MaxWait})
						answers <- err
					}()
				}
				f.wait <- struct{}{}
				if err := <-answers; err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // one stream rests, the other waits
				begun := time.Now()
				if how == "Close" {
					if err := srv.Close(); err != nil {
						t.Fatal(err)
					}
					if err := <-answers; !errors.Is(err, lease.ErrUnreachable) {
						t.Fatalf("Exchange on a closed server = %v, want ErrUnreachable", err)
					}
				} else {
					time.AfterFunc(5*time.Second, func() { f.wait <- struct{}{} })
					if err := srv.Shutdown(t.Context()); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begun); took < 5*time.Second || took > 6*time.Second {
						t.Fatalf("Shutdown took %v, while an answer took 5 s", took)
					}
					if err := <-answers; err != nil {
						t.Fatalf("Exchange under way at Shutdown = %v", err)
					}
				}
				if err := claimed(t.Context(), c, 1); !errors.Is(err, lease.ErrUnreachable) {
					t.Fatalf("Exchange behind %s = %v, want ErrUnreachable", how, err)
				}
				done.Wait()
			})
		})
	}
}

// TestStreamPanic ends the stream, not the server, and tells nothing.
func TestStreamPanic(t *testing.T) {
	f := &fake{exchanged: func(x lease.Exchange) lease.Exchanged {
		if x.Request == 1 {
			panic("kaboom")
		}
		return echo(x)
	}}
	c := dial(t, serve(t, newHandler(f)), "worker")
	if err := claimed(t.Context(), c, 1); !errors.Is(err, lease.ErrUnknownOutcome) || strings.Contains(err.Error(), "kaboom") {
		t.Fatalf("Exchange that panics = %v, want ErrUnknownOutcome", err)
	}
	if err := claimed(t.Context(), c, 2); err != nil {
		t.Fatal(err)
	}
}

// TestDeafStream: who sends exchanges and reads no answer is cut.
func TestDeafStream(t *testing.T) {
	f := &fake{}
	bubble(t, f, func(t *testing.T, p *pipes, _ *api.Client) {
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		granted(t, conn, "worker")
		x := must(wire.AppendExchange(nil, &exchange))
		conn.Write(wire.EndFrame(append(wire.BeginFrame(nil, wire.FrameExchange), x...))) //nolint:errcheck // a test's
		begun := time.Now()
		if _, err := conn.Write(make([]byte, 1<<20)); err == nil {
			t.Fatal("frames are taken while answers are not")
		}
		if took := time.Since(begun); took > 2*time.Minute {
			t.Fatalf("a client that does not read is kept for %v", took)
		}
	})
}

// TestSlowFrame: one that comes slowly, but not too slowly, is waited for.
func TestSlowFrame(t *testing.T) {
	f := &fake{exchanged: echo}
	bubble(t, f, func(t *testing.T, p *pipes, _ *api.Client) {
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r := granted(t, conn, "worker")
		x := lease.Exchange{Hello: worker, Request: 7, Reports: []lease.Report{{Shard: shardID, Result: []byte(`"` + strings.Repeat("a", 1<<20) + `"`)}}}
		b := wire.EndFrame(must(wire.AppendExchange(wire.BeginFrame(nil, wire.FrameExchange), &x)))
		for piece := range slices.Chunk(b, 20<<10) {
			if _, err := conn.Write(piece); err != nil {
				t.Fatalf("a slow frame is cut: %v", err)
			}
			<-time.After(time.Second)
		}
		if k, _, err := wire.ReadFrame(r, 1<<20, func(r io.Reader) io.Reader { return r }); err != nil || k != wire.FrameExchanged || len(f.asked) != 1 {
			t.Fatalf("a slow frame is answered with kind %d, %v", k, err)
		}
	})
}
