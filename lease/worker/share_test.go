package worker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/leasetest"
	"macbatch/lease/worker"
)

// log notes what an executor begins, and how much at once.
type log struct {
	mu        sync.Mutex
	items     []int
	now, most int
}

func (l *log) taking(d time.Duration) executor {
	return func(ctx context.Context, k worker.Task) error {
		l.mu.Lock()
		l.items = append(l.items, item(k))
		l.now++
		l.most = max(l.most, l.now)
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			l.now--
			l.mu.Unlock()
		}()
		return busy(ctx, k, d)
	}
}

// sized is the work of n shards, alike.
func sized(n int) []uint64 { return slices.Repeat([]uint64{1000}, n) }

// A worker holds what its slots do within a heartbeat, no more than its limit, and
// does it in order.
func TestClaimsAhead(t *testing.T) {
	for _, c := range []struct{ limit, least, most int }{{0, 25, 34}, {5, 5, 5}, {1, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 0)
			defer f.end()
			var l log
			f.join("w", worker.Config{Parallel: 2, LeaseLimit: c.limit}, l.taking(time.Second))
			id := leasetest.Submit(t, f.ctl, leasetest.Params{Items: 80, Works: sized(80)})
			most := 0
			for range 30 {
				lapse(500 * time.Millisecond)
				most = max(most, int(leasetest.JobOf(t, f.ctl, id).Shards.Leased))
			}
			if most < c.least || most > c.most {
				t.Errorf("limit %d: %d leases at once, want %d to %d", c.limit, most, c.least, c.most)
			}
			f.done(id, 2*time.Minute)
			if l.most != min(2, max(1, c.most)) || !inOrder(l.items) || len(l.items) != 80 {
				t.Errorf("limit %d: %d shards at once of %d, in the order %v", c.limit, l.most, len(l.items), l.items)
			}
		})
	}
}

// inOrder reports whether items were begun in their order, but for two that begin at
// the same moment.
func inOrder(items []int) bool {
	for i, n := range items {
		if n < i-1 || n > i+1 {
			return false
		}
	}
	return true
}

// What a worker has not begun it gives back for another that has nothing to do, and
// no attempt counts.
func TestGivesBackForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 6*time.Second)
		defer f.end()
		var first, second log
		f.join("w1", worker.Config{}, first.taking(3*time.Second))
		id := leasetest.Submit(t, f.ctl, leasetest.Params{Items: 6, Works: sized(6)})
		lapse(4 * time.Second)
		if j := leasetest.JobOf(t, f.ctl, id); j.Shards.Leased != 5 {
			t.Fatalf("job counts %+v, want all that is left leased", j.Shards)
		}
		began := time.Now()
		f.join("w2", worker.Config{}, second.taking(3*time.Second))
		f.done(id, time.Minute)
		if took := time.Since(began); len(second.items) < 2 || took > 10*time.Second {
			t.Errorf("the second worker did %v, and all was done after %v, want them to share", second.items, took)
		}
		if all := append(first.items, second.items...); len(all) != 6 {
			t.Errorf("begun were %v and %v, want each once", first.items, second.items)
		}
		shards, err := f.ctl.Shards(context.Background(), id, 0, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range shards {
			if s.Failures != 0 || s.Lapses != 0 {
				t.Errorf("shard %v counts %d failures and %d lapses", s.ID, s.Failures, s.Lapses)
			}
		}
	})
}

// A worker goes on with the model that it began last.
func TestStaysWithItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 0)
		defer f.end()
		var mu sync.Mutex
		loads, last := map[bool]int{}, map[bool]string{}
		count := func(knows bool) executor {
			return func(ctx context.Context, k worker.Task) error {
				mu.Lock()
				if last[knows] != k.Grant.Model {
					last[knows] = k.Grant.Model
					loads[knows]++
				}
				mu.Unlock()
				return busy(ctx, k, time.Second)
			}
		}
		for _, knows := range []bool{true, false} {
			var jobs []lease.JobID
			for i := range 40 {
				jobs = append(jobs, leasetest.Submit(t, f.ctl, leasetest.Params{Items: 1, Model: []string{"a", "b"}[i%2], Distinct: time.Now().String()}))
			}
			c := worker.Config{Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}, Models: []string{"a", "b"}}, LeaseLimit: 1}
			if !knows {
				c.Loads = func(string) bool { return false }
			}
			f.join(lease.WorkerID("w"+jobs[0].String()), c, count(knows))
			for _, id := range jobs {
				f.done(id, 10*time.Minute)
			}
			f.leave()
		}
		if loads[true] > 2 || loads[false] < 30 {
			t.Errorf("%d loads, %d where models are not told; want 2 and one for each of 40 jobs", loads[true], loads[false])
		}
	})
}

// A worker that nothing can be done by asks seldom.
func TestIdleCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 0)
		defer f.end()
		leasetest.Submit(t, f.ctl, leasetest.Params{Items: 3, Root: "elsewhere"})
		asked := 0
		f.ctl = counted{f.ctl, &asked}
		f.join("w", worker.Config{}, func(context.Context, worker.Task) error { return nil })
		lapse(10 * time.Minute)
		if most := int(10*time.Minute/lease.MaxWait) + 2; asked > most {
			t.Errorf("%d exchanges in ten idle minutes, want at most %d", asked, most)
		}
		ev, err := f.store.As(leasetest.Admin).Events(context.Background(), lease.ShardID{}, 0, 100)
		if err != nil || len(ev) > 6 {
			t.Errorf("%d events, %v; want none of an idle worker", len(ev), err)
		}
	})
}

// counted counts exchanges.
type counted struct {
	lease.Control
	n *int
}

func (c counted) Exchange(ctx context.Context, x lease.Exchange) (lease.Exchanged, error) {
	*c.n++
	return c.Control.Exchange(ctx, x)
}
