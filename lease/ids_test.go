package lease_test

import (
	"testing"

	"macbatch/lease"
)

// FuzzIDs: text that is read as an id is exactly what the id writes, so that no
// two texts name one thing; and every id is read again.
func FuzzIDs(f *testing.F) {
	for _, s := range []string{"htb2k-1/3", "htb2k-1", "0-0", "1z141z3-4294967295/4294967295", "htb2k-01/3", "HTB2K-1/3", "-1/1", "1-/1", "18446744073709551615", "ab"} {
		f.Add(s, uint64(1)<<40, uint32(7))
	}
	f.Fuzz(func(t *testing.T, s string, n uint64, seq uint32) {
		if id, err := lease.ParseShardID(s); err == nil && (id.String() != s || id.Seq == 0) {
			t.Fatalf("ParseShardID(%q) = %v", s, id)
		}
		if id, err := lease.ParseJobID(s); err == nil && id.String() != s {
			t.Fatalf("ParseJobID(%q) = %v", s, id)
		}
		if d, err := lease.ParseDigest(s); err == nil && d.String() != s {
			t.Fatalf("ParseDigest(%q) = %v", s, d)
		}
		var fence lease.Fence
		if err := fence.UnmarshalText([]byte(s)); err == nil && fence.String() != s {
			t.Fatalf("fence %q is read as %v", s, fence)
		}
		if err := fence.UnmarshalText([]byte(lease.Fence(n).String())); err != nil || fence != lease.Fence(n) {
			t.Fatalf("fence %d is read as %v, %v", n, fence, err)
		}
		id := lease.ShardID{Job: lease.JobID(n), Seq: max(seq, 1)}
		if got, err := lease.ParseShardID(id.String()); err != nil || got != id {
			t.Fatalf("ParseShardID(%q) = %v, %v", id, got, err)
		}
	})
}
