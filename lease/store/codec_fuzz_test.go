package store

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
)

// What a decoder accepts, it must write and read again as the same; what it does
// not accept it refuses without a panic.

func FuzzShard(f *testing.F) {
	row := &lease.Shard{
		ID: lease.ShardID{Job: 1, Seq: 1}, Next: []uint32{9, 4},
		Spec: lease.Spec{
			Need: lease.Need{Kind: "work", Root: "nas", Model: "m", Tags: "rack=a,zone=b", Bulky: true}, Item: 3, Stage: 1, Opens: 1, Settles: 1, Work: 1 << 40,
			Payload: []byte(`{"a":1}`), Inputs: []lease.Digest{lease.DigestOf([]byte("a"))}, After: []uint32{1, 2}, Reuse: lease.DigestOf([]byte("b")),
		},
		State: lease.Ready, Fence: 1<<32 | 5, Holder: lease.Holder{Worker: "w", Actor: "a", Incarnation: 2, Request: 3},
		Failures: 2, Lapses: 1, Delay: time.Second, Class: lease.Retryable, Reason: "again", Settled: lease.Settled{Fence: 1<<32 | 5, Digest: lease.DigestOf([]byte("c"))},
		Result: lease.Result{Digest: lease.DigestOf([]byte("d")), Bytes: 7, Blob: true, Keeps: []lease.Digest{lease.DigestOf([]byte("e"))}}, From: lease.ShardID{Job: 2, Seq: 3}, Planned: 4, Events: 5, Last: 6,
	}
	f.Add(encodeShard(row))
	f.Add(encodeShard(&lease.Shard{State: lease.Blocked}))
	f.Add(append([]byte{1}, encodeShard(&lease.Shard{State: lease.Done})[1:]...))
	f.Add([]byte{2, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		id := lease.ShardID{Job: 7, Seq: 8}
		s, err := decodeShard(id, b)
		if err != nil {
			if s != nil || !strings.Contains(err.Error(), "damaged") {
				t.Fatalf("decodeShard(%x) = %+v, %v", b, s, err)
			}
			return
		}
		again, err := decodeShard(id, encodeShard(s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("decodeShard(%x)\n= %+v, written and read again\n= %+v, %v", b, s, again, err)
		}
	})
}

func FuzzJob(f *testing.F) {
	j := &jobRow{Job: lease.Job{
		ID: 7, Project: "p", Kind: "k", Params: []byte(`{}`), Priority: -3, Key: "key", Actor: "a", Submitted: time.UnixMilli(1_700_000_000_000).UTC(),
		Canceled: true, Reason: "enough", Shards: lease.Counts{Ready: 2, Done: 3}, Items: lease.Progress{Total: 5, Done: 3}, Work: lease.Progress{Total: 9}, Events: 2, Last: 8,
	}, NextSeq: 6}
	row, _ := encodeJob(j)
	f.Add(row)
	row, _ = encodeJob(&jobRow{Job: lease.Job{ID: 7}})
	f.Add(row)
	f.Fuzz(func(t *testing.T, b []byte) {
		// With a sum of its own: else hardly any input would get past it.
		if len(b) > 8 {
			e := encoder{b[: len(b)-8 : len(b)-8]}
			e.fixed64(sum(jobKey(keyJob, 7), e.b))
			b = e.b
		}
		j, fixed, err := decodeJob(7, b)
		if err != nil {
			return
		}
		if fixed <= 0 || fixed > len(b) {
			t.Fatalf("decodeJob(%x): the part that its own events sum ends at %d", b, fixed)
		}
		row, _ := encodeJob(j)
		again, _, err := decodeJob(7, row)
		j.former = false // it is written in this version's form
		if err != nil || !reflect.DeepEqual(again, j) {
			t.Fatalf("decodeJob(%x)\n= %+v, written and read again\n= %+v, %v", b, j, again, err)
		}
	})
}

func FuzzRecord(f *testing.F) {
	var e encoder
	for i, k := range lease.EventKinds {
		encodeEvent(&e, &lease.Event{
			Job: 1, Shard: uint32(i), N: 1, Prev: 2, At: time.UnixMilli(1_700_000_000_000).UTC(), Kind: k, Actor: "a", Worker: "w", Fence: 3,
			Class: lease.Permanent, Reason: "r", Digest: lease.DigestOf([]byte("d")), From: lease.ShardID{Job: 4, Seq: 5}, Count: i%2 == 0, Sum: 6,
		})
	}
	f.Add(e.b)
	f.Add(e.b[:len(e.b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := decodeRecord(1, b)
		if err != nil {
			if len(events) != 0 {
				t.Fatalf("decodeRecord(%x) gave events and %v", b, err)
			}
			return
		}
		var e encoder
		for i := range events {
			if events[i].Seq != uint64(1+i) {
				t.Fatalf("event %d has sequence %d", i, events[i].Seq)
			}
			encodeEvent(&e, &events[i])
		}
		again, err := decodeRecord(1, e.b)
		if err != nil || !reflect.DeepEqual(again, events) {
			t.Fatalf("decodeRecord(%x)\n= %+v, written and read again\n= %+v, %v", b, events, again, err)
		}
	})
}

func FuzzHead(f *testing.F) {
	f.Add(encodeHead(&head{Seq: 1 << 40, Chain: lease.DigestOf([]byte("a")), Commits: 2, Epoch: 3, Fence: 4, Job: 5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 8 {
			e := encoder{b[: len(b)-8 : len(b)-8]}
			e.fixed64(sum([]byte{keyHead}, e.b))
			b = e.b
		}
		h, err := decodeHead(b)
		if err != nil {
			return
		}
		if again, err := decodeHead(encodeHead(&h)); err != nil || again != h {
			t.Fatalf("decodeHead(%x) = %+v, written and read again = %+v, %v", b, h, again, err)
		}
	})
}
