package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

// Chaos: requests and replies are lost, the control plane goes away, the worker
// is killed and started anew, the wall clock jumps, executors fail. Once it is
// over every shard ends, once, and the spool is empty.
func TestChaos(t *testing.T) {
	seeds := 30
	if testing.Short() {
		seeds = 5
	}
	var lost, repeated, restarts int
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			rnd, plot := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			r := newRig(t, nil)
			calm := false
			lose := func(p float64) bool { return !calm && rnd.Float64() < p } // under the fake's lock
			r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
				var d time.Duration
				var fails, tellsLate bool
				r.set(func() {
					d = time.Duration(rnd.Int64N(int64(40 * time.Second)))
					fails, tellsLate = lose(0.05), rnd.Float64() < 0.2
				})
				if fails {
					return Output{}, &Released{Reason: "chaos", Delay: time.Second}
				}
				err := wait(ctx, d)
				if tellsLate { // ends well though it was told to stop
					err = nil
				}
				return Output{Result: []byte(`{}`)}, err
			})
			r.cfg.Parallel, r.cfg.Rand = 3, func() (f float64) {
				r.set(func() { f = rnd.Float64() })
				return f
			}
			jump := r.jumpable()
			r.refuse = func(lease.Exchange) error {
				if lose(0.1) {
					return lease.ErrUnreachable
				}
				return nil
			}
			r.answer = func(x lease.Exchange, ans lease.Exchanged) error {
				if lose(0.1) {
					if lost++; len(ans.Grants) > 0 && len(x.Reports) > 0 {
						repeated++
					}
					return lease.ErrUnknownOutcome
				}
				return nil
			}
			r.cut = func() {
				if lose(0.5) {
					r.addLocked("k")
				}
			}
			r.add("k", 25)
			r.start()
			for range 30 {
				pass(time.Duration(plot.Int64N(int64(20 * time.Second))))
				switch plot.IntN(8) {
				case 0:
					r.set(func() { r.down = !r.down })
				case 1:
					jump(time.Duration(plot.Int64N(int64(4*time.Hour))) - 2*time.Hour)
				case 2:
					restarts++
					r.a.Kill()
					if err := <-r.err; !errors.Is(err, ErrKilled) {
						t.Fatalf("seed %d: Run = %v", seed, err)
					}
					r.tidy()
					r.cfg.Incarnation++
					r.start()
				}
			}
			r.set(func() { calm, r.down = true, false })
			pass(lease.Term + 2*lease.Heartbeat + 25*41*time.Second)
			r.stop()
			done := map[lease.ShardID]int{}
			for _, id := range r.order {
				if s := r.state(id); s.State != lease.Done {
					t.Errorf("seed %d: shard %v is %v: %q", seed, id, s.State, s.Reason)
				}
				done[id]++
			}
			if n := r.count(lease.EventDone); n != len(done) {
				t.Errorf("seed %d: %d done events of %d shards", seed, n, len(done))
			}
			if n := r.waiting(); n != 0 {
				t.Errorf("seed %d: %d entries left", seed, n)
			}
			if names, err := r.sp.Rejected(); len(names) > 0 || err != nil {
				t.Errorf("seed %d: rejected %v, %v", seed, names, err)
			}
			for _, e := range r.events {
				if e.Kind == lease.EventFailed {
					t.Errorf("seed %d: a shard failed: %q", seed, e.Reason)
				}
			}
		})
	}
	t.Logf("%d seeds, %d replies lost, %d of them with reports and grants, %d restarts", seeds, lost, repeated, restarts)
	if lost < seeds || repeated == 0 || restarts < seeds {
		t.Errorf("too little happened to prove anything")
	}
}
