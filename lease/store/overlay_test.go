package store

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"macbatch/lease"
)

// An overlay holds what a map of its keys would, gives it out once each, and
// shards in the order of their keys; whatever it held before it was cleared.
func TestOverlay(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	o := newOverlay()
	for range 50 {
		o.clear()
		want := map[string]string{}
		for i := range 400 {
			id := lease.ShardID{Job: lease.JobID(random.Uint64() >> (8 * random.IntN(8))), Seq: random.Uint32() >> (8 * random.IntN(4))}
			key := shardKey([]byte{keyShard, keyValue, keyPlan}[random.IntN(3)], id)
			if random.IntN(4) == 0 {
				key = key[:9]
			}
			if len(want) > 0 && random.IntN(3) == 0 {
				for k := range want {
					key = []byte(k)
				}
			}
			value := fmt.Appendf(nil, "%d", i)
			if random.IntN(5) == 0 {
				value = nil
			}
			o.put(key, value)
			want[string(key)] = string(value)
			if v, ok := o.get(key); !ok || !bytes.Equal(v, value) {
				t.Fatalf("get(%x) = %q, %t, want %q", key, v, ok, value)
			}
		}
		if o.len() != len(want) {
			t.Fatalf("%d keys, want %d", o.len(), len(want))
		}
		var rows, others []string
		keys := &arena{}
		err := o.each(keys, func(k, v []byte) error {
			if w, ok := want[string(k)]; !ok || w != string(v) {
				t.Fatalf("key %x: value %q, want %q, %t", k, v, w, ok)
			}
			if len(k) == shardKeyBytes {
				rows = append(rows, string(k))
			} else {
				others = append(others, string(k))
			}
			return nil
		})
		if err != nil || len(rows)+len(others) != len(want) {
			t.Fatalf("gave %d and %d keys, %v, want %d", len(rows), len(others), err, len(want))
		}
		for _, l := range [][]string{rows, others} {
			if !slices.IsSortedFunc(l, cmp.Compare[string]) {
				t.Fatalf("keys not in order: %x", l)
			}
		}
	}
}

// Values of an arena keep what they hold until it is cleared, also those that
// outgrew their room or a chunk.
func TestArena(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var a arena
	for range 20 {
		a.clear()
		var got, want [][]byte
		for i := range 4000 {
			n := random.IntN(1000)
			if i%500 == 0 {
				n = chunkBytes + random.IntN(1000)
			}
			b := bytes.Repeat([]byte{byte(i)}, n)
			guess := max(0, n+random.IntN(40)-5)
			got, want = append(got, a.take(append(a.room(guess), b...))), append(want, b)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("value %d changed", i)
			}
			_ = append(got[i], 0xff) // must not reach the next one
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("value %d changed by another", i)
			}
		}
		if size := len(a.chunks); size < maxChunks {
			t.Fatalf("only %d chunks: the test is too small", size)
		}
	}
}
