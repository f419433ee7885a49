package leasetest

import (
	"context"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
)

// Copy returns what an engine holds now, as an engine of its own.
func Copy(t testing.TB, e kv.Engine) *memkv.DB {
	t.Helper()
	to := memkv.Open()
	err := e.View(func(r kv.Reader) error {
		return to.Update(func(w kv.Writer) (err error) {
			r.Scan(nil, nil, func(k, v []byte) bool {
				err = w.Put(k, v)
				return err == nil
			})
			r.Log(0, func(seq uint64, record []byte) bool {
				if err == nil {
					err = w.Append(seq, record)
				}
				return err == nil
			})
			return err
		})
	})
	if err != nil {
		t.Fatalf("copy engine: %v", err)
	}
	return to
}

// RollBack makes the fixture go on from an earlier copy of its engine.
func (f *Fixture) RollBack(t testing.TB, to kv.Engine) {
	t.Helper()
	f.Stop(t)
	f.Engine = to
	f.start(t)
}

func testMark(t *testing.T, ctl lease.Control, f *Fixture) {
	w := NewWorker(t, ctl, "w1")
	beat := func(m lease.Mark) lease.Beaten {
		t.Helper()
		h := w.Hello
		h.Mark = m
		out, err := ctl.Heartbeat(context.Background(), lease.Beat{Hello: h})
		if err != nil {
			t.Fatalf("heartbeat: %v", err)
		}
		return out
	}
	first := beat(lease.Mark{}).Mark
	if len(first.Store) != 32 || first.Seq == 0 || first.Epoch == 0 || first.Proof == "" {
		t.Fatalf("mark %+v, want all of it", first)
	}
	Submit(t, ctl, Params{Items: 6})
	old := w.Claim(1)[0]
	copied := Copy(t, f.Engine)
	w.Request++
	out := w.Exchange(lease.Exchange{Max: 2})
	high, lost := out.Mark, out.Grants
	if !high.Beyond(first) || high.Store != first.Store || beat(lease.Mark{}).Mark != high {
		t.Fatalf("mark %+v after %+v", high, first)
	}
	if again := beat(high).Mark; again != high {
		t.Fatalf("mark %+v, want %+v: nothing was done", again, high)
	}

	f.RollBack(t, copied)
	here := beat(first).Mark
	for what, m := range map[string]lease.Mark{
		"of another store":          {Store: "00112233445566778899aabbccddeeff", Epoch: high.Epoch, Seq: high.Seq, Proof: high.Proof},
		"made up":                   {Store: high.Store, Epoch: 1<<32 - 2, Seq: high.Seq, Proof: high.Proof},
		"made up, without a proof":  {Store: high.Store, Epoch: high.Epoch + 1},
		"of before the copy":        first,
		"of where the store is now": here,
	} {
		if got := beat(m).Mark; got != here {
			t.Fatalf("mark %+v after one %s was shown, want %+v", got, what, here)
		}
	}
	v := NewWorker(t, ctl, "w2")
	v.Mark = high
	granted := v.Claim(6)
	wantGrants(t, "claim with a higher mark", granted, 6)
	for _, g := range append(lost, old) {
		if granted[0].Fence <= g.Fence || uint32(granted[0].Fence>>32) <= high.Epoch {
			t.Fatalf("fence %v after %v and epoch %d", granted[0].Fence, g.Fence, high.Epoch)
		}
		wantVerdict(t, "a report of the lost future", w.Report(Done(g, "late")), lease.Stale)
	}
	if now := beat(high).Mark; !now.Beyond(high) || beat(high).Mark != now {
		t.Fatalf("mark %+v, want one beyond %+v that stays", now, high)
	}
	events, err := ctl.Events(context.Background(), lease.ShardID{}, here.Seq, 0)
	if err != nil || len(events) < 2 || events[0].Kind != lease.EventRestored {
		t.Fatalf("events %+v, %v, want a restored one first", events, err)
	}
	if id := Submit(t, ctl, Params{Items: 1, Distinct: "anew"}); uint32(id>>32) <= high.Epoch {
		t.Fatalf("job %v in epoch %d", id, high.Epoch)
	}

	// A heartbeat that shows it does too.
	f.RollBack(t, Copy(t, copied))
	if got := beat(high); !got.Mark.Beyond(high) {
		t.Fatalf("mark %+v after a heartbeat that showed %+v", got.Mark, high)
	}
}
