package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"macbatch/lease"
	"macbatch/lease/wire"
)

// body has a field of each shape that the protocol uses.
type body struct {
	lease.Hello
	Shard lease.ShardID         `json:"shard,omitzero"`
	Name  string                `json:"name,omitempty"`
	N     int                   `json:"n,omitempty"`
	Big   uint64                `json:"big,omitempty"`
	Wait  time.Duration         `json:"wait_ns,omitempty"`
	Map   map[lease.Kind]int    `json:"map,omitempty"`
	Raw   json.RawMessage       `json:"raw,omitempty"`
	List  []lease.Digest        `json:"list,omitempty"`
	At    time.Time             `json:"at,omitzero"`
	Deep  map[string]*lease.Job `json:"deep,omitempty"`
}

func TestDecodeRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		name, in, where string
	}{
		{"empty", ``, "column 1"},
		{"white space only", "  \n", "column"},
		{"cut", `{"name":"a`, "column"},
		{"trailing value", `{} {}`, "column 4"},
		{"trailing text", `{}x`, "column 3"},
		{"trailing null byte", "{}\x00", "column 3"},
		{"two lines", "{}\n{}", "line 2, column 1"},
		{"duplicate key", `{"name":"a","name":"b"}`, `"/name"`},
		{"duplicate key, escaped", `{"name":"a","n\u0061me":"b"}`, `"/name"`},
		{"duplicate key within a raw value", `{"raw":{"a":1,"a":2}}`, `"/raw/a"`},
		{"duplicate key within a map", `{"map":{"a":1,"a":2}}`, `"/map/a"`},
		{"case variant", `{"Name":"a"}`, `"/Name"`},
		{"case variant beside", `{"name":"a","NAME":"b"}`, `"/NAME"`},
		{"folding letter", "{\"\u017Fhard\":\"htb2k-1/3\"}", "shard"[1:]},
		{"unknown field", `{"nope":1}`, `"/nope"`},
		{"unknown field, nested", `{"offer":{"kinds":[],"x":1}}`, `"/offer/x"`},
		{"embedded type by its name", `{"Hello":{}}`, `"/Hello"`},
		{"invalid UTF-8", "{\"name\":\"a\xff\"}", "UTF-8"},
		{"invalid UTF-8 in a key", "{\"na\xffme\":1}", "UTF-8"},
		{"invalid UTF-8 in a raw value", "{\"raw\":\"\xc0\xaf\"}", "UTF-8"},
		{"overlong UTF-8", "{\"name\":\"\xe0\x80\xaf\"}", "UTF-8"},
		{"surrogate in UTF-8", "{\"name\":\"\xed\xa0\x80\"}", "UTF-8"},
		{"lone high surrogate", `{"name":"\ud800"}`, `"/name"`},
		{"lone low surrogate", `{"name":"\udc00x"}`, `"/name"`},
		{"lone surrogate in a raw value", `{"raw":"\ud800\u0041"}`, `"/raw"`},
		{"control character", "{\"name\":\"a\nb\"}", "column"},
		{"byte order mark", "\ufeff{}", "column 1"},
		{"depth", `{"raw":` + deep(wire.MaxDepth) + `}`, "nested deeper"},
		{"great depth", deep(1 << 20), "nested deeper"},
		{"depth without end", strings.Repeat(`{"raw":`, 1<<18), "nested deeper"},
		{"comment", `{/* */}`, "column"},
		{"single quotes", `{'name':'a'}`, "column"},
		{"trailing comma", `{"name":"a",}`, "column"},
		{"NaN", `{"n":NaN}`, "column"},
		{"leading zero", `{"n":01}`, "column"},
		{"plus", `{"n":+1}`, "column"},
		{"hexadecimal", `{"n":0x10}`, "column"},
		{"number as a string", `{"n":"1"}`, `"/n"`},
		{"fraction for an integer", `{"n":1.0}`, `"/n"`},
		{"exponent for an integer", `{"n":1e2}`, `"/n"`},
		{"overflow", `{"big":18446744073709551616}`, `"/big"`},
		{"negative unsigned", `{"big":-1}`, `"/big"`},
		{"duration as text", `{"wait_ns":"20s"}`, `"/wait_ns"`},
		{"fraction of a nanosecond", `{"wait_ns":1.5}`, `"/wait_ns"`},
		{"id as a number", `{"shard":3}`, `"/shard"`},
		{"id in another spelling", `{"shard":"HTB2K-1/3"}`, `"/shard"`},
		{"id of no shard", `{"shard":"htb2k-1/0"}`, `"/shard"`},
		{"short digest", `{"list":["ab"]}`, `"/list/0"`},
		{"digest as an array", `{"list":[[1,2]]}`, `"/list/0"`},
		{"upper-case digest", `{"list":["` + strings.Repeat("AB", 32) + `"]}`, `"/list/0"`},
		{"array for an object", `[]`, "column 1"},
		{"string for an object", `"{}"`, "column 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := wire.Decode(strings.NewReader(tt.in), 4<<20, new(body))
			if !errors.Is(err, lease.ErrMalformed) {
				t.Fatalf("Decode(%.80q) = %v, want ErrMalformed", tt.in, err)
			}
			if !strings.Contains(err.Error(), tt.where) {
				t.Fatalf("Decode(%.80q) = %v, want it to say %q", tt.in, err, tt.where)
			}
			if strings.Contains(err.Error(), "wire_test") || strings.Contains(err.Error(), "Go ") {
				t.Fatalf("Decode(%.80q) = %v, which speaks of Go types", tt.in, err)
			}
		})
	}
}

func TestDecodeBoundsItsMessage(t *testing.T) {
	for _, in := range []string{
		`{"shard":"` + strings.Repeat("x", 1<<16) + `"}`,
		`{"` + strings.Repeat("y", 1<<16) + `":1}`,
		`{"raw":{"` + strings.Repeat("ü", 1<<16) + `":1,}}`,
	} {
		err := wire.Decode(strings.NewReader(in), 1<<20, new(body))
		if !errors.Is(err, lease.ErrMalformed) || len(err.Error()) > 2000 {
			t.Fatalf("Decode(%.20q…) = an error of %d bytes, %v", in, len(err.Error()), errors.Is(err, lease.ErrMalformed))
		}
	}
}

func TestDecodeLimit(t *testing.T) {
	in := `{"name":"abc"}`
	if err := wire.Decode(strings.NewReader(in), int64(len(in)), new(body)); err != nil {
		t.Fatalf("Decode at the limit = %v", err)
	}
	for _, in := range []string{in, "{}" + strings.Repeat(" ", 12), strings.Repeat("[", 100)} {
		err := wire.Decode(strings.NewReader(in), 13, new(body))
		if !errors.Is(err, lease.ErrTooLarge) {
			t.Fatalf("Decode(%q) over the limit = %v, want ErrTooLarge", in, err)
		}
	}
	cut := errors.New("cut")
	err := wire.Decode(io.MultiReader(strings.NewReader(`{"name"`), iotest.ErrReader(cut)), 100, new(body))
	if !errors.Is(err, cut) || errors.Is(err, lease.ErrMalformed) {
		t.Fatalf("Decode of a cut stream = %v, want the stream's own error", err)
	}
}

func TestDepthAtLimit(t *testing.T) {
	in := `{"raw":` + strings.Repeat("[", wire.MaxDepth-1) + `"[[[\"[\\"` + strings.Repeat("]", wire.MaxDepth-1) + `}`
	if err := wire.Decode(strings.NewReader(in), 1000, new(body)); err != nil {
		t.Fatalf("Decode at depth %d = %v", wire.MaxDepth, err)
	}
}

func TestRoundTrip(t *testing.T) {
	shard := lease.ShardID{Job: 0x1c9c380<<32 | 1, Seq: 3}
	in := body{
		Hello: lease.Hello{Worker: "mac", Incarnation: 1<<63 + 1, Offer: lease.Offer{Kinds: []lease.Kind{"ocr"}}},
		Shard: shard, Name: "<&> \u2028 é\x00", N: -1, Big: 1<<64 - 1, Wait: 20 * time.Second,
		Map: map[lease.Kind]int{"b": 2, "a": 1}, Raw: json.RawMessage(`{"x":"\u0041<\/\u2028","y":1.0E+2,"z":123456789012345678901}`),
		List: []lease.Digest{lease.DigestOf(nil)}, At: time.Unix(1, 5e6).UTC(),
	}
	var b bytes.Buffer
	if err := wire.Encode(&b, in); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"wait_ns":20000000000`, `"map":{"a":1,"b":2}`, string(in.Raw), `"` + shard.String() + `"`, `"kinds":["ocr"]`} {
		if !strings.Contains(b.String(), want) {
			t.Fatalf("Encode = %s, want %s in it", b.String(), want)
		}
	}
	var out body
	if err := wire.Decode(&b, 1<<20, &out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Fatalf("Decode(Encode(x)) = %+v, want %+v", out, in)
	}
}

func TestEncodeLeavesZeroOut(t *testing.T) {
	var b bytes.Buffer
	if err := wire.Encode(&b, lease.Exchange{Hello: lease.Hello{Worker: "w"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), `{"worker":"w","incarnation":0,"offer":{"kinds":[]}}`; got != want {
		t.Fatalf("Encode = %s, want %s", got, want)
	}
}

func TestEncodeRefusesInvalidText(t *testing.T) {
	for _, v := range []body{{Name: "a\xff"}, {Raw: json.RawMessage("{")}, {Raw: json.RawMessage("\"\xff\"")}, {Raw: json.RawMessage(`{"a":1,"a":2}`)}} {
		if err := wire.Encode(io.Discard, v); !errors.Is(err, lease.ErrInvalid) {
			t.Fatalf("Encode(%+v) = %v, want ErrInvalid", v, err)
		}
	}
}

func TestCompact(t *testing.T) {
	for in, want := range map[string]bool{
		`{"a":[1,"b c\" d\\"]}`: true, `{"a": 1}`: false, "[1\n]": false, `"\\" `: false, `" "`: true, ``: true, `"`: true, `"\"`: true,
	} {
		if got := wire.Compact([]byte(in)); got != want {
			t.Fatalf("Compact(%q) = %v, want %v", in, got, want)
		}
	}
}

// FuzzDecode holds the decoder to what it promises: no panic, a known error, and
// for what it accepts that the standard library reads the same value.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"worker":"w","incarnation":1,"offer":{"kinds":["a"]},"reports":[{"shard":"htb2k-1/3","fence":"7","token":"t","outcome":"done","digest":"` +
			strings.Repeat("0", 64) + `","result":{"a":[1]}}],"wait_ns":1,"per_kind":{"a":1}}`,
		`{"reports":[{"result":"\ud800"}]}`, `{"a":1,"A":2}`, `null`, `[[[`, "{\"\xff\":1}", `{"reports":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var got lease.Exchange
		err := wire.Decode(bytes.NewReader(in), 1<<16, &got)
		if err != nil {
			if !errors.Is(err, lease.ErrMalformed) && !errors.Is(err, lease.ErrTooLarge) {
				t.Fatalf("Decode(%q) = %v, want a known error", in, err)
			}
			return
		}
		var std lease.Exchange
		if err := json.Unmarshal(in, &std); err != nil {
			t.Fatalf("Decode(%q) = nil, encoding/json says %v", in, err)
		}
		var a, b bytes.Buffer
		if err := wire.Encode(&a, got); err != nil {
			t.Fatalf("Encode of what was decoded from %q = %v", in, err)
		}
		if err := wire.Encode(&b, std); err != nil || a.String() != b.String() {
			t.Fatalf("Decode(%q) = %s, encoding/json reads %s (%v)", in, a.String(), b.String(), err)
		}
	})
}
