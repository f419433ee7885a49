package worker_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
	"macbatch/lease/worker"
	"macbatch/spool"
)

var (
	skewSeeds = flag.Int("skew", 3, "fleets of unequal workers to simulate, for each quality of estimates")
	skewFirst = flag.Uint64("skew-seed", 1, "the first of their seeds")
)

// fleet is a real store and real workers in virtual time.
type fleet struct {
	*testing.T
	ctl   lease.Control
	store *store.Store
	stop  []func()
}

// newFleet runs a store whose leases have a term. It is called within a bubble.
func newFleet(t *testing.T, term time.Duration) *fleet {
	t.Helper()
	s, err := store.Open(store.Options{
		Engine: memkv.Open(), Blobs: leasetest.NewBlobs(), Planner: leasetest.Planner{}, Term: term, Rand: rand.New(rand.NewPCG(1, 2)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f := &fleet{T: t, store: s, ctl: s.As(leasetest.Admin)}
	f.stop = append(f.stop, func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run store: %v", err)
		}
	})
	return f
}

// executor is an executor in a function.
type executor func(ctx context.Context, t worker.Task) error

func (e executor) Execute(ctx context.Context, t worker.Task) (worker.Output, error) {
	return worker.Output{Result: []byte(`{"text":"done"}`)}, e(ctx, t)
}

// join adds a worker.
func (f *fleet) join(id lease.WorkerID, c worker.Config, e executor) *worker.Agent {
	f.Helper()
	sp, err := spool.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(uint64(len(f.stop)), 3))
	c.ID, c.Incarnation, c.Machine, c.Control, c.Spool, c.Dir = id, 1, string(id), f.ctl, sp, f.TempDir()
	c.Executors, c.Rand = map[lease.Kind]worker.Executor{leasetest.Work: e}, rnd.Float64
	a, err := worker.New(c)
	if err != nil {
		f.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	f.stop = append(f.stop, func() {
		end()
		if err := <-ended; err != nil {
			f.Errorf("worker %s: %v", id, err)
		}
	})
	return a
}

// end stops all, the workers first, and verifies the store.
func (f *fleet) end() {
	f.Helper()
	problems, err := f.ctl.Verify(context.Background())
	if err != nil || len(problems) > 0 {
		f.Errorf("verify: %v, %v", problems, err)
	}
	for _, stop := range slices.Backward(f.stop) {
		stop()
	}
}

// leave stops the worker that joined last.
func (f *fleet) leave() {
	last := len(f.stop) - 1
	f.stop[last]()
	f.stop = f.stop[:last]
}

// done lets time pass until a job has ended.
func (f *fleet) done(id lease.JobID, within time.Duration) {
	f.Helper()
	for end := time.Now().Add(within); ; {
		j := leasetest.JobOf(f, f.ctl, id)
		if j.State == lease.JobDone {
			return
		}
		if j.State.Terminal() || time.Now().After(end) {
			f.Fatalf("job %v is %s: %+v", id, j.State, j.Shards)
		}
		lapse(time.Second / 4)
	}
}

// lapse lets time pass, and what falls into it happen.
func lapse(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble
	synctest.Wait()
}

// busy takes so long and tells of its progress now and then.
func busy(ctx context.Context, t worker.Task, d time.Duration) error {
	for began := time.Now(); ; {
		past := time.Since(began)
		if past >= d {
			return nil
		}
		t.Progress(uint64(float64(t.Grant.Work) * float64(past) / float64(d)))
		select {
		case <-time.After(min(d-past, 5*time.Second)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// item is the number of the item that a test shard is of.
func item(t worker.Task) int {
	var p leasetest.Payload
	if err := json.Unmarshal(t.Grant.Payload, &p); err != nil {
		panic(err)
	}
	return p.Item
}

// skew lets workers of speeds 1:2:4:8 do 500 shards of log-normal sizes, whose
// estimates are off by up to part of them, and returns how much longer that took
// than if all had been busy to the end.
func skew(t *testing.T, seed uint64, off float64) (ratio float64) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		const shards = 500
		sizes, works, sum := make([]float64, shards), make([]uint64, shards), 0.0
		for i := range sizes {
			sizes[i] = 36 * math.Exp(rnd.NormFloat64()) // seconds at speed 1
			sum += sizes[i]
			works[i] = uint64(1000 * sizes[i] * (1 + off*(2*rnd.Float64()-1)))
		}
		f := newFleet(t, 0)
		defer f.end()
		speeds := []float64{1, 2, 4, 8}
		for _, speed := range speeds {
			f.join(lease.WorkerID(fmt.Sprint("speed-", speed)), worker.Config{}, func(ctx context.Context, k worker.Task) error {
				return busy(ctx, k, time.Duration(sizes[item(k)]/speed*float64(time.Second)))
			})
		}
		began := time.Now()
		f.done(leasetest.Submit(t, f.ctl, leasetest.Params{Items: shards, Works: works}), 10*time.Hour)
		ratio = time.Since(began).Seconds() / (sum / 15)
	})
	return ratio
}

// TestSkew: unequal workers end together. One in some dozens of fleets is unlucky: the
// order in which workers ask at one instant is left to chance, and the last large
// shard goes to a slow one.
func TestSkew(t *testing.T) {
	for _, c := range []struct {
		name        string
		off         float64
		most, worst float64 // for half of the fleets, and for each
	}{{"exact", 0, 1.05, 1.1}, {"±50 %", 0.5, 1.15, 1.15}} {
		var ratios []float64
		for i := range *skewSeeds {
			ratios = append(ratios, skew(t, *skewFirst+uint64(i), c.off))
		}
		slices.Sort(ratios)
		if half, most := ratios[len(ratios)/2], ratios[len(ratios)-1]; half > c.most || most > c.worst {
			t.Errorf("estimates %s, seeds from %d: %.3f times the ideal, %.3f at worst, want at most %.2f and %.2f", c.name, *skewFirst, half, most, c.most, c.worst)
		}
		t.Logf("500 shards on workers of speed 1:2:4:8, estimates %s: %.3f times the ideal, %.3f at worst of %d seeds from %d",
			c.name, ratios[len(ratios)/2], ratios[len(ratios)-1], len(ratios), *skewFirst)
	}
}
