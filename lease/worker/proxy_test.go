package worker_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The directions of a link through a proxy.
const (
	up   = iota // to the control plane
	down        // to the worker
)

// cut ends a link when part of a tenth of something passed.
type cut struct {
	dir    int
	blob   bool // of a blob's bytes; else of what an exchange says
	tenths int
}

// proxy stands between workers and a control plane, and does what networks do.
type proxy struct {
	t    *testing.T
	l    net.Listener
	to   string
	done sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	cuts   []cut         // to be made, each once
	whole  [2]bool       // whether the last blob in this direction came through
	lose   int           // answers to exchanges to be lost
	gate   chan struct{} // nothing passes until it is closed; nil: all does
	slow   time.Duration // that each piece takes
	counts map[string]int
}

// link is a connection of a worker, and the one of ours that goes with it.
type link struct {
	p    *proxy
	ends [2]net.Conn // up: ours to the control plane; down: the worker's
	gone chan struct{}
	once sync.Once

	// Guarded by proxy.mu.
	streams bool     // it is a stream of exchanges
	asked   []string // methods and paths of requests whose answers are to come
	pieces  [2]int   // of a stream that passed
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		for _, c := range l.ends {
			c.Close() //nolint:errcheck // cut
		}
		l.p.mu.Lock()
		delete(l.p.links, l)
		l.p.mu.Unlock()
	})
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, l: l, to: to, links: map[*link]bool{}, counts: map[string]int{}, whole: [2]bool{true, true}}
	p.done.Go(p.serve)
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			in.Close() //nolint:errcheck // nobody is there
			continue
		}
		l := &link{p: p, ends: [2]net.Conn{out, in}, gone: make(chan struct{})}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		for dir := range l.ends {
			p.done.Go(func() {
				defer l.close()
				l.pass(dir)
			})
		}
	}
}

// end cuts all.
func (p *proxy) end() {
	p.l.Close() //nolint:errcheck // of a test
	p.drop()
	p.done.Wait()
}

// drop cuts all links there are.
func (p *proxy) drop() (n int) {
	p.mu.Lock()
	list := make([]*link, 0, len(p.links))
	for l := range p.links {
		list = append(list, l)
	}
	p.mu.Unlock()
	for _, l := range list {
		l.close()
	}
	return len(list)
}

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// part lets nothing through. What is on its way arrives at heal, unless the links
// are cut before.
func (p *proxy) part() {
	p.set(func() { p.gate = make(chan struct{}) })
}

func (p *proxy) heal() {
	p.set(func() {
		close(p.gate)
		p.gate = nil
	})
}

// pass copies bytes in one direction until the link ends, message by message.
func (l *link) pass(dir int) {
	buf, r := make([]byte, 16<<10), &reading{link: l, dir: dir, limit: -1}
	from, to := l.ends[1-dir], l.ends[dir]
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.send(r, buf[:n], to) {
			return
		}
		if err != nil {
			return
		}
	}
}

// send passes a piece on, as far as it may. It is false when the link is to end.
func (l *link) send(r *reading, b []byte, to io.Writer) bool {
	l.p.mu.Lock()
	gate, slow := l.p.gate, l.p.slow
	l.p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-l.gone:
			return false
		}
	}
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-l.gone:
			return false
		}
	}
	l.p.mu.Lock()
	n, on := r.judge(b)
	l.p.mu.Unlock()
	if _, err := to.Write(b[:n]); err != nil {
		return false
	}
	return on
}

// reading follows the messages of one direction.
type reading struct {
	*link
	dir   int
	head  []byte // of a message, as far as it was read
	body  int64  // bytes that are still to come
	blob  bool   // they are a blob's
	limit int64  // of them: more do not pass; -1: all do
	last  bool   // the link ends behind them
}

// judge tells how much of a piece passes, and whether the link goes on behind it.
// The caller holds proxy.mu.
func (r *reading) judge(b []byte) (n int, on bool) {
	for n < len(b) {
		switch {
		case r.streams:
			return r.piece(b, n)
		case r.body > 0:
			k := int(min(r.body, int64(len(b)-n)))
			if r.limit >= 0 && int64(k) >= r.limit {
				return n + int(r.limit), false
			}
			if r.limit >= 0 {
				r.limit -= int64(k)
			}
			if n, r.body = n+k, r.body-int64(k); r.body == 0 {
				if r.blob {
					r.p.whole[r.dir] = true
				}
				if r.last {
					return n, false
				}
			}
		default:
			before := len(r.head)
			r.head = append(r.head, b[n:]...)
			end := bytes.Index(r.head, []byte("\r\n\r\n"))
			if end < 0 {
				return len(b), true
			}
			n += end + 4 - before
			r.begin(string(r.head[:end]))
			r.head = nil
			if r.body > 0 && r.limit == 0 {
				return n, false
			}
		}
	}
	return n, true
}

// begin takes in the head of a message.
func (r *reading) begin(head string) {
	line, rest, _ := strings.Cut(head, "\r\n")
	length := int64(0)
	for field := range strings.SplitSeq(rest, "\r\n") {
		if name, value, _ := strings.Cut(field, ":"); strings.EqualFold(name, "Content-Length") {
			length, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	request := line
	if r.dir == up {
		r.asked = append(r.asked, line)
	} else {
		if strings.Contains(line, " 100 ") || len(r.asked) == 0 {
			return
		}
		request, r.asked = r.asked[0], r.asked[1:]
		if strings.Contains(line, " 101 ") {
			r.streams = true
			return
		}
	}
	r.body, r.limit, r.last = length, -1, false
	r.blob = strings.Contains(request, "/blobs/") && length > 1000 && strings.HasPrefix(request, []string{up: "PUT", down: "GET"}[r.dir])
	if !r.blob || !r.p.whole[r.dir] { // one that is cut comes through the next time
		return
	}
	if c, ok := r.p.next(r.dir, true); ok {
		r.p.whole[r.dir] = false
		r.limit, r.last = length*int64(c.tenths)/10, c.tenths == 10
		if r.last {
			r.limit = -1
		}
	}
}

// piece is judge of what a stream says, once it was there for a while.
func (r *reading) piece(b []byte, n int) (int, bool) {
	r.pieces[r.dir]++
	if r.pieces[r.dir] < 3 {
		return len(b), true
	}
	if r.dir == down && r.p.lose > 0 {
		r.p.lose--
		r.p.counts["answer lost"]++
		return n, false
	}
	if c, ok := r.p.next(r.dir, false); ok {
		return n + (len(b)-n)*c.tenths/10, false
	}
	return len(b), true
}

// next takes a cut of those to be made.
func (p *proxy) next(dir int, blob bool) (cut, bool) {
	for i, c := range p.cuts {
		if c.dir == dir && c.blob == blob {
			p.counts["cut"]++
			p.cuts = append(p.cuts[:i:i], p.cuts[i+1:]...)
			return c, true
		}
	}
	return cut{}, false
}

// TestProxy: the proxy passes on what it is given, and cuts where it is told to.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c) // as far as it came
			_, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
			c.Close() //nolint:errcheck // of a test
			got <- len(body)
		}
	})
	p := newProxy(t, l.Addr().String())
	for tenths := range 11 {
		p.set(func() { p.whole[up], p.cuts = true, []cut{{up, true, tenths}} })
		c, err := net.Dial("tcp", p.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "PUT /blobs/x HTTP/1.1\r\ncontent-length: 100000\r\n\r\n"+strings.Repeat("x", 100000)) //nolint:errcheck // it is cut
		if n := <-got; n != 10000*tenths {
			t.Errorf("cut at %d tenths: %d bytes came", tenths, n)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
			t.Errorf("cut at %d tenths: Read = %v, want the end", tenths, err)
		}
		c.Close() //nolint:errcheck // of a test
	}
	p.end()
	l.Close() //nolint:errcheck // of a test
	group.Wait()
}
