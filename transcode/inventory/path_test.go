package inventory

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestPathText(t *testing.T) {
	for _, c := range []struct {
		path Path
		text string
	}{
		{"a/b.mp4", "a/b.mp4"},
		{"100%done.mp4", "100%done.mp4"},
		{"%41.mp4", "%41.mp4"},
		{"new\nline\\x.mp4", "new\nline\\x.mp4"},
		{"percent:a b/c", "percent:percent%3Aa%20b/c"},
		{"latin1_\xe9 %.mp4", "percent:latin1_%E9%20%25.mp4"},
		{"\xff/\xfe", "percent:%FF/%FE"},
		{"http:example.mp4", "http:example.mp4"},
		{"..a/b..", "..a/b.."},
	} {
		got, err := c.path.MarshalText()
		if err != nil || string(got) != c.text {
			t.Fatalf("MarshalText(%q) = %q, %v, want %q", c.path, got, err, c.text)
		}
		b, err := json.Marshal([]Path{c.path})
		if err != nil {
			t.Fatalf("Marshal(%q): %v", c.path, err)
		}
		var back []Path
		if err := json.Unmarshal(b, &back); err != nil || len(back) != 1 || back[0] != c.path {
			t.Fatalf("Unmarshal(%s) = %q, %v, want %q", b, back, err, c.path)
		}
	}
}

func TestPathRefuses(t *testing.T) {
	for _, s := range []string{
		"", "/", "/etc/passwd", "..", "../a", "a/../b", "a/..", ".", "./a", "a/.", "a//b", "a/", "a\x00b",
		"percent:", "percent:/etc", "percent:%2E%2E/a", "percent:..", "percent:a%00%FF", "percent:%FF%2F%2Fa", "percent:%FF%2F..%2Fa",
		"percent:plain", "percent:%ff", "percent:%F", "percent:%", "percent:%zz", "percent:%FF b", "percent:%FF%41",
		"caf\xe9",
	} {
		var p Path
		if err := p.UnmarshalText([]byte(s)); err == nil {
			t.Fatalf("UnmarshalText(%q) = %q, want an error", s, p)
		}
	}
	if b, err := Path("../x").MarshalText(); err == nil {
		t.Fatalf("MarshalText(../x) = %q, want an error", b)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"a/b", "percent:%FF/x", "a\xff", "percent:..", "%2e%2e/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if b, err := Path(s).MarshalText(); err == nil {
			if !utf8.Valid(b) {
				t.Fatalf("MarshalText(%q) = %q, not UTF-8", s, b)
			}
			var back Path
			if err := back.UnmarshalText(b); err != nil || string(back) != s {
				t.Fatalf("UnmarshalText(%q) = %q, %v, want %q", b, back, err, s)
			}
		}
		var p Path
		if err := p.UnmarshalText([]byte(s)); err == nil {
			if p.Check() != nil {
				t.Fatalf("UnmarshalText(%q) = %q, which leaves the root", s, p)
			}
			if b, err := p.MarshalText(); err != nil || string(b) != s {
				t.Fatalf("MarshalText(%q) = %q, %v, want %q", p, b, err, s)
			}
		}
	})
}
