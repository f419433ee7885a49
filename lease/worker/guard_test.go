package worker

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

// lastFacts is what the last heartbeat told.
func (r *rig) lastFacts() lease.Facts {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	if n := len(r.beats); n > 0 && r.beats[n-1].Facts != nil {
		return *r.beats[n-1].Facts
	}
	return lease.Facts{}
}

// What runs when a guard objects goes on and is delivered; nothing more is claimed,
// also by an exchange that waits; the control plane is told why, and when it is over.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(2*time.Minute))
		var why atomic.Pointer[string]
		none := ""
		why.Store(&none)
		var awake []bool
		r.cfg.Guards = []func(context.Context) string{func(context.Context) string { return *why.Load() }, func(context.Context) string { return "" }}
		r.cfg.Facts, r.cfg.Awake = lease.Facts{System: "test/cpu", CPUs: 3}, func(held bool) { awake = append(awake, held) }
		r.cfg.Parallel = 2
		first := r.add("k", 1)
		r.start()
		pass(time.Second)
		if f := r.lastFacts(); f.System != "test/cpu" || f.CPUs != 3 || f.Rests != "" {
			t.Errorf("facts %+v at the start", f)
		}
		outside := "outside its hours"
		why.Store(&outside)
		pass(guardEvery + time.Second)
		second := r.add("k", 1)
		pass(time.Minute)
		if s := r.state(second); s.State != lease.Ready {
			t.Errorf("a shard of the time outside is %v, want ready", s.State)
		}
		if f := r.lastFacts(); f.Rests != outside {
			t.Errorf("rests %q, want %q", f.Rests, outside)
		}
		pass(time.Minute)
		if s := r.state(first); s.State != lease.Done {
			t.Errorf("what ran is %v, want done", s.State)
		}
		pass(10 * time.Minute)
		if s := r.state(second); s.State != lease.Ready {
			t.Errorf("much later it is %v, want ready", s.State)
		}
		why.Store(&none)
		pass(guardEvery + 2*time.Minute + 2*time.Second)
		if s := r.state(second); s.State != lease.Done {
			t.Errorf("inside again it is %v, want done", s.State)
		}
		if f := r.lastFacts(); f.Rests != "" {
			t.Errorf("rests %q, want nothing", f.Rests)
		}
		r.stop()
		if want := []bool{true, false, true, false}; !slices.Equal(awake, want) {
			t.Errorf("Awake was told %v, want %v", awake, want)
		}
	})
}

// A worker that begins outside its hours claims nothing at all, and says so soon.
func TestGuardFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		r.cfg.Guards = []func(context.Context) string{func(context.Context) string { return "on battery" }}
		id := r.add("k", 1)
		r.start()
		pass(time.Second)
		if f := r.lastFacts(); f.Rests != "on battery" {
			t.Errorf("rests %q", f.Rests)
		}
		pass(time.Hour)
		if s := r.state(id); s.State != lease.Ready || s.Fence != 0 {
			t.Errorf("the shard is %v under fence %v, want untouched", s.State, s.Fence)
		}
		r.stop()
	})
}

// The reasons of what was withdrawn, and of a short disk, are told.
func TestFactsTellWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(context.Context, Task) (Output, error) {
			return Output{}, &Released{Reason: "root \"films\" is not mounted", Withdraw: lease.Need{Root: "films"}, Delay: time.Hour}
		})
		var free atomic.Uint64
		free.Store(1 << 30)
		r.cfg.Offer = lease.Offer{Kinds: []lease.Kind{"k"}, Roots: []string{"films"}}
		r.cfg.MinFree, r.cfg.Free = 1<<20, func(string) (uint64, error) { return free.Load(), nil }
		r.add("k", 1)
		r.start()
		pass(20 * time.Second)
		if f := r.lastFacts(); len(f.Lacks) != 1 || f.Lacks[0] != "root films: root \"films\" is not mounted" {
			t.Errorf("lacks %q", f.Lacks)
		}
		free.Store(5)
		pass(time.Minute)
		if f := r.lastFacts(); f.Rests == "" {
			t.Errorf("rests %q on a full disk", f.Rests)
		}
		free.Store(1 << 30)
		pass(time.Minute)
		if f := r.lastFacts(); f.Rests != "" {
			t.Errorf("rests %q with room again", f.Rests)
		}
		r.stop()
	})
}
