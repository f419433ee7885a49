package wire

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// good is what the whole decoder says.
func good(v []byte, limit int) bool {
	return tooDeep(v, limit) < 0 && jsontext.Value(v).IsValid() && Compact(v)
}

var jsonSeeds = []string{
	`{"task":"x","n":[1,-2.5e+3,0,true,false,null,""],"o":{"a":{},"b":[]}}`, `{"a":1,"a":2}`, `{"a":{"a":1},"b":[{"a":2},{"a":3}]}`,
	`"é\n\"\\"`, `"\u0041"`, `{"\u0061":1,"a":2}`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{,}`, `[}`, `{]`, `01`, `-`, `1.`, `1e`, `.5`, `+1`, `tru`,
	`[1 ,2]`, ` 1`, `1 `, ``, `""x`, "\"\x1f\"", "\"\xff\"", "\"\xed\xa0\x80\"", "{\"\xff\":1}", `"\ud800"`, `"\x"`, `"\`, `"`, `[[[[]]]]`, `{"a":[{"b":{"c":[1]}}]}`,
	strings.Repeat("[", 17) + strings.Repeat("]", 17), strings.Repeat("[", 70) + strings.Repeat("]", 70), "1\x00", `[1][2]`, `{"a":1}}`, `[1]]`,
}

func TestPlain(t *testing.T) {
	passed := 0
	for _, s := range jsonSeeds {
		for _, limit := range []int{1, 3, MaxDepth} {
			if plain([]byte(s), limit) {
				passed++
				if !good([]byte(s), limit) {
					t.Errorf("plain(%q, %d) = true, the decoder refuses it", s, limit)
				}
			}
			if bad := badJSON([]byte(s), MaxDepth-limit) != ""; bad == good([]byte(s), limit) {
				t.Errorf("badJSON(%q) within %d = %v, the decoder says otherwise", s, limit, bad)
			}
		}
	}
	if !plain([]byte(jsonSeeds[0]), MaxDepth) || !plain([]byte(jsonSeeds[2]), MaxDepth) || !plain([]byte(jsonSeeds[3]), MaxDepth) {
		t.Errorf("plain leaves the usual to the decoder")
	}
}

// FuzzPlain: what passes quickly passes the whole decoder too.
func FuzzPlain(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s), 64)
		f.Add([]byte(s), 2)
	}
	f.Fuzz(func(t *testing.T, v []byte, limit int) {
		limit = min(max(limit, 0), MaxDepth)
		if plain(v, limit) && !good(v, limit) {
			t.Fatalf("plain(%q, %d) = true, the decoder refuses it", v, limit)
		}
	})
}
