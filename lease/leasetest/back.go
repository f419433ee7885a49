package leasetest

import (
	"runtime"
	"testing"

	"macbatch/lease"
)

// testBack: where another worker waits for work, the newest of what has not begun is
// asked back, once; given back it goes to who waited.
func testBack(t *testing.T, ctl lease.Control, _ *Fixture) {
	id := Submit(t, ctl, Params{Items: 4})
	w := NewWorker(t, ctl, "w1")
	gs := w.Claim(4)
	beat := func() []lease.ShardID {
		b := lease.Beat{Hello: w.Hello}
		for i, g := range gs {
			phase := lease.Waiting
			if i == 0 {
				phase = lease.Running
			}
			b.Leases = append(b.Leases, lease.LeaseBeat{Shard: g.Shard, Fence: g.Fence, Phase: phase})
		}
		out, err := ctl.Heartbeat(t.Context(), b)
		if err != nil || len(out.Lost) > 0 {
			t.Fatalf("heartbeat: %v lost, %v", out.Lost, err)
		}
		return out.Back
	}
	if back := beat(); len(back) > 0 {
		t.Fatalf("%v asked back while nobody waits", back)
	}
	unable := NewWorker(t, ctl, "w2")
	unable.Offer.Kinds = []lease.Kind{"another"}
	able := NewWorker(t, ctl, "w3")
	got := make(chan []lease.Grant)
	for _, o := range []*Worker{unable, able} {
		o.Request++
		go func() {
			out, _ := o.Try(lease.Exchange{Max: 1, Wait: lease.MaxWait})
			if o == able {
				got <- out.Grants
			}
		}()
	}
	var back []lease.ShardID
	for back = beat(); len(back) == 0; back = beat() { // until it waits
		runtime.Gosched()
	}
	if len(back) != 1 || back[0] != gs[3].Shard {
		t.Fatalf("%v asked back, want the newest: %v", back, gs[3].Shard)
	}
	if more := beat(); len(more) > 0 {
		t.Fatalf("%v asked back for one who was promised another", more)
	}
	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: gs[3].Shard, Fence: gs[3].Fence, Reason: "asked back"}}})
	if theirs := <-got; len(theirs) != 1 || theirs[0].Shard != gs[3].Shard {
		t.Fatalf("granted %v to who waited, want %v", theirs, gs[3].Shard)
	}
	if j := JobOf(t, ctl, id); j.Shards.Leased != 4 {
		t.Fatalf("job counts %+v, want four leased", j.Shards)
	}
}
