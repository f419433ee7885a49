package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

func TestEndsOfAnAttempt(t *testing.T) {
	long := strings.Repeat("é", lease.MaxReason)
	for _, c := range []struct {
		name   string
		out    Output
		err    error
		panics bool
		state  lease.State
		class  lease.FailureClass
		reason string
	}{
		{"done", Output{Result: []byte(` { "a" : "<b>\u2028" } `)}, nil, false, lease.Done, "", ""},
		{"permanent", Output{}, &Failure{Class: lease.Permanent, Reason: "no such\x1b[31m file\n"}, false, lease.Failed, lease.Permanent, "no such [31m file"},
		{"retryable", Output{}, fmt.Errorf("wrapped: %w", &Failure{Class: lease.Retryable, Reason: "again"}), false, lease.Ready, lease.Retryable, "again"},
		{"odd class", Output{}, &Failure{Class: lease.Poison, Reason: "odd"}, false, lease.Ready, lease.Retryable, "odd"},
		{"any error", Output{}, errors.New("boom"), false, lease.Ready, lease.Retryable, "boom"},
		{"own time-out", Output{}, context.DeadlineExceeded, false, lease.Ready, lease.Retryable, "context deadline exceeded"},
		{"long reason", Output{}, errors.New(long), false, lease.Ready, lease.Retryable, long[:lease.MaxReason]},
		{"panic", Output{}, nil, true, lease.Ready, lease.Retryable, "panic: oh"},
		{"not JSON", Output{Result: []byte(`{`)}, nil, false, lease.Ready, lease.Retryable, "the result is not JSON"},
		{"no result", Output{}, nil, false, lease.Ready, lease.Retryable, "the result is not JSON"},
		{"not UTF-8", Output{Result: []byte("\"\xff\"")}, nil, false, lease.Ready, lease.Retryable, "the result is not JSON"},
		{"file missing", Output{Result: []byte(`1`), Files: []string{"/no/such"}}, nil, false, lease.Ready, lease.Retryable, "read output: open /no/such: no such file or directory"},
		{"wrong digest", Output{Result: []byte(`1`), Files: []string{"DIR/f"}, Digests: []lease.Digest{{1}}}, nil, false, lease.Ready, lease.Retryable, "which the result does not speak of"},
		{"released", Output{}, &Released{Reason: "later", Delay: time.Hour}, false, lease.Ready, "", "later"},
		{"disk full", Output{}, fmt.Errorf("write: %w", syscall.ENOSPC), false, lease.Ready, "", "write: no space left on device"},
		{"credential gone", Output{}, fmt.Errorf("lines of shard: %w", lease.ErrUnauthorized), false, lease.Ready, "", "lines of shard: "},
		{"twin", Output{}, fmt.Errorf("blob: %w", lease.ErrTwin), false, lease.Ready, "", "blob: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				r := newRig(t, func(_ context.Context, k Task) (Output, error) {
					if runs++; c.panics {
						panic("oh")
					}
					for i, f := range c.out.Files {
						c.out.Files[i] = strings.ReplaceAll(f, "DIR", k.Dir)
					}
					return c.out, errors.Join(c.err, os.WriteFile(filepath.Join(k.Dir, "f"), nil, 0o600))
				})
				id := r.add("k", 1)
				r.start()
				pass(500 * time.Millisecond)
				s := r.state(id)
				if s.State != c.state || s.Class != c.class || !strings.Contains(s.Reason, c.reason) || (c.reason == "") != (s.Reason == "") {
					t.Errorf("shard is %v, %q, %q, want %v, %q, %q", s.State, s.Class, s.Reason, c.state, c.class, c.reason)
				}
				if n := r.waiting(); n != 0 {
					t.Errorf("%d entries left", n)
				}
				if released := r.count(lease.EventReleased); s.Class != "" && released != 0 {
					t.Errorf("%d released and a failure", released)
				}
				r.stop()
			})
		})
	}
}

// A shard that is given back without more must not come back at once for ever.
func TestBareReleaseRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var delay time.Duration
		r := newRig(t, func(context.Context, Task) (Output, error) { return Output{}, &Released{Reason: "can't read it"} })
		r.add("k", 1)
		r.start()
		pass(time.Millisecond)
		r.stop()
		for _, x := range r.xs {
			for _, g := range x.Releases {
				delay = max(delay, g.Delay)
			}
		}
		if delay != restRelease {
			t.Fatalf("delay = %v, want %v", delay, restRelease)
		}
	})
}

func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var missing atomic.Bool
		missing.Store(true)
		r := newRig(t, nil)
		r.cfg.Offer = lease.Offer{Roots: []string{"films", "music"}, Models: []string{"small"}}
		need := lease.Need{Kind: "k", Root: "films"}
		r.cfg.Recheck = func(_ context.Context, n lease.Need) error {
			if n != need {
				t.Errorf("Recheck(%v), want %v", n, need)
			}
			if missing.Load() {
				return errors.New("not mounted")
			}
			return nil
		}
		r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
			if missing.Load() {
				return Output{}, &Released{Reason: "not mounted", Withdraw: need}
			}
			return Output{Result: []byte(`1`)}, nil
		})
		r.shards[r.add("k", 1)].Need = need
		r.start()
		pass(time.Second)
		roots := func() (roots []string) {
			r.set(func() { roots = r.xs[len(r.xs)-1].Offer.Roots })
			return roots
		}
		pass(3 * time.Minute)
		if got := fmt.Sprint(roots()); got != "[music]" {
			t.Errorf("offers %v, want [music]", got)
		}
		missing.Store(false)
		pass(time.Minute)
		if got := fmt.Sprint(roots()); got != "[films music]" {
			t.Errorf("offers %v, want [films music]", got)
		}
		if g, d := r.count(lease.EventLeased), r.count(lease.EventDone); g != 2 || d != 1 {
			t.Errorf("%d grants, %d done, want 2, 1", g, d)
		}
		r.stop()
	})
}

// TestWithdrawForATerm: what a server that rests would have done is not asked for
// again and again, and is asked for after the rest.
func TestWithdrawForATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		need := lease.Need{Kind: "k", Model: "small"}
		began := time.Now()
		var at []time.Duration
		r := newRig(t, func(context.Context, Task) (Output, error) {
			if at = append(at, time.Since(began)); len(at) == 1 {
				return Output{}, &Released{Reason: "busy", Delay: 90 * time.Second, Withdraw: need, For: 90 * time.Second}
			}
			return Output{Result: []byte(`1`)}, nil
		})
		r.cfg.Offer = lease.Offer{Models: []string{"small"}}
		r.cfg.Recheck = func(context.Context, lease.Need) error {
			t.Error("a re-check of what rests for a time")
			return nil
		}
		for range 3 {
			r.shards[r.add("k", 1)].Need = need
		}
		r.start()
		pass(3 * time.Minute)
		if len(at) != 4 || at[1] < 90*time.Second || at[1] > 115*time.Second {
			t.Errorf("attempts at %v, want one, and three after the term", at)
		}
		if f, d := r.count(lease.EventFailed)+r.count(lease.EventRequeued), r.count(lease.EventDone); f != 0 || d != 3 {
			t.Errorf("%d failures, %d done, want 0, 3", f, d)
		}
		r.stop()
	})
}

// TestFinalFailure: what can't be undone is told even by an attempt that was told
// to stop.
func TestFinalFailure(t *testing.T) {
	for _, final := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(ctx context.Context, _ Task) (Output, error) {
				<-ctx.Done()
				return Output{}, &Failure{Class: lease.Permanent, Reason: "unknown outcome", Final: final}
			})
			id := r.add("k", 1)
			r.start()
			pass(time.Second)
			r.end()
			if err := <-r.err; err != nil {
				t.Fatal(err)
			}
			r.tidy()
			want := lease.Ready
			if final {
				want = lease.Failed
			}
			if s := r.state(id); s.State != want {
				t.Errorf("final %t: shard is %v: %q, want %v", final, s.State, s.Reason, want)
			}
		})
	}
}

func TestDrainKeepsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(ctx context.Context, k Task) (Output, error) {
			return taking(time.Duration(k.Grant.Shard.Seq)*100*time.Second)(ctx, k)
		})
		r.cfg.Parallel, r.cfg.Grace = 3, 3*time.Minute
		id := r.add("k", 2)
		r.start()
		pass(time.Second)
		asked := time.Now()
		r.end()
		synctest.Wait()
		r.add("k", 1) // must not be claimed
		err := <-r.err
		if took := time.Since(asked); err != nil || took < r.cfg.Grace || took > r.cfg.Grace+time.Second {
			t.Fatalf("Run = %v after %v, want nil after the grace", err, took)
		}
		r.tidy()
		second, third := lease.ShardID{Job: id.Job, Seq: 2}, lease.ShardID{Job: id.Job, Seq: 3}
		if s := r.state(id); s.State != lease.Done {
			t.Errorf("what ended within the grace is %v, want done", s.State)
		}
		if s := r.state(second); s.State != lease.Ready || s.Reason != "shutting down" || s.Lapses+s.Failures != 0 {
			t.Errorf("the rest is %v: %q, want ready, given back uncounted", s.State, s.Reason)
		}
		if s := r.state(third); s.Fence != 0 {
			t.Errorf("claimed while draining")
		}
		n := 0
		for _, b := range r.beats {
			if b.at.After(asked) {
				n++
			}
		}
		if n != 12 {
			t.Errorf("%d heartbeats in 3 minutes of draining, want 12", n)
		}
	})
}

func TestStopAndKill(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, taking(time.Hour))
			r.cfg.Grace = grace
			id := r.add("k", 1)
			r.start()
			pass(time.Second)
			began := time.Now()
			r.end()
			if grace > 0 {
				pass(time.Minute)
				began = time.Now()
				r.a.Kill()
			}
			if err := <-r.err; errors.Is(err, ErrKilled) != (grace > 0) || err != nil && grace == 0 || time.Since(began) > time.Second {
				t.Errorf("Run = %v after %v", err, time.Since(began))
			}
			if s := r.state(id); s.State != lease.Ready {
				t.Errorf("shard is %v, want ready", s.State)
			}
			r.tidy()
		})
	}
}

// The control plane is away at the end: what is done stays in the spool.
func TestStopDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Minute))
		r.add("k", 1)
		r.start()
		pass(time.Second)
		r.set(func() { r.down = true })
		pass(10 * time.Minute)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > farewell+time.Second {
			t.Errorf("ended after %v", took)
		}
		if n := r.waiting(); n != 1 {
			t.Fatalf("%d entries in the spool, want 1", n)
		}
		r.set(func() { r.down = false })
		r.cfg.Incarnation = 2
		r.start()
		pass(time.Second)
		if n := r.count(lease.EventDone); n != 1 {
			t.Errorf("%d done after the restart, want 1", n)
		}
		r.stop()
	})
}

func TestDiskFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free uint64 = 10
		r := newRig(t, taking(time.Second))
		r.cfg.MinFree = 100
		r.cfg.Free = func(string) (uint64, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return free, nil
		}
		id := r.add("k", 1)
		rep := r.leased()
		r.spooled(rep)
		r.start()
		pass(10 * time.Minute)
		if s := r.state(id); s.State != lease.Ready || s.Fence != 0 {
			t.Errorf("claimed below the floor: %v", s.State)
		}
		if s := r.state(rep.Shard); s.State != lease.Done {
			t.Errorf("not delivered below the floor: %v", s.State)
		}
		r.set(func() { free = 100 })
		pass(diskCheck + 2*time.Second)
		if s := r.state(id); s.State != lease.Done {
			t.Errorf("shard is %v after there is room again, want done", s.State)
		}
		r.stop()
	})
}

// Work that needs more space than may be taken is given back, and its kind is not
// asked for until there is.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cfg.MinFree = 100
		var free, tried atomic.Uint64
		free.Store(150)
		r.cfg.Free = func(string) (uint64, error) { return free.Load(), nil }
		r.cfg.Executors["k"] = execute(func(_ context.Context, task Task) (Output, error) {
			tried.Add(1)
			if err := task.Room(60); err != nil {
				return Output{}, err
			}
			return Output{Result: []byte(`{}`)}, nil
		})
		id := r.add("k", 1)
		r.start()
		pass(50 * time.Second)
		if s := r.state(id); s.State != lease.Ready || s.Failures > 0 || tried.Load() != 1 || !strings.Contains(s.Reason, "stay free") {
			t.Errorf("without room: %v after %d tries, %q; want it given back once", s.State, tried.Load(), s.Reason)
		}
		free.Store(160)
		pass(2 * time.Minute)
		if s := r.state(id); s.State != lease.Done {
			t.Errorf("with room: %v, want done", s.State)
		}
		r.stop()
	})
}

func TestFreeSpace(t *testing.T) {
	if n, err := freeSpace(t.TempDir()); err != nil || n == 0 {
		t.Fatalf("freeSpace = %d, %v", n, err)
	}
	if _, err := freeSpace("/no/such/folder"); err == nil {
		t.Fatalf("freeSpace of nothing succeeds")
	}
}

func TestCleanSparesOthers(t *testing.T) {
	dir := t.TempDir()
	k := key{lease.ShardID{Job: 1<<40 | 7, Seq: 3}, 1<<40 | 9}
	for _, name := range []string{folderName(k), "2024-01.films", "films", ".cache", "a-1.1-1.bak"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := clean(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Fatalf("after clean: %v, %v, want all but %q", entries, err, folderName(k))
	}
}

func TestUnknownKindIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		r.answer = func(x lease.Exchange, ans lease.Exchanged) error {
			if len(ans.Grants) > 0 {
				ans.Grants[0].Kind = "shell"
			}
			return nil
		}
		id := r.add("k", 1)
		r.start()
		pass(time.Millisecond)
		r.set(func() { r.answer = nil })
		if s := r.state(id); !strings.Contains(s.Reason, "does not do shell") {
			t.Errorf("reason is %q", s.Reason)
		}
		r.stop()
	})
}

func TestNewRefuses(t *testing.T) {
	r := newRig(t, taking(0))
	for name, spoil := range map[string]func(*Config){
		"id": func(c *Config) { c.ID = "" }, "control": func(c *Config) { c.Control = nil },
		"dir": func(c *Config) { c.Dir = "" }, "executor": func(c *Config) { c.Offer.Kinds = []lease.Kind{"x"} },
	} {
		c := r.cfg
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("New without %s succeeds", name)
		}
	}
}

// A release is sent until it was answered, and its lease does not lapse meanwhile.
func TestReleaseOutlastsOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cfg.Executors["k"] = execute(func(context.Context, Task) (Output, error) {
			r.set(func() { r.refuse = func(lease.Exchange) error { return lease.ErrFull } })
			return Output{}, &Released{Reason: "later", Delay: time.Hour}
		})
		id := r.add("k", 1)
		r.start()
		pass(10 * time.Minute)
		if s := r.state(id); s.State != lease.Leased || s.Lapsed(time.Now()) {
			t.Errorf("shard is %v, lapsed %v, want leased", s.State, s.Lapsed(time.Now()))
		}
		r.set(func() { r.refuse = nil })
		pass(highPause)
		if s := r.state(id); s.State != lease.Ready || s.Reason != "later" {
			t.Errorf("shard is %v: %q, want given back", s.State, s.Reason)
		}
		r.stop()
	})
}
