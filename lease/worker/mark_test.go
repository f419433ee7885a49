package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

// Where another store answers, running work goes on, and its report waits for the
// store that granted the lease, whatever the other says.
func TestForeignStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Minute))
		r.mark = lease.Mark{Store: "a", Epoch: 1, Seq: 1, Proof: "p"}
		first := r.add("k", 1)
		r.start()
		pass(5 * time.Second)
		shards, order := r.shards, r.order
		r.set(func() {
			r.mark.Store, r.shards, r.order = "b", map[lease.ShardID]*lease.Shard{}, nil
			r.verdict = func(lease.Report) *lease.Judgement { return &lease.Judgement{Verdict: lease.Stale} }
		})
		pass(2 * time.Minute)
		if n := r.waiting(); n != 1 {
			t.Fatalf("%d entries wait after the work ended under another store, want 1", n)
		}
		r.set(func() {
			if r.fence++; r.step(shards[first], lease.Expire{Fence: r.fence}) == nil {
				t.Error("the first store lost the lease")
			}
			r.mark.Store, r.shards, r.order, r.verdict = "a", shards, order, nil
		})
		pass(11 * time.Minute)
		if s := r.state(first); s.State != lease.Done || r.waiting() != 0 {
			t.Fatalf("the shard is %v, %d entries wait, want it done and none", s.State, r.waiting())
		}
		r.stop()
	})
}

// Deliver heeds it too, and a later worker of the same folder.
func TestForeignStoreDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		for _, by := range []lease.StoreID{"a", "b", ""} {
			rep := r.leased()
			b, err := json.Marshal(body{rep, by})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.sp.Add(rep.Shard.String(), uint64(rep.Fence), time.Now(), b, nil); err != nil {
				t.Fatal(err)
			}
		}
		r.mark.Store = "b"
		got, err := deliver(t, r)
		if want := (Tally{Accepted: 2, Foreign: 1, Left: 1}); err != nil || got != want {
			t.Fatalf("Deliver = %+v, %v, want %+v", got, err, want)
		}
		r.mark.Store = "a"
		got, err = deliver(t, r)
		if want := (Tally{Duplicate: 1}); err != nil || got != want {
			t.Fatalf("Deliver to the store that granted it = %+v, %v, want %+v", got, err, want)
		}
	})
}

// The highest mark is shown, by the next run as well.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		r.cfg.Marks = filepath.Join(t.TempDir(), "marks.json")
		high := lease.Mark{Store: "a", Epoch: 2, Seq: 7, Proof: "p"}
		r.mark = high
		r.start()
		pass(lease.Heartbeat + time.Second)
		r.stop()
		r.set(func() { r.mark.Epoch, r.mark.Seq, r.xs, r.beats = 1, 9, nil, nil })
		r.cfg.Incarnation++
		r.start()
		pass(5 * lease.Heartbeat)
		r.set(func() {
			if len(r.xs) == 0 || len(r.beats) == 0 {
				t.Fatalf("%d exchanges, %d heartbeats", len(r.xs), len(r.beats))
			}
			for _, x := range r.xs {
				if x.Mark != high {
					t.Fatalf("exchange shows %+v, want %+v", x.Mark, high)
				}
			}
			for _, b := range r.beats {
				if b.Mark != high {
					t.Fatalf("heartbeat shows %+v, want %+v", b.Mark, high)
				}
			}
			r.mark, r.xs = lease.Mark{Store: "b", Epoch: 1, Seq: 1, Proof: "q"}, nil
		})
		pass(2 * lease.MaxWait)
		r.set(func() {
			if x := r.xs[len(r.xs)-1]; x.Mark != r.mark {
				t.Fatalf("exchange shows %+v to another store, want its own %+v", x.Mark, r.mark)
			}
		})
		r.stop()
		m, err := openMarks(r.cfg.Marks)
		if err != nil || !slices.Equal(m.list, []lease.Mark{high, r.mark}) {
			t.Fatalf("kept %+v, %v, want both stores", m.list, err)
		}
		if err := os.WriteFile(r.cfg.Marks, []byte("[{"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.cfg.Incarnation++
		r.start() // one that is damaged stops nobody
		pass(time.Second)
		r.stop()
	})
}
