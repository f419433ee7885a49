package store

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"macbatch/lease"
)

// readyShard is a shard as the index sees it when it is added.
func readyShard(job lease.JobID, seq uint32, class int) *lease.Shard {
	return &lease.Shard{
		ID: lease.ShardID{Job: job, Seq: seq}, Project: "p", State: lease.Ready,
		Spec: lease.Spec{Need: lease.Need{Kind: "k", Model: fmt.Sprintf("model-%d", class)}, Item: seq - 1},
	}
}

// TestIndexIsSlim holds the memory that a ready shard costs to what lets a million
// wait in a small process.
func TestIndexIsSlim(t *testing.T) {
	const n = 200_000
	for _, classes := range []int{1, 100} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		x := newIndex(nil)
		for i := range uint32(n) {
			x.moved(readyShard(1, i+1, int(i)%classes), 0, time.Time{})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := float64(after.HeapAlloc-before.HeapAlloc) / n; each > 32 {
			t.Errorf("a ready shard of %d classes costs %.0f bytes, want at most 32", classes, each)
		}
		runtime.KeepAlive(x)
	}
}

// TestFrontIsFIFO compares the order of grants with a plain sort, over classes,
// priorities and projects, while shards come and go.
func TestFrontIsFIFO(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		x := newIndex(map[lease.Digest]int64{})
		var want []*lease.Shard
		priority, project, stopped := map[lease.JobID]int32{}, map[lease.JobID]lease.Project{}, lease.JobID(rnd.IntN(6))
		for job := range lease.JobID(6) {
			priority[job], project[job] = int32(rnd.IntN(3)), lease.Project([]string{"a", "b"}[rnd.IntN(2)])
		}
		seq := uint32(0)
		add := func() {
			seq++
			s := readyShard(lease.JobID(rnd.IntN(6)), seq, rnd.IntN(5))
			s.Item, s.Stage, s.Priority, s.Project = rnd.Uint32N(10), uint8(rnd.IntN(2)), priority[s.ID.Job], project[s.ID.Job]
			x.moved(s, 0, time.Time{})
			if s.Need.Model != "model-4" && s.Project == "a" && s.ID.Job != stopped {
				want = append(want, s)
			}
		}
		for range 40 {
			add()
		}
		x.stop(stopped, markCanceled)
		claim := &lease.Exchange{Hello: lease.Hello{Offer: lease.Offer{Kinds: []lease.Kind{"k"}, Models: []string{"model-0", "model-1", "model-2", "model-3"}}}}
		f := front{x: x, claim: claim, actor: &lease.Actor{Projects: []lease.Project{"a"}}}
		if rnd.IntN(3) == 0 {
			claim.Job = lease.JobID(rnd.IntN(6))
			want = slices.DeleteFunc(want, func(s *lease.Shard) bool { return claim.Job != 0 && s.ID.Job != claim.Job })
		}
		left := map[lease.Kind]int{"k": 1}
		for len(want) > 0 {
			slices.SortFunc(want, func(a, b *lease.Shard) int {
				if x.ticketOf(a).before(x.ticketOf(b)) {
					return -1
				}
				return 1
			})
			tk, ok := f.first(left)
			if !ok || tk.id() != want[0].ID {
				t.Fatalf("seed %d, round %d: first() = %v %v, want %v", seed, round, tk.id(), ok, want[0].ID)
			}
			s := want[0]
			want = want[1:]
			s.State = lease.Canceled
			x.moved(s, lease.Ready, time.Time{})
			if claim.Job == 0 && rnd.IntN(4) == 0 {
				add()
			}
		}
		if tk, ok := f.first(left); ok {
			t.Fatalf("seed %d, round %d: first() = %v, want none", seed, round, tk.id())
		}
		x.resume(stopped)
		if tk, ok := f.first(left); ok && tk.line.job != stopped {
			t.Fatalf("seed %d, round %d: first() = %v, want one of job %v", seed, round, tk.id(), stopped)
		} else if !ok {
			for _, l := range x.lines {
				if l.job == stopped && l.project == "a" && l.need.Model != "model-4" && l.slots.Len() > 0 && (claim.Job == 0 || claim.Job == stopped) {
					t.Fatalf("seed %d, round %d: the resumed job has shards, none is offered", seed, round)
				}
			}
		}
		left["k"] = 0
		if tk, ok := f.first(left); ok {
			t.Fatalf("seed %d, round %d: first() without room = %v", seed, round, tk.id())
		}
	}
}

// TestLapsesAreCleared checks that leases that ended leave nothing behind.
func TestLapsesAreCleared(t *testing.T) {
	x := newIndex(map[lease.Digest]int64{})
	for i := range uint32(20_000) {
		s := readyShard(1, i+1, 0)
		x.moved(s, 0, time.Time{})
		s.State, s.Fence, s.Holder.Worker = lease.Leased, lease.Fence(i+1), "w"
		x.moved(s, lease.Ready, time.Time{})
		s.State = lease.Done
		x.moved(s, lease.Leased, time.Time{})
	}
	if len(x.lapses) > 2000 || len(x.jobs)+len(x.lines)+len(x.classes)+len(x.leases)+len(x.workers) > 0 {
		t.Fatalf("the index keeps %d deadlines, %d jobs, %d lines, %d classes, %d leases, %d workers",
			len(x.lapses), len(x.jobs), len(x.lines), len(x.classes), len(x.leases), len(x.workers))
	}
}
