package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

// tidy checks that no work folder stayed.
func (r *rig) tidy() {
	r.t.Helper()
	entries, err := os.ReadDir(r.cfg.Dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if taskFolder.MatchString(e.Name()) {
			r.t.Fatalf("work folder %q stayed", e.Name())
		}
	}
}

func TestHeartbeatCadence(t *testing.T) {
	for _, c := range []struct{ term, every time.Duration }{
		{lease.Term, lease.Heartbeat},
		{12 * time.Second, 2 * time.Second},
		{time.Hour, lease.Heartbeat},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(ctx context.Context, k Task) (Output, error) {
				k.Progress(42)
				return taking(61*time.Second)(ctx, k)
			})
			r.term = c.term
			id := r.add("k", 1)
			began := time.Now()
			r.start()
			pass(60*time.Second + time.Millisecond)
			r.set(func() {
				for i, b := range r.beats {
					if want := began.Add(time.Duration(i+1) * c.every); b.at.Sub(want).Abs() > 50*time.Millisecond {
						t.Errorf("term %v: heartbeat %d at %v, want %v", c.term, i, b.at.Sub(began), want.Sub(began))
					}
					want := []lease.LeaseBeat{{Shard: id, Fence: 1, Phase: lease.Running, Work: 42, Signs: 1}}
					if !slices.Equal(b.Leases, want) {
						t.Errorf("heartbeat lists %v, want %v", b.Leases, want)
					}
				}
				if want := int(time.Minute / c.every); len(r.beats) != want {
					t.Errorf("term %v: %d heartbeats in a minute, want %d", c.term, len(r.beats), want)
				}
			})
			if got := r.a.Running(); len(got) != 1 || got[0] != (RunningTask{"k", id, 100, 42}) {
				t.Errorf("Running() = %v", got)
			}
			pass(2 * time.Second)
			if s := r.state(id); s.State != lease.Done {
				t.Errorf("shard is %v, want done", s.State)
			}
			r.stop()
		})
	}
}

func TestLostLeaseEndsExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Time
		var cause error
		r := newRig(t, func(ctx context.Context, k Task) (Output, error) {
			if k.Grant.Shard.Seq == 2 {
				return taking(time.Second)(ctx, k)
			}
			<-ctx.Done()
			cause, ended = context.Cause(ctx), time.Now()
			return Output{Result: []byte(`{}`)}, nil // too late: must be dropped
		})
		id := r.add("k", 2)
		r.start()
		pass(20 * time.Second)
		r.steal(id)
		stolen := time.Now()
		pass(lease.Heartbeat + 2*time.Second)
		if !errors.Is(cause, ErrLeaseLost) {
			t.Fatalf("cause = %v, want ErrLeaseLost", cause)
		}
		if d := ended.Sub(stolen); d > lease.Heartbeat {
			t.Fatalf("executor ended %v after the theft, want within a heartbeat", d)
		}
		if s := r.state(lease.ShardID{Job: id.Job, Seq: 2}); s.State != lease.Done {
			t.Fatalf("next shard is %v, want done: the slot must be free", s.State)
		}
		r.stop()
		r.set(func() {
			for _, x := range r.xs {
				for _, rep := range x.Reports {
					if rep.Shard == id {
						t.Fatalf("a result under a lost lease was reported")
					}
				}
			}
		})
	})
}

func TestCutPollLosesNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := map[string]int{}
		r := newRig(t, nil)
		r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
			r.set(func() { runs[fmt.Sprint(k.Grant.Shard, k.Grant.Fence)]++ })
			return taking(5*time.Second)(ctx, k)
		})
		r.cfg.Parallel = 3
		r.add("k", 1)
		var cuts int
		r.cut = func() { // the grant and the cut cross on the wire
			if cuts++; cuts == 1 {
				r.addLocked("k")
				r.addLocked("k")
			}
		}
		began := time.Now()
		r.start()
		pass(5*time.Second + 100*time.Millisecond)
		if n := r.count(lease.EventDone); n != 1 {
			t.Fatalf("%d shards done %v after the start, want 1: its report waited behind the poll", n, time.Since(began))
		}
		pass(6 * time.Second)
		r.set(func() {
			if cuts < 1 {
				t.Fatalf("no poll was cut")
			}
			if len(r.grants) != 3 {
				t.Errorf("%d grants, want 3", len(r.grants))
			}
			for k, n := range runs {
				if n != 1 {
					t.Errorf("lease %s ran %d times", k, n)
				}
			}
		})
		if n := r.count(lease.EventDone); n != 3 {
			t.Errorf("%d shards done, want 3", n)
		}
		r.stop()
		r.set(func() {
			last := uint64(0)
			for _, x := range r.xs {
				if x.Request > last+1 || x.Request != 0 && x.Request < last {
					t.Errorf("request %d after %d", x.Request, last)
				}
				last = max(last, x.Request)
			}
		})
	})
}

// A claim that was cut at the end: its grants must be given back, not left to lapse.
func TestCutAtTheEndGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		r.cut = func() {
			if len(r.order) == 0 {
				r.addLocked("k")
			}
		}
		r.start()
		pass(3 * time.Second)
		r.stop()
		s := r.state(r.order[0])
		if s.State != lease.Ready || s.Fence != 1 || s.Reason != "shutting down" {
			t.Fatalf("shard is %v under fence %v: %q, want ready under 1, given back", s.State, s.Fence, s.Reason)
		}
	})
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, most := map[lease.Kind]int{}, map[lease.Kind]int{}
		r := newRig(t, nil)
		e := execute(func(ctx context.Context, k Task) (Output, error) {
			kind := k.Grant.Kind
			r.set(func() {
				now[kind]++
				now[""]++
				most[kind], most[""] = max(most[kind], now[kind]), max(most[""], now[""])
			})
			defer r.set(func() { now[kind]--; now[""]-- })
			return taking(time.Second)(ctx, k)
		})
		r.cfg.Executors = map[lease.Kind]Executor{"a": e, "b": e}
		r.cfg.Parallel = 4
		r.cfg.Slots = map[lease.Kind]int{"a": 1}
		for range 5 {
			r.add("a", 1)
			r.add("b", 2)
		}
		r.start()
		pass(6 * time.Second)
		if n := r.count(lease.EventDone); n != 15 {
			t.Errorf("%d done, want 15", n)
		}
		if most["a"] != 1 || most[""] != 4 {
			t.Errorf("at most %v at once, want a:1 in all:4", most)
		}
		if n := r.count(lease.EventReleased); n != 0 {
			t.Errorf("%d released, want none: more was claimed than fits", n)
		}
		r.stop()
	})
}

func TestTwinEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		r := newRig(t, func(ctx context.Context, k Task) (Output, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return Output{}, cause
		})
		r.cfg.Grace = time.Hour
		r.add("k", 1)
		r.start()
		pass(time.Second)
		r.set(func() { r.inc = 2 })
		err := <-r.err
		if !errors.Is(err, lease.ErrTwin) {
			t.Fatalf("Run = %v, want ErrTwin", err)
		}
		if cause == nil {
			t.Fatalf("the executor still runs")
		}
		r.tidy()
	})
}

// jumpable is a wall clock that a test moves.
func (r *rig) jumpable() func(d time.Duration) {
	var off time.Duration
	r.cfg.Now = func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return time.Now().Add(off)
	}
	return func(d time.Duration) { r.set(func() { off += d }) }
}

func TestSleepAsksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		r := newRig(t, func(ctx context.Context, k Task) (Output, error) {
			out, err := taking(100*time.Second)(ctx, k)
			cause = context.Cause(ctx)
			return out, err
		})
		jump := r.jumpable()
		r.cfg.Parallel = 2
		id := r.add("k", 1)
		r.start()
		pass(2500 * time.Millisecond) // heartbeat due at 15 s, poll until 22 s
		r.steal(id)
		r.set(func() { r.calls = nil })
		jump(time.Hour)
		pass(1100 * time.Millisecond)
		if !errors.Is(cause, ErrLeaseLost) {
			t.Fatalf("cause = %v a second after waking up, want ErrLeaseLost", cause)
		}
		r.set(func() {
			if len(r.calls) == 0 || r.calls[0] != "heartbeat" {
				t.Fatalf("first act after sleep is %v, want a heartbeat", r.calls)
			}
		})
		r.stop()
	})
}

func TestSleepBeforeStartAsksFirst(t *testing.T) {
	for name, jumps := range map[string][]time.Duration{
		"at once":  {time.Hour},
		"back":     {-time.Hour},
		"by steps": slices.Repeat([]time.Duration{4900 * time.Millisecond}, 20), // none of them a jump
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := 0
				r := newRig(t, func(ctx context.Context, k Task) (Output, error) {
					ran++
					return taking(time.Second)(ctx, k)
				})
				jump := r.jumpable()
				id := r.add("k", 1)
				r.answer = func(x lease.Exchange, ans lease.Exchanged) error {
					if len(ans.Grants) > 0 { // the machine sleeps while the answer arrives
						r.mu.Unlock()
						for _, d := range jumps {
							jump(d)
							time.Sleep(tick) //nolint:forbidigo // in a bubble
						}
						r.steal(id)
						r.mu.Lock()
						r.calls = nil
					}
					return nil
				}
				r.start()
				pass(40 * time.Second)
				if ran != 0 {
					t.Fatalf("started under a lease that was lost while asleep")
				}
				r.stop()
			})
		})
	}
}

// Sure is the executor's own check before what can't be undone.
func TestSureAsksWhenInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after error
		r := newRig(t, nil)
		jump := r.jumpable()
		var id lease.ShardID
		r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
			before = k.Sure(ctx)
			r.steal(id)
			jump(91 * time.Second)
			after = k.Sure(ctx)
			return Output{}, after
		})
		id = r.add("k", 1)
		r.start()
		pass(time.Second)
		if before != nil || !errors.Is(after, ErrLeaseLost) {
			t.Fatalf("Sure = %v, then %v, want nil, then ErrLeaseLost", before, after)
		}
		r.stop()
	})
}

// After a jump nothing starts before a heartbeat was answered that was sent
// after it, though leases seem to have time left.
func TestDoubtHoldsStarts(t *testing.T) {
	for _, c := range []struct {
		name   string
		deaf   time.Duration
		starts time.Duration // after the worker did
	}{
		{"no heartbeat answered", -1, 60 * time.Second},
		{"one under way during the jump", 3 * time.Second, 21 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var started time.Duration
				r := newRig(t, nil)
				r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
					r.set(func() { started = time.Since(began) })
					return taking(time.Second)(ctx, k)
				})
				jump := r.jumpable()
				r.deaf = c.deaf
				r.start()
				pass(15500 * time.Millisecond) // the heartbeat was sent at 15 s
				jump(20 * time.Second)
				pass(time.Second)
				r.add("k", 1)
				pass(43500 * time.Millisecond)
				r.set(func() { r.deaf = max(r.deaf, 0) })
				pass(lease.Heartbeat)
				r.set(func() {
					if started < c.starts || started > c.starts+lease.Heartbeat {
						t.Errorf("started after %v, want %v", started, c.starts)
					}
				})
				r.stop()
			})
		})
	}
}

// echo repeats all grants it ever made.
type echo struct {
	*fake
	grants []lease.Grant
}

func (c *echo) Exchange(ctx context.Context, x lease.Exchange) (lease.Exchanged, error) {
	ans, err := c.fake.Exchange(ctx, x)
	c.grants = append(c.grants, ans.Grants...)
	ans.Grants = c.grants
	return ans, err
}

func TestRepeatedGrantRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		r := newRig(t, nil)
		r.cfg.Control = &echo{fake: r.fake}
		r.cfg.Parallel = 2
		r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
			r.set(func() { runs++ })
			return taking(time.Hour)(ctx, k)
		})
		r.add("k", 1)
		r.start()
		pass(time.Minute)
		if runs != 1 {
			t.Errorf("ran %d times, want once", runs)
		}
		r.stop()
	})
}
