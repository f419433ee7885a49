package wire

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"macbatch/lease"
)

// ExchangeType is the media type of the compact form of lease.Exchange and
// lease.Exchanged. It says what their JSON says, in a fraction of the time.
const ExchangeType = "application/vnd.macbatch.exchange"

// exchangeForm begins every compact body.
const exchangeForm = 1

// AppendExchange appends the compact form of x. ErrInvalid tells of text that is
// not valid UTF-8, and of results that Encode would refuse or not write as they
// stand.
func AppendExchange(b []byte, x *lease.Exchange) ([]byte, error) {
	size := 256
	for i := range x.Reports {
		r := &x.Reports[i]
		size += 80 + len(r.Token) + len(r.Reason) + len(r.Result) + len(lease.Digest{})*len(r.Blobs)
	}
	e := writer{b: slices.Grow(b, size), strict: true}
	e.byte(exchangeForm)
	e.text(string(x.Worker))
	e.uint(x.Incarnation)
	e.text(x.Host)
	e.text(x.Machine)
	e.text(x.Version)
	list(&e, x.Offer.Kinds, func(k lease.Kind) { e.text(string(k)) })
	list(&e, x.Offer.Roots, e.text)
	list(&e, x.Offer.Models, e.text)
	list(&e, x.Offer.Labels, e.text)
	e.mark(x.Mark)
	e.uint(x.Request)
	list(&e, x.Reports, e.report)
	list(&e, x.Releases, func(g lease.Give) {
		e.shard(g.Shard)
		e.uint(uint64(g.Fence))
		e.text(g.Reason)
		e.uint(uint64(g.Cost))
		e.uint(uint64(g.Delay))
	})
	e.uint(uint64(x.Max))
	list(&e, slices.Sorted(maps.Keys(x.PerKind)), func(k lease.Kind) {
		e.text(string(k))
		e.uint(uint64(x.PerKind[k]))
	})
	e.job(x.Job)
	list(&e, x.Loaded, e.text)
	list(&e, x.Paces, func(p lease.Pace) {
		e.text(string(p.Kind))
		e.text(p.Model)
		e.uint(uint64(p.Thousand))
		e.uint(uint64(p.Slots))
	})
	e.uint(uint64(x.Extra))
	e.uint(uint64(x.Ahead))
	e.uint(uint64(x.Held))
	e.uint(uint64(x.Wait))
	if e.fault != "" {
		return nil, fmt.Errorf("write exchange: %s: %w", e.fault, lease.ErrInvalid)
	}
	return e.b, nil
}

func (e *writer) mark(m lease.Mark) {
	e.bool(m != lease.Mark{})
	if m != (lease.Mark{}) {
		e.text(string(m.Store))
		e.uint(uint64(m.Epoch))
		e.uint(m.Seq)
		e.text(m.Proof)
	}
}

func (d *parser) mark() (m lease.Mark) {
	if d.bool() {
		m = lease.Mark{Store: lease.StoreID(d.text()), Epoch: d.uint32(), Seq: d.uint(), Proof: d.text()}
		if m == (lease.Mark{}) {
			d.fail("an empty mark")
		}
	}
	return m
}

func (e *writer) report(r lease.Report) {
	e.shard(r.Shard)
	e.uint(uint64(r.Fence))
	e.text(r.Token)
	e.text(string(r.Outcome))
	e.digest(r.Digest)
	e.text(string(r.Class))
	e.text(r.Reason)
	e.uint(uint64(r.Bytes))
	e.json(r.Result)
	e.uint(uint64(r.Cost))
	list(e, r.Blobs, e.digest)
}

// ReadExchange is Decode of a compact body.
func ReadExchange(r io.Reader, limit int64, x *lease.Exchange) error {
	b, err := readCompact(r, limit)
	if err != nil {
		return err
	}
	return ParseExchange(b, x)
}

// ParseExchange is ReadExchange of a body that is here. What it returns refers to b.
func ParseExchange(b []byte, x *lease.Exchange) error {
	return parseCompact(b, func(d *parser) {
		x.Worker, x.Incarnation = lease.WorkerID(d.text()), d.uint()
		x.Host, x.Machine, x.Version = d.text(), d.text(), d.text()
		x.Offer.Kinds = many(d, 1, func() lease.Kind { return lease.Kind(d.text()) })
		x.Offer.Roots = many(d, 1, d.text)
		x.Offer.Models = many(d, 1, d.text)
		x.Offer.Labels = many(d, 1, d.text)
		x.Mark = d.mark()
		x.Request = d.uint()
		x.Reports = many(d, 50, d.report)
		x.Releases = many(d, 12, func() lease.Give {
			return lease.Give{Shard: d.shard(), Fence: lease.Fence(d.uint()), Reason: d.text(), Cost: lease.Cost(d.uint()), Delay: time.Duration(d.uint())}
		})
		x.Max = int(d.uint())
		last := lease.Kind("")
		for n := d.count(2); n > 0 && d.fault == ""; n-- {
			k := lease.Kind(d.text())
			if x.PerKind == nil {
				x.PerKind = map[lease.Kind]int{}
			} else if k <= last {
				d.fail("kinds out of order")
			}
			x.PerKind[k], last = int(d.uint()), k
		}
		x.Job = d.job()
		x.Loaded = many(d, 1, d.text)
		x.Paces = many(d, 4, func() lease.Pace {
			return lease.Pace{Kind: lease.Kind(d.name()), Model: d.text(), Thousand: time.Duration(d.uint()), Slots: int(d.uint())}
		})
		x.Extra, x.Ahead, x.Held = int(d.uint()), time.Duration(d.uint()), time.Duration(d.uint())
		x.Wait = time.Duration(d.uint())
	})
}

func (d *parser) report() (r lease.Report) {
	r.Shard, r.Fence, r.Token = d.shard(), lease.Fence(d.uint()), d.text()
	r.Outcome, r.Digest = lease.Outcome(d.name()), d.digest()
	r.Class, r.Reason = lease.FailureClass(d.name()), d.text()
	r.Bytes, r.Result, r.Cost = int64(d.uint()), d.json(3), lease.Cost(d.uint())
	r.Blobs = many(d, 32, d.digest)
	return r
}

// AppendExchanged appends the compact form of y. Like WriteJSON it replaces
// invalid UTF-8.
func AppendExchanged(b []byte, y *lease.Exchanged) []byte {
	size := 64
	for i := range y.Verdicts {
		size += 48 + len(y.Verdicts[i].Reason) + len(lease.Digest{})*len(y.Verdicts[i].Missing)
	}
	for i := range y.Grants {
		g := &y.Grants[i]
		size += 80 + len(g.Token) + len(g.Kind) + len(g.Payload)
		for k := range g.Needs {
			size += 64 + len(g.Needs[k].Inline)
		}
	}
	e := writer{b: slices.Grow(b, size)}
	e.byte(exchangeForm)
	list(&e, y.Verdicts, func(v lease.Judgement) {
		e.shard(v.Shard)
		e.uint(uint64(v.Fence))
		e.text(string(v.Verdict))
		e.text(v.Reason)
		list(&e, v.Missing, e.digest)
	})
	list(&e, y.Grants, e.grant)
	e.bool(y.More)
	e.mark(y.Mark)
	return e.b
}

func (e *writer) grant(g lease.Grant) {
	e.shard(g.Shard)
	e.uint(uint64(g.Fence))
	e.text(g.Token)
	e.text(string(g.Kind))
	e.text(g.Model)
	e.json(g.Payload)
	e.bool(g.Lines != nil)
	if l := g.Lines; l != nil {
		e.digest(l.Input)
		e.uint(uint64(l.From))
		e.uint(uint64(l.To))
		e.digest(l.Range.Digest)
		e.uint(uint64(l.First))
		e.uint(uint64(l.Items))
	}
	e.uint(g.Work)
	list(e, g.Needs, func(r lease.Result) {
		e.digest(r.Digest)
		e.uint(uint64(r.Bytes))
		e.bool(r.Blob)
		e.uint(uint64(r.Failed))
		e.json(r.Inline)
	})
	e.bool(g.Capped)
	e.bool(g.Resend)
	e.uint(uint64(g.Term))
}

// WriteExchanged answers a request with the compact form of y.
func WriteExchanged(w http.ResponseWriter, y *lease.Exchanged) {
	writeBody(w, http.StatusOK, ExchangeType, AppendExchanged(nil, y))
}

// ReadExchanged is Decode of a compact answer.
func ReadExchanged(r io.Reader, limit int64, y *lease.Exchanged) error {
	b, err := readCompact(r, limit)
	if err != nil {
		return err
	}
	return ParseExchanged(b, y)
}

// ParseExchanged is ReadExchanged of a body that is here. What it returns refers to b.
func ParseExchanged(b []byte, y *lease.Exchanged) error {
	return parseCompact(b, func(d *parser) {
		y.Verdicts = many(d, 13, func() lease.Judgement {
			return lease.Judgement{
				Shard: d.shard(), Fence: lease.Fence(d.uint()), Verdict: lease.Verdict(d.name()), Reason: d.text(),
				Missing: many(d, 32, d.digest),
			}
		})
		y.Grants = many(d, 18, d.grant)
		y.More, y.Mark = d.bool(), d.mark()
	})
}

func (d *parser) grant() (g lease.Grant) {
	g.Shard, g.Fence, g.Token = d.shard(), lease.Fence(d.uint()), d.text()
	g.Kind, g.Model, g.Payload = lease.Kind(d.name()), d.text(), d.json(3)
	if d.bool() {
		g.Lines = &lease.Lines{
			Input: d.digest(), Range: lease.Range{From: int64(d.uint()), To: int64(d.uint()), Digest: d.digest()},
			First: d.uint32(), Items: d.uint32(),
		}
	}
	g.Work = d.uint()
	g.Needs = many(d, 36, func() lease.Result {
		return lease.Result{Digest: d.digest(), Bytes: int64(d.uint()), Blob: d.bool(), Failed: d.uint32(), Inline: d.json(5)}
	})
	g.Capped, g.Resend, g.Term = d.bool(), d.bool(), time.Duration(d.uint())
	return g
}

// readCompact reads a whole compact body.
func readCompact(r io.Reader, limit int64) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, 2<<10))
	if _, err := buf.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, fmt.Errorf("read exchange: %w", err)
	}
	if int64(buf.Len()) > limit {
		return nil, fmt.Errorf("read exchange: over %d bytes: %w", limit, lease.ErrTooLarge)
	}
	return buf.Bytes(), nil
}

// parseCompact parses a whole compact body. What is parsed refers to its bytes.
func parseCompact(b []byte, parse func(*parser)) error {
	d := parser{all: len(b), b: b}
	if d.byte() != exchangeForm {
		d.fail("another form than 1")
	}
	parse(&d)
	if d.fault == "" && len(d.b) > 0 {
		d.fail("bytes left over")
	}
	if d.fault != "" {
		return fmt.Errorf("read exchange: %s at offset %d: %w", d.fault, d.at, lease.ErrMalformed)
	}
	return nil
}
