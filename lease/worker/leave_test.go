package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

// A worker that is drained finishes what runs, claims nothing, and goes on beating;
// once it is drained no more it works again.
func TestDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Minute))
		r.cfg.Parallel = 2
		id := r.add("k", 5)
		r.start()
		pass(time.Second)
		r.set(func() {
			r.drain = lease.Pause{Target: lease.Target{Worker: "w"}, Actor: "ann", Reason: "new disk"}
		})
		pass(10 * time.Minute)
		done, beats := 0, 0
		r.set(func() {
			for _, x := range r.xs {
				if x.Max > 0 && x.Request > 1 {
					t.Errorf("claim %d while it was drained", x.Request)
				}
			}
			beats = len(r.beats)
		})
		if done = r.count(lease.EventDone); done != 2 || beats < 40 {
			t.Fatalf("%d done after %d heartbeats, want the 2 that ran and a worker that goes on beating", done, beats)
		}
		if s := r.state(lease.ShardID{Job: id.Job, Seq: 3}); s.Fence != 0 {
			t.Fatalf("claimed while it was drained: %+v", s)
		}
		r.set(func() { r.drain = lease.Pause{} })
		pass(lease.Heartbeat + 2*time.Minute + 10*time.Second)
		if n := r.count(lease.EventDone); n != 5 {
			t.Fatalf("%d done after the drain was over, want all 5", n)
		}
		r.stop()
	})
}

// What did not begin when the worker was drained is given back, uncounted and with
// the reason.
func TestDrainedGivesBackWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Minute))
		jump := r.jumpable()
		id := r.add("k", 1)
		r.deaf = -1
		r.answer = func(x lease.Exchange, ans lease.Exchanged) error {
			if len(ans.Grants) > 0 {
				r.mu.Unlock()
				jump(time.Hour) // it must ask before it begins
				r.mu.Lock()
			}
			return nil
		}
		r.start()
		pass(time.Minute)
		r.set(func() {
			r.deaf, r.drain = 0, lease.Pause{Target: lease.Target{Worker: "w"}, Actor: "ann", Reason: "new disk"}
		})
		pass(2 * lease.Heartbeat)
		if s := r.state(id); s.State != lease.Ready || s.Reason != "drained by ann: new disk" || s.Failures+s.Lapses != 0 {
			t.Fatalf("shard is %v: %q, want given back", s.State, s.Reason)
		}
		r.stop()
	})
}

// What a worker lacks is in its heartbeats, with its age, until it is there again.
func TestWithdrawnIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cfg.Offer = lease.Offer{Kinds: []lease.Kind{"k", "slow"}, Roots: []string{"films"}}
		var there atomic.Bool
		r.cfg.Recheck = func(context.Context, lease.Need) error {
			if there.Load() {
				return nil
			}
			return errors.New("no")
		}
		r.cfg.Executors["k"] = execute(func(context.Context, Task) (Output, error) {
			return Output{}, &Released{Reason: "it is empty", Delay: time.Hour, Withdraw: lease.Need{Root: "films"}}
		})
		r.cfg.Executors["slow"], r.cfg.Grace = taking(time.Second), time.Minute
		r.cfg.MinFree = 10
		var free atomic.Uint64
		free.Store(100)
		r.cfg.Free = func(string) (uint64, error) { return free.Load(), nil }
		last := func() (list []lease.Withdrawal) {
			r.set(func() { list = r.beats[len(r.beats)-1].Withdrawn })
			return list
		}
		r.add("k", 1)
		r.start()
		pass(10 * time.Second) // sooner than the next heartbeat is due
		if got := last(); len(got) != 1 || got[0].Root != "films" || got[0].Reason != "it is empty" || got[0].Again <= 0 || got[0].Again > recheckEvery {
			t.Fatalf("told %+v, want the root withdrawn", got)
		}
		pass(time.Minute)
		if got := last(); len(got) != 1 || got[0].Age < 45*time.Second || got[0].Age > 75*time.Second {
			t.Fatalf("told %+v a minute later, want its age", got)
		}
		there.Store(true)
		pass(2 * recheckEvery)
		if got := last(); len(got) != 0 {
			t.Fatalf("told %+v, want nothing: it is there again", got)
		}
		free.Store(5)
		pass(time.Minute)
		if got := last(); len(got) != 1 || !got[0].All() || !strings.Contains(got[0].Reason, "5 bytes free") {
			t.Fatalf("told %+v, want that it takes no work", got)
		}
		free.Store(100)
		pass(time.Minute)
		if got := last(); len(got) != 0 {
			t.Fatalf("told %+v, want nothing: there is room again", got)
		}
		r.add("slow", 1)
		pass(time.Millisecond)
		r.stop() // something runs: there is time to tell
		if got := last(); len(got) != 1 || !got[0].All() {
			t.Fatalf("told %+v at last, want that it leaves", got)
		}
	})
}

// A shard that gives no sign of progress is failed, and its slot is free; one that
// does, or that waits for the control plane, is not.
func TestStall(t *testing.T) {
	const limit = 10 * time.Minute
	for _, c := range []struct {
		name  string
		fails bool
		run   func(r *rig, ctx context.Context, k Task) error
	}{
		{"nothing", true, func(_ *rig, ctx context.Context, k Task) error { return wait(ctx, time.Hour) }},
		{"the same again and again", true, func(_ *rig, ctx context.Context, k Task) error {
			for range 60 {
				k.Progress(7)
				if err := wait(ctx, time.Minute); err != nil {
					return err
				}
			}
			return nil
		}},
		{"little by little", false, func(_ *rig, ctx context.Context, k Task) error {
			for i := range uint64(10) {
				k.Progress(i)
				if err := wait(ctx, limit-time.Minute); err != nil {
					return err
				}
			}
			return nil
		}},
		{"waiting for the control plane", false, func(r *rig, ctx context.Context, k Task) error {
			r.set(func() { r.down = true })
			time.AfterFunc(time.Hour, func() { r.set(func() { r.down = false }) })
			_, err := k.Blob(ctx, lease.DigestOf([]byte("sound")))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.cfg.Stall = func(lease.Grant) time.Duration { return limit }
				r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
					if k.Grant.Shard.Seq == 2 {
						return taking(time.Second)(ctx, k)
					}
					if err := c.run(r, ctx, k); err != nil {
						return Output{}, err
					}
					return Output{Result: []byte("{}")}, nil
				})
				r.blobs[lease.DigestOf([]byte("sound"))] = []byte("sound")
				id := r.add("k", 2)
				r.start()
				pass(limit + 2*time.Second)
				s, second := r.state(id), r.state(lease.ShardID{Job: id.Job, Seq: 2})
				switch {
				case c.fails && (s.Failures != 1 || s.Reason != "no sign of progress for 10m0s" || second.State != lease.Done):
					t.Fatalf("shard is %v: %q, the next one %v; want it failed and the slot free", s.State, s.Reason, second.State)
				case !c.fails:
					pass(3 * time.Hour)
					if s := r.state(id); s.State != lease.Done || s.Failures != 0 {
						t.Fatalf("shard is %v: %q, want done at the first attempt", s.State, s.Reason)
					}
				}
				r.stop()
			})
		})
	}
}

// The time that a machine slept is no stall: neither where the monotonic clock
// stands still meanwhile, nor where the process stood still while it went on.
func TestSleepIsNoStall(t *testing.T) {
	for _, still := range []bool{true, false} {
		t.Run(fmt.Sprint(still), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, taking(5*time.Minute))
				r.cfg.Stall = func(lease.Grant) time.Duration { return 10 * time.Minute }
				jump := r.jumpable()
				var skipped time.Duration
				born := time.Now()
				r.cfg.Mono = func() time.Duration {
					r.mu.Lock()
					defer r.mu.Unlock()
					return time.Since(born) + skipped
				}
				id := r.add("k", 1)
				r.start()
				pass(2 * time.Minute)
				if still {
					jump(time.Hour)
				} else {
					r.set(func() { skipped = time.Hour })
				}
				pass(2 * time.Second)
				r.set(func() {
					if n := len(r.calls); r.calls[n-1] != "heartbeat" {
						t.Errorf("after it woke up it made %q, want a heartbeat first", r.calls[n-1])
					}
				})
				pass(4 * time.Minute)
				if s := r.state(id); s.State != lease.Done || s.Failures != 0 {
					t.Fatalf("shard is %v: %q, want done", s.State, s.Reason)
				}
				r.stop()
			})
		})
	}
}

// Within its grace a worker that leaves delivers for as long as it gets on; when it
// does not, or is told to hurry, it ends soon.
func TestLeaveDelivers(t *testing.T) {
	for _, c := range []struct {
		name        string
		slow        time.Duration // each upload takes so long
		kill        bool
		least, most time.Duration
		left        int
	}{
		{"at length", 4 * time.Second, false, 30 * time.Second, 50 * time.Second, 0},
		{"not at all", time.Hour, false, farewell, 3 * farewell, 9},
		{"in a hurry", 4 * time.Second, true, hurry, hurry + 5*time.Second, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, taking(time.Second))
				r.cfg.Grace = 10 * time.Minute
				slow := &slowly{fake: r.fake, d: c.slow}
				r.cfg.Control = slow
				for i := range 9 {
					rep := r.leased()
					file := filepath.Join(t.TempDir(), "f")
					b := fmt.Appendf(nil, "sound %d", i)
					if err := os.WriteFile(file, b, 0o600); err != nil {
						t.Fatal(err)
					}
					rep.Blobs = []lease.Digest{lease.DigestOf(b)}
					r.spooled(rep, file)
				}
				r.start()
				pass(time.Second)
				began := time.Now()
				r.end()
				if c.kill {
					r.a.Kill()
				}
				err := <-r.err
				if errors.Is(err, ErrKilled) != c.kill || err != nil && !c.kill {
					t.Fatalf("Run = %v", err)
				}
				if took := time.Since(began); took < c.least-time.Second || took > c.most {
					t.Errorf("left after %v, want %v to %v", took, c.least, c.most)
				}
				if n := r.waiting(); (n == 0) != (c.left == 0) {
					t.Errorf("%d reports stay in the spool, want %d or so", n, c.left)
				}
			})
		})
	}
}

// slowly is a control plane behind a slow network.
type slowly struct {
	*fake
	d time.Duration
}

func (s *slowly) PutBlob(ctx context.Context, u lease.Upload, r io.Reader) error {
	if err := wait(ctx, s.d); err != nil {
		return err
	}
	return s.fake.PutBlob(ctx, u, r)
}
