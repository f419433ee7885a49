package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// models submits a job of one shard for each word: its letter names the model, none
// for "-", and a "!" behind it a higher priority.
func models(t *testing.T, ctl lease.Control, words string) map[lease.JobID]string {
	t.Helper()
	names := map[lease.JobID]string{}
	for i, w := range strings.Fields(words) {
		sub := lease.Submission{Kind: "test", Params: fmt.Appendf(nil, `{"items":1,"model":%q,"distinct":"%d"}`, strings.Trim(w, "-!0123456789"), i)}
		if strings.HasSuffix(w, "!") {
			sub.Priority = 1
		}
		id, err := ctl.Submit(t.Context(), sub)
		if err != nil {
			t.Fatal(err)
		}
		names[id] = w
	}
	return names
}

// capable is a worker with the models a, b and c.
func capable(t *testing.T, ctl lease.Control, id lease.WorkerID) *leasetest.Worker {
	w := leasetest.NewWorker(t, ctl, id)
	w.Offer.Models = []string{"a", "b", "c"}
	return w
}

func TestLoadedModelFirst(t *testing.T) {
	for _, c := range []struct{ jobs, loaded, want string }{
		{"a1 b1 a2 b2", "", "a1 a2 b1 b2"},  // what the worker is going to load stays
		{"a1 b1 a2 b2", "b", "b1 b2 a1 a2"}, // what it has goes first
		{"a1 b1 c1 a2 b2 c2", "b", "b1 b2 a1 a2 c1 c2"},
		{"a1 b1 c1 a2 b2 c2", "b c", "b1 c1 b2 c2 a1 a2"}, // two that are loaded take turns
		{"a1 b1 a2! b2!", "b", "b2! a2! a1 b1"},           // within a priority
		{"a1! b1", "b", "a1! b1"},
		{"a1 -1 b1", "b", "a1 -1 b1"}, // what needs no model is not passed
		{"-1 a1 b1 -2", "b", "-1 b1 a1 -2"},
		{"a1 b1", "x", "a1 b1"},
	} {
		_, ctl := open(t)
		names := models(t, ctl, c.jobs)
		w := capable(t, ctl, "w")
		w.Request++
		var got []string
		for _, g := range w.Exchange(lease.Exchange{Max: 10, Loaded: strings.Fields(c.loaded)}).Grants {
			got = append(got, names[g.Shard.Job])
			if m := strings.Trim(names[g.Shard.Job], "-!0123456789"); g.Model != m {
				t.Errorf("the grant of %s says model %q", names[g.Shard.Job], g.Model)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q with %q loaded: granted %q, want %q", c.jobs, c.loaded, got, c.want)
		}
	}
}

// one claims a single shard with a model loaded, does it, and says which it was.
func one(t *testing.T, w *leasetest.Worker, names map[lease.JobID]string, loaded ...string) string {
	t.Helper()
	w.Request++
	gs := w.Exchange(lease.Exchange{Max: 1, Loaded: loaded}).Grants
	if len(gs) == 0 {
		return ""
	}
	w.Report(leasetest.Done(gs[0], "x"))
	return names[gs[0].Shard.Job]
}

// A shard is passed by those of a loaded model for ten minutes and no longer, by the
// control plane's monotonic clock, however many workers pass it.
func TestPassedForTenMinutes(t *testing.T) {
	f, ctl := open(t)
	names := models(t, ctl, "b1 c1 a1 a2 a3 a4 a5 b2 c2 b3")
	w, v := capable(t, ctl, "w"), capable(t, ctl, "v")
	for _, step := range []struct {
		after  time.Duration
		by     *leasetest.Worker
		loaded string
		want   string
	}{
		{0, w, "a", "a1"},
		{lease.MaxPassed / 2, v, "a", "a2"},
		{lease.MaxPassed/2 - time.Millisecond, w, "a", "a3"},
		{time.Millisecond, w, "a", "b1"}, // its time is over
		{0, w, "b", "c1"},                // and that of this one, whatever is loaded now
		{0, w, "c", "c2"},
		{0, v, "a", "a4"}, // b2 is passed since now
		{time.Minute, w, "b", "b2"},
		{lease.MaxPassed - time.Minute, v, "a", "a5"}, // b3 was not passed before
		{0, v, "a", "b3"},
	} {
		f.Clock.Advance(step.after)
		if got := one(t, step.by, names, step.loaded); got != step.want {
			t.Fatalf("%v later with %s loaded: granted %q, want %q", step.after, step.loaded, got, step.want)
		}
	}
}

// alternate lets workers do small jobs of n models in turns, a second a shard, and
// counts how often a worker had to load another model.
func alternate(t *testing.T, n, workers int, tell bool) (switches int) {
	f, ctl := open(t)
	const jobs = 60
	var words []string
	for i := range jobs {
		words = append(words, string(rune('a'+i%n)))
	}
	names := models(t, ctl, strings.Join(words, " "))
	var ws []*leasetest.Worker
	for i := range workers {
		ws = append(ws, capable(t, ctl, lease.WorkerID(fmt.Sprint("w", i))))
	}
	has := make([]string, workers)
	for done := 0; done < jobs; {
		for i, w := range ws {
			var loaded []string
			if tell && has[i] != "" {
				loaded = []string{has[i]}
			}
			if got := one(t, w, names, loaded...); got != "" {
				done++
				if got != has[i] {
					has[i] = got
					switches++
				}
			}
		}
		f.Clock.Advance(time.Second)
	}
	return switches
}

// Jobs of models in turns do not make workers load them in turns.
func TestModelSwitches(t *testing.T) {
	for _, c := range []struct{ models, workers int }{{2, 1}, {3, 1}, {2, 2}, {3, 2}} {
		blind, got := alternate(t, c.models, c.workers, false), alternate(t, c.models, c.workers, true)
		t.Logf("60 jobs of %d models in turns, %d workers: %d loads, %d in strict order", c.models, c.workers, got, blind)
		if most := c.models * c.workers; got > most {
			t.Errorf("%d models, %d workers: %d loads, want at most %d", c.models, c.workers, got, most)
		}
	}
}

// However much there is to do with one model, the oldest shard of another is passed
// for ten minutes at most, and the time that it takes to be done with one or two.
func TestLoadedModelStarvesNobody(t *testing.T) {
	f, ctl := open(t)
	const shard = 30 * time.Second
	names, passed, open := map[lease.JobID]string{}, map[lease.JobID]time.Time{}, []lease.JobID{}
	w, has, worst, loads, done := capable(t, ctl, "w"), "a", time.Duration(0), 0, map[string]int{}
	for round := range 400 {
		words := "a a" // more than can be done
		if round%10 == 0 {
			words += " b c"
		}
		for id, m := range models(t, ctl, words) {
			names[id] = m
			open = append(open, id)
		}
		slices.Sort(open)
		w.Request++
		g := w.Exchange(lease.Exchange{Max: 1, Loaded: []string{has}}).Grants[0]
		w.Report(leasetest.Done(g, "x"))
		now, m := f.Clock.Now(), names[g.Shard.Job]
		if has != m {
			has = m
			loads++
		}
		done[m]++
		if since, ok := passed[g.Shard.Job]; ok {
			worst = max(worst, now.Sub(since))
		}
		oldest := map[string]bool{}
		open = slices.DeleteFunc(open, func(id lease.JobID) bool { return id == g.Shard.Job })
		for _, id := range open { // those that were passed now, each the oldest of its model
			if !oldest[names[id]] && id < g.Shard.Job && passed[id].IsZero() {
				passed[id] = now
			}
			oldest[names[id]] = true
		}
		f.Clock.Advance(shard)
	}
	t.Logf("%v shards done with %d loads in %v; the oldest of a model was passed for %v at most", done, loads, 400*shard, worst)
	if worst < lease.MaxPassed/2 || worst > lease.MaxPassed+2*shard {
		t.Errorf("the oldest of a model was passed for %v, want up to %v", worst, lease.MaxPassed)
	}
	if most := int(3*400*shard/lease.MaxPassed) + 3; loads > most {
		t.Errorf("%d loads in %v, want at most %d", loads, 400*shard, most)
	}
}

// paced is a claim by a worker of one slot that needs so long for 1000 units of work.
func paced(thousand time.Duration, x lease.Exchange) lease.Exchange {
	x.Paces = []lease.Pace{{Kind: leasetest.Work, Thousand: thousand, Slots: 1}}
	return x
}

func seqs(gs []lease.Grant) []uint32 {
	list := []uint32{}
	for _, g := range gs {
		list = append(list, g.Shard.Seq)
	}
	return list
}

// Near the end a slow worker leaves to a faster one what would end last, but not to
// one that does not come.
func TestLeftToFaster(t *testing.T) {
	claim := func(w *leasetest.Worker, thousand time.Duration, max int) []uint32 {
		w.Request++
		return seqs(w.Exchange(paced(thousand, lease.Exchange{Max: max})).Grants)
	}
	for _, c := range []struct {
		name  string
		slow  time.Duration // for what the other does in a second
		works []uint64
		wait  time.Duration // before the slow one claims
		want  []uint32
	}{
		{"the tail", 10 * time.Second, []uint64{1000, 8000, 100}, 0, []uint32{3}},
		{"the middle", 10 * time.Second, []uint64{1000, 1000, 40_000, 40_000}, 0, []uint32{2}},
		{"an equal", 1400 * time.Millisecond, []uint64{1000, 8000, 100}, 0, []uint32{2}},
		{"a faster one that is gone", 10 * time.Second, []uint64{1000, 8000, 100}, lease.Term, []uint32{2}},
		{"sizes that are not known", 10 * time.Second, []uint64{1000, 0, 100}, 0, []uint32{2}},
	} {
		f, ctl := open(t)
		fast, slow := leasetest.NewWorker(t, ctl, "fast"), leasetest.NewWorker(t, ctl, "slow")
		leasetest.Submit(t, ctl, leasetest.Params{Items: len(c.works), Works: c.works})
		if got := claim(fast, time.Second, 1); !slices.Equal(got, []uint32{1}) {
			t.Fatalf("%s: the fast worker is granted %v", c.name, got)
		}
		f.Clock.Advance(c.wait)
		if got := claim(slow, c.slow, 1); !slices.Equal(got, c.want) {
			t.Errorf("%s: the slow worker is granted %v, want %v", c.name, got, c.want)
		}
	}

	f, ctl := open(t)
	fast, slow := leasetest.NewWorker(t, ctl, "fast"), leasetest.NewWorker(t, ctl, "slow")
	leasetest.Submit(t, ctl, leasetest.Params{Items: 2, Works: []uint64{1000, 8000}})
	claim(fast, time.Second, 1)
	if got := claim(slow, 10*time.Second, 1); len(got) > 0 {
		t.Fatalf("the slow worker is granted %v, want it left to the fast one", got)
	}
	f.Clock.Advance(9 * time.Second) // in which it would have been done with all
	if got := claim(slow, 10*time.Second, 1); !slices.Equal(got, []uint32{2}) {
		t.Errorf("the slow worker is granted %v, want what nobody came for", got)
	}
}

// A worker is granted ahead what it asks for in time and number, no more than its
// share, and by known sizes only.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name  string
		x     lease.Exchange
		other bool // as fast a worker has one of them
		n     int
		want  int
	}{
		{"by time", lease.Exchange{Max: 1, Extra: 10, Ahead: 5 * time.Second}, false, 20, 5},
		{"by number", lease.Exchange{Max: 1, Extra: 2, Ahead: 5 * time.Second}, false, 20, 3},
		{"all held", lease.Exchange{Max: 1, Extra: 10, Ahead: 5 * time.Second, Held: 10 * time.Second}, false, 20, 1},
		{"nothing free", lease.Exchange{Extra: 10, Ahead: 5 * time.Second, Held: 3 * time.Second}, false, 20, 2},
		{"its share", lease.Exchange{Max: 1, Extra: 10, Ahead: 5 * time.Second}, true, 5, 2},
		{"nothing", lease.Exchange{Max: 1}, false, 20, 1},
	} {
		_, ctl := open(t)
		works := make([]uint64, c.n)
		for i := range works {
			works[i] = 1024
		}
		leasetest.Submit(t, ctl, leasetest.Params{Items: c.n, Works: works})
		if c.other {
			o := leasetest.NewWorker(t, ctl, "o")
			o.Request++
			o.Exchange(paced(time.Second*1000/1024, lease.Exchange{Max: 1}))
		}
		w := leasetest.NewWorker(t, ctl, "w")
		w.Request++
		if c.x.Max == 0 {
			c.x.PerKind = map[lease.Kind]int{}
		}
		if got := w.Exchange(paced(time.Second*1000/1024, c.x)).Grants; len(got) != c.want {
			t.Errorf("%s: %d grants, want %d", c.name, len(got), c.want)
		}
	}
	_, ctl := open(t)
	w := leasetest.NewWorker(t, ctl, "w")
	for _, x := range []lease.Exchange{{Extra: lease.MaxGrants + 1}, {Max: 1, Paces: make([]lease.Pace, lease.MaxPaces+1)}, {Max: 1, Loaded: make([]string, lease.MaxPaces+1)}} {
		w.Request++
		if _, err := w.Try(x); err == nil {
			t.Errorf("a claim of %d more, with %d paces and %d models, is taken", x.Extra, len(x.Paces), len(x.Loaded))
		}
	}
}
