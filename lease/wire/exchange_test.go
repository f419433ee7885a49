package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// fill gives every field of v a value of its own, so that one that gets lost shows.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Interface().(type) {
	case lease.Digest:
		v.Set(reflect.ValueOf(lease.DigestOf([]byte{byte(*n)})))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(strings.Repeat("[", int(*n%9)) + "7" + strings.Repeat("]", int(*n%9)))))
		return
	}
	switch v.Kind() { //nolint:exhaustive // the rest are signed numbers
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(k, n)
			fill(e, n)
			v.SetMapIndex(k, e)
		}
	case reflect.String:
		v.SetString("text " + strings.Repeat("é", int(*n%200)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(math.MaxUint64 - *n)
	case reflect.Uint32:
		v.SetUint(math.MaxUint32 - *n)
	default:
		v.SetInt(math.MinInt64 + int64(*n))
	}
}

// TestExchangeKeepsEveryField fails when a field is added to an exchange and not
// to its compact form.
func TestExchangeKeepsEveryField(t *testing.T) {
	var x, gotX lease.Exchange
	var y, gotY lease.Exchanged
	n := uint64(0)
	fill(reflect.ValueOf(&x).Elem(), &n)
	fill(reflect.ValueOf(&y).Elem(), &n)
	for _, g := range y.Grants {
		for i := range g.Needs {
			g.Needs[i].Maker, g.Needs[i].Keeps = lease.Maker{}, nil // they are not told with a grant
		}
	}
	b, err := wire.AppendExchange(nil, &x)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.ReadExchange(bytes.NewReader(b), 1<<20, &gotX); err != nil || !reflect.DeepEqual(gotX, x) {
		t.Fatalf("ReadExchange = %+v, %v; want %+v", gotX, err, x)
	}
	if err := wire.ReadExchanged(bytes.NewReader(wire.AppendExchanged(nil, &y)), 1<<20, &gotY); err != nil || !reflect.DeepEqual(gotY, y) {
		t.Fatalf("ReadExchanged = %+v, %v; want %+v", gotY, err, y)
	}
	// Every shorter body, and one byte more, is refused.
	for i := range b {
		if err := wire.ReadExchange(bytes.NewReader(b[:i]), 1<<20, new(lease.Exchange)); !errors.Is(err, lease.ErrMalformed) {
			t.Fatalf("ReadExchange of %d bytes of %d = %v, want ErrMalformed", i, len(b), err)
		}
	}
	if err := wire.ReadExchange(bytes.NewReader(append(b, 0)), 1<<20, new(lease.Exchange)); !errors.Is(err, lease.ErrMalformed) {
		t.Fatalf("ReadExchange of a byte more = %v, want ErrMalformed", err)
	}
	if err := wire.ReadExchange(bytes.NewReader(b), int64(len(b))-1, new(lease.Exchange)); !errors.Is(err, lease.ErrTooLarge) {
		t.Fatalf("ReadExchange over the limit = %v, want ErrTooLarge", err)
	}
	if err := wire.ReadExchange(bytes.NewReader(b), int64(len(b)), new(lease.Exchange)); err != nil {
		t.Fatalf("ReadExchange at the limit = %v", err)
	}
}

// results are as strict in the compact form as in JSON.
func TestExchangeResults(t *testing.T) {
	shard := lease.ShardID{Job: 1, Seq: 1}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, result := range []string{
		`{"a":1,"a":2}`, `{`, "\"\xff\"", `"\ud800"`, `[1] `, `{"a": 1}`, `1 2`, `01`, `nul`, deep(wire.MaxDepth + 1), "\x00",
	} {
		x := lease.Exchange{Reports: []lease.Report{{Shard: shard, Result: json.RawMessage(result)}}}
		if _, err := wire.AppendExchange(nil, &x); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("AppendExchange with the result %.20q = %v, want ErrInvalid", result, err)
		}
		x.Reports[0].Result = json.RawMessage(`"` + strings.Repeat("x", max(len(result)-2, 0)) + `"`)
		if len(result) == 1 {
			x.Reports[0].Result = json.RawMessage("1")
		}
		b, err := wire.AppendExchange(nil, &x)
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Replace(b, x.Reports[0].Result, []byte(result), 1)
		if err := wire.ReadExchange(bytes.NewReader(b), 1<<20, new(lease.Exchange)); !errors.Is(err, lease.ErrMalformed) {
			t.Errorf("ReadExchange with the result %.20q = %v, want ErrMalformed", result, err)
		}
	}
	for _, x := range []lease.Exchange{{Hello: lease.Hello{Worker: "a\xff"}}, {Releases: []lease.Give{{Shard: shard, Reason: "\xff"}}}} {
		if _, err := wire.AppendExchange(nil, &x); !errors.Is(err, lease.ErrInvalid) {
			t.Errorf("AppendExchange(%+v) = %v, want ErrInvalid", x, err)
		}
	}
	x := lease.Exchange{Reports: []lease.Report{{Result: json.RawMessage(`1`)}}}
	b, err := wire.AppendExchange(nil, &x)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.ReadExchange(bytes.NewReader(b), 1<<20, &x); !errors.Is(err, lease.ErrMalformed) {
		t.Errorf("ReadExchange of a report on no shard = %v, want ErrMalformed", err)
	}
	y := lease.Exchanged{Verdicts: []lease.Judgement{{Shard: shard, Reason: "a\xffb"}}}
	if err := wire.ReadExchanged(bytes.NewReader(wire.AppendExchanged(nil, &y)), 1<<20, &y); err != nil || y.Verdicts[0].Reason != "a\uFFFDb" {
		t.Errorf("ReadExchanged = %+v, %v; want the odd byte replaced", y, err)
	}
}

// FuzzExchange holds the compact reader to one form for each value, and to what
// JSON says of it.
func FuzzExchange(f *testing.F) {
	x, y := batch(2)
	x.PerKind, x.Wait, x.Job = map[lease.Kind]int{"a": 1, "b": 2}, time.Second, 7
	b, err := wire.AppendExchange(nil, &x)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(wire.AppendExchanged(nil, &y))
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		var x lease.Exchange
		switch err := wire.ReadExchange(bytes.NewReader(in), 1<<16, &x); {
		case err == nil:
			out, err := wire.AppendExchange(nil, &x)
			if err != nil || !bytes.Equal(out, in) {
				t.Fatalf("AppendExchange(ReadExchange(%q)) = %q, %v", in, out, err)
			}
			var buf bytes.Buffer
			var again lease.Exchange
			if err := wire.Encode(&buf, x); err != nil {
				t.Fatalf("Encode(%+v) = %v", x, err)
			}
			if err := wire.Decode(&buf, 1<<20, &again); err != nil {
				t.Fatalf("Decode of what the compact form says, %+v: %v", x, err)
			}
			if x.Offer.Kinds == nil {
				again.Offer.Kinds = nil // JSON has no null here
			}
			if !reflect.DeepEqual(x, again) {
				t.Fatalf("the compact form says %+v, JSON %+v", x, again)
			}
		case !errors.Is(err, lease.ErrMalformed) && !errors.Is(err, lease.ErrTooLarge):
			t.Fatalf("ReadExchange(%q) = %v, want a known error", in, err)
		}
		var y lease.Exchanged
		if err := wire.ReadExchanged(bytes.NewReader(in), 1<<16, &y); err == nil {
			if out := wire.AppendExchanged(nil, &y); !bytes.Equal(out, in) {
				t.Fatalf("AppendExchanged(ReadExchanged(%q)) = %q", in, out)
			}
		} else if !errors.Is(err, lease.ErrMalformed) && !errors.Is(err, lease.ErrTooLarge) {
			t.Fatalf("ReadExchanged(%q) = %v, want a known error", in, err)
		}
	})
}
