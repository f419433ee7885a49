package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var instant = time.Date(2026, 10, 8, 22, 13, 14, 123456789, time.UTC)

func sample() Entry {
	return Entry{
		Shard: "7f3/12",
		Fence: 42949672961,
		Body:  []byte("{\"text\":\"héllo\"}\n\x00\xff"),
		Blobs: []Blob{
			{strings.Repeat("0a", 32), 0},
			{strings.Repeat("f9", 32), 1 << 40},
		},
	}
}

func TestEntryGolden(t *testing.T) {
	file, digest := encode(sample())
	const golden = "testdata/v1.entry"
	if *update {
		if err := os.WriteFile(golden, file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, want) {
		t.Fatalf("encode = %q, want %q", file, want)
	}
	e, err := decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(e, sample()) {
		t.Fatalf("decode = %+v, want %+v", e, sample())
	}
	n := nameOf(e.Shard, e.Fence, instant, digest)
	if want := Name("20261008T221314.123456789Z-7f3_12-42949672961-" + digest[:8]); n != want || !n.valid() {
		t.Fatalf("nameOf = %q (valid %v), want %q", n, n.valid(), want)
	}
	if !n.Time().Equal(instant) {
		t.Fatalf("Time = %v, want %v", n.Time(), instant)
	}
}

// Every single damaged bit, cut and added byte is noticed.
func TestEntryDamage(t *testing.T) {
	file, _ := encode(sample())
	for i := range file {
		for bit := range 8 {
			bad := bytes.Clone(file)
			bad[i] ^= 1 << bit
			if _, err := decode(bad); !errors.Is(err, ErrDamaged) {
				t.Fatalf("bit %d of byte %d flipped: error %v, want ErrDamaged", bit, i, err)
			}
		}
		if _, err := decode(file[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: error %v, want ErrDamaged", i, err)
		}
		zeros := bytes.Clone(file)
		clear(zeros[i:]) // what some file systems leave of a torn write
		if _, err := decode(zeros); !errors.Is(err, ErrDamaged) {
			t.Fatalf("zeros from %d: error %v, want ErrDamaged", i, err)
		}
	}
	if _, err := decode(append(bytes.Clone(file), 0)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("a byte more: error %v, want ErrDamaged", err)
	}
}

// signed returns a file whose digest is right whatever the rest says.
func signed(line1, rest string) []byte {
	sum := sha256.Sum256([]byte(line1 + "\n" + rest))
	return []byte(line1 + "\nsha256 " + hex.EncodeToString(sum[:]) + "\n" + rest)
}

func TestEntrySpelling(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	for _, c := range []struct {
		line1, rest string
		want        error
	}{
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nbody 2\nhi", nil},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nblob " + digest + " 5\nbody 0\n", nil},
		{"macbatch spool entry 2", "anything", ErrVersion},
		{"macbatch spool entry 01", "shard \"a\"\nfence 1\nbody 2\nhi", ErrVersion},
		{"something else", "shard \"a\"\nfence 1\nbody 2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 01\nbody 2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"\\x61\"\nfence 1\nbody 2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard `a`\nfence 1\nbody 2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence -1\nbody 2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nbody 3\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nbody 1\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nbody +2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nbody -1\nhi", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nblob ../../x 5\nbody 0\n", ErrDamaged},
		{"macbatch spool entry 1", "shard \"a\"\nfence 1\nblob " + digest + " 05\nbody 0\n", ErrDamaged},
		{"macbatch spool entry 1", "fence 1\nshard \"a\"\nbody 2\nhi", ErrDamaged},
		{"macbatch spool entry 1", "", ErrDamaged},
	} {
		if _, err := decode(signed(c.line1, c.rest)); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Fatalf("decode(%q, %q) = %v, want %v", c.line1, c.rest, err, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	digest := strings.Repeat("12", 32)
	var names []Name
	for i := range 50 {
		names = append(names, nameOf(fmt.Sprintf("s%d", 50-i), 1, instant.Add(time.Duration(i)*time.Nanosecond), digest))
	}
	if !slices.IsSorted(names) {
		t.Fatalf("names don't sort by time: %v", names)
	}
	for _, shard := range []string{"../../etc/passwd", "a\x00b\n", strings.Repeat("x", 5000), "-", "ünï/çode", ".hidden", "\xff\xfe"} {
		n := nameOf(shard, 1<<64-1, instant, digest)
		if !n.valid() || strings.ContainsAny(string(n), "/\x00\n") || len(n) > 200 {
			t.Fatalf("nameOf(%q) = %q, valid %v", shard, n, n.valid())
		}
	}
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Unix(1<<40, 0)} {
		if n := nameOf("s", 1, at, digest); !n.valid() {
			t.Fatalf("nameOf at %v = %q, not valid", at, n)
		}
	}
	good := nameOf("s", 1, instant, digest)
	for _, n := range []Name{"", ".", "..", "x", ".DS_Store", "../" + good, good + ".reason", good + "/", "._" + good} {
		if n.valid() {
			t.Fatalf("%q is valid", n)
		}
	}
}

func FuzzDecode(f *testing.F) {
	file, _ := encode(sample())
	f.Add(file)
	f.Add(signed("macbatch spool entry 1", "shard \"a\"\nfence 1\nbody 2\nhi"))
	f.Add([]byte("macbatch spool entry 1\nsha256 "))
	f.Fuzz(func(t *testing.T, b []byte) {
		// As it is, and with its digest made right, so that the rest is reached.
		line1, rest, _ := bytes.Cut(b, []byte{'\n'})
		for _, file := range [][]byte{b, signed(string(line1), string(rest))} {
			_, _ = blobsOf(bytes.NewReader(file))
			e, err := decode(file)
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
					t.Fatalf("decode = %v, want ErrDamaged or ErrVersion", err)
				}
				continue
			}
			if again, _ := encode(e); !bytes.Equal(again, file) {
				t.Fatalf("encode(decode(%q)) = %q", file, again)
			}
		}
	})
}
