package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

func batch(n int) (lease.Exchange, lease.Exchanged) {
	x := lease.Exchange{Hello: lease.Hello{Worker: "mac", Incarnation: 7, Offer: lease.Offer{Kinds: []lease.Kind{"ocr"}}}, Request: 9, Max: n}
	var y lease.Exchanged
	for i := range n {
		id := lease.ShardID{Job: 0x1c9c380<<32 | 1, Seq: uint32(i + 1)}
		result := json.RawMessage(fmt.Sprintf(`{"items":[{"id":"item-%d","text":%q}]}`, i, bytes.Repeat([]byte("word "), 30)))
		x.Reports = append(x.Reports, lease.Report{Shard: id, Fence: 1<<40 | 5, Token: "0123456789abcdef0123456789abcdef", Outcome: lease.OutcomeDone, Digest: lease.DigestOf(result), Bytes: int64(len(result)), Result: result})
		y.Verdicts = append(y.Verdicts, lease.Judgement{Shard: id, Fence: 1<<40 | 5, Verdict: lease.Accepted})
		y.Grants = append(y.Grants, lease.Grant{Shard: id, Fence: 1<<40 | 6, Token: "0123456789abcdef0123456789abcdef", Kind: "ocr", Payload: result, Work: 1, Term: 90 * time.Second})
	}
	return x, y
}

// BenchmarkExchange is the JSON of one exchange of 100 reports and 100 grants,
// both ways and at both ends.
func BenchmarkExchange(b *testing.B) {
	x, y := batch(100)
	run := func(b *testing.B, encode func(io.Writer, any) error, decode func(io.Reader, any) error) {
		b.ReportAllocs()
		for b.Loop() {
			var buf bytes.Buffer
			if err := encode(&buf, x); err != nil {
				b.Fatal(err)
			}
			n := buf.Len()
			if err := decode(&buf, new(lease.Exchange)); err != nil {
				b.Fatal(err)
			}
			buf.Reset()
			if err := encode(&buf, y); err != nil {
				b.Fatal(err)
			}
			n += buf.Len()
			if err := decode(&buf, new(lease.Exchanged)); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(n))
		}
	}
	b.Run("wire", func(b *testing.B) {
		run(b, wire.Encode, func(r io.Reader, v any) error { return wire.Decode(r, 1<<20, v) })
	})
	b.Run("compact", func(b *testing.B) {
		run(b, func(w io.Writer, v any) error {
			var out []byte
			var err error
			switch v := v.(type) {
			case lease.Exchange:
				out, err = wire.AppendExchange(nil, &v)
			case lease.Exchanged:
				out = wire.AppendExchanged(nil, &v)
			}
			if err == nil {
				_, err = w.Write(out)
			}
			return err
		}, func(r io.Reader, v any) error {
			if x, ok := v.(*lease.Exchange); ok {
				return wire.ReadExchange(r, 1<<20, x)
			}
			return wire.ReadExchanged(r, 1<<20, v.(*lease.Exchanged))
		})
	})
	b.Run("std", func(b *testing.B) {
		run(b, func(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) },
			func(r io.Reader, v any) error { return json.NewDecoder(r).Decode(v) })
	})
}
