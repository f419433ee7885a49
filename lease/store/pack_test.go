package store

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"macbatch/lease"
)

// pack cuts an input in pages of n shards, each page by a packer of its own.
func pack(t *testing.T, p lease.Packing, input []byte, n int) (all lease.Plan) {
	t.Helper()
	for at := (place{}); ; {
		k := newPacker(p, iotest.OneByteReader(bytes.NewReader(input[at.offset:])), at)
		plan, err := k.page(n)
		if err != nil {
			t.Fatal(err)
		}
		if all, at = append(all, plan...), k.at; len(plan) == 0 {
			return all
		}
	}
}

// TestPack: however an input is cut into pages, its shards follow each other
// without a gap, hold whole lines within the limits, and no line more would fit.
func TestPack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		var input []byte
		var ends []int64 // of lines
		for range 1 + rnd.IntN(40) {
			input = append(input, strings.Repeat("x", 1+rnd.IntN(30))+"\n"...)
			ends = append(ends, int64(len(input)))
		}
		p := lease.Packing{Items: 1 + rnd.IntN(6), Bytes: int64(1 + rnd.IntN(80)), Line: 40, Need: lease.Need{Kind: "k"}}
		all := pack(t, p, input, 1+rnd.IntN(5))
		at, item := int64(0), uint32(0)
		for i, sp := range all {
			r := sp.Range
			last := int(item + sp.Opens - 1)
			switch {
			case r.From != at || sp.Item != item || sp.Opens == 0 || sp.Settles != sp.Opens || sp.Work != uint64(sp.Opens) || sp.Need != p.Need:
				t.Fatalf("seed %d: shard %d is %+v, want it from byte %d and item %d on", seed, i, sp, at, item)
			case last >= len(ends) || r.To != ends[last] || r.Digest != lease.DigestOf(input[r.From:r.To]):
				t.Fatalf("seed %d: shard %d %+v does not hold its %d lines", seed, i, r, sp.Opens)
			case int(sp.Opens) > p.Items || sp.Opens > 1 && r.To-r.From > p.Bytes:
				t.Fatalf("seed %d: shard %d %+v of %d items is over %+v", seed, i, r, sp.Opens, p)
			case last+1 < len(ends) && int(sp.Opens) < p.Items && ends[last+1]-r.From <= p.Bytes:
				t.Fatalf("seed %d: shard %d %+v of %d items has room for one more under %+v", seed, i, r, sp.Opens, p)
			}
			at, item = r.To, item+sp.Opens
		}
		if at != int64(len(input)) || int(item) != len(ends) {
			t.Fatalf("seed %d: the shards end at byte %d of %d, item %d of %d", seed, at, len(input), item, len(ends))
		}
		k := newPacker(p, bytes.NewReader(input), place{})
		if n, err := k.rest(); err != nil || n != len(all) {
			t.Fatalf("seed %d: a look counts %d shards, %v, want %d", seed, n, err, len(all))
		}
	}
}

// TestPackLongLines: lines longer than the reader's buffer are whole, up to the limit.
func TestPackLongLines(t *testing.T) {
	long := strings.Repeat("y", 700_000) + "\n"
	input := []byte("a\n" + long + "b\n" + long)
	p := lease.Packing{Items: 2, Bytes: 1000, Line: int64(len(long))}
	var got []int64
	for _, sp := range pack(t, p, input, 1) {
		got = append(got, sp.Range.To)
	}
	if want := []int64{2, 700_003, 700_005, 1_400_006}; !slices.Equal(got, want) {
		t.Fatalf("shards end at %v, want %v", got, want)
	}
	p.Line--
	if _, err := newPacker(p, bytes.NewReader(input), place{}).rest(); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Fatalf("a line one byte over the limit: %v", err)
	}
	if _, err := newPacker(p, iotest.ErrReader(io.ErrClosedPipe), place{}).page(1); !strings.Contains(err.Error(), errUnread.Error()) {
		t.Fatalf("a reader that fails: %v, want %v", err, errUnread)
	}
}

func FuzzPack(f *testing.F) {
	f.Add([]byte("a\nbb\n"), 1, int64(3))
	f.Add([]byte("\n"), 2, int64(1))
	f.Add([]byte("a"), 2, int64(1))
	f.Fuzz(func(t *testing.T, input []byte, items int, size int64) {
		p := lease.Packing{Items: max(items, 1), Bytes: max(size, 1), Line: 100}
		k := newPacker(p, bytes.NewReader(input), place{})
		n, err := k.rest()
		if err != nil {
			return
		}
		if at := k.at; at.offset != int64(len(input)) || int(at.item) != bytes.Count(input, []byte("\n")) {
			t.Fatalf("%d shards up to %+v of %d bytes", n, at, len(input))
		}
	})
}
