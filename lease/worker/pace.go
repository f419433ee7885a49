package worker

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"macbatch/lease"
)

const (
	aheadTime  = lease.Heartbeat // of work that each slot holds beyond what it does
	leaseLimit = 100             // default of Config.LeaseLimit
	keptLoaded = 5 * time.Minute // after its last use a model is taken to be in memory still: Ollama's default
	forgetting = 0.9             // what a pace's earlier samples count when a new one comes
	maxModels  = 100             // whose paces and uses are remembered
)

// errAsked is the cause of a waiting task's end when others have nothing to do.
var errAsked = errors.New("another worker can begin it now")

// work names what a pace is learned of.
type work struct {
	kind  lease.Kind
	model string
}

// sample is what was learned of some work: a sum of times and one of units, in which
// earlier shards count less.
type sample struct {
	took, units float64
	last        time.Duration // on the monotonic clock
}

// learn takes in a shard that was done.
func (a *Agent) learn(t *task, took time.Duration) {
	if t.grant.Work == 0 || took <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := work{t.grant.Kind, t.grant.Model}
	s := a.paces[w]
	if s == nil {
		if len(a.paces) >= maxModels {
			oldest := w
			for k, o := range a.paces {
				if old := a.paces[oldest]; old == nil || o.last < old.last {
					oldest = k
				}
			}
			delete(a.paces, oldest)
		}
		s = &sample{}
		a.paces[w] = s
	}
	s.took = s.took*forgetting + float64(took)
	s.units = s.units*forgetting + float64(t.grant.Work)
	s.last = a.mono()
}

// known are the paces of what is offered. The caller holds a.mu.
func (a *Agent) known(o lease.Offer) []lease.Pace {
	var all []lease.Pace
	for w, s := range a.paces {
		n := lease.Need{Kind: w.kind, Model: w.model}
		if !o.Able(n) {
			continue
		}
		thousand := min(1000*s.took/s.units, math.MaxInt64/2)
		all = append(all, lease.Pace{Kind: w.kind, Model: w.model, Thousand: max(1, time.Duration(thousand)), Slots: min(a.slots(w.kind), a.cfg.Parallel)})
	}
	slices.SortFunc(all, func(p, q lease.Pace) int {
		return cmp.Or(cmp.Compare(p.Kind, q.Kind), cmp.Compare(p.Model, q.Model))
	})
	return all
}

// held is how long one slot would take for all that is held and not done, as far as
// that can be told. The caller holds a.mu.
func (a *Agent) held(paces []lease.Pace) (d time.Duration) {
	for _, t := range a.tasks {
		if p := lease.PaceOf(paces, t.grant.Kind, t.grant.Model); p != nil {
			left := p.Takes(t.grant.Work - min(t.grant.Work, t.work.Load()))
			if t.phase == lease.Running {
				left = min(left, max(0, p.Takes(t.grant.Work)-(a.mono()-t.began)))
			}
			d += left
		}
	}
	return d
}

// loaded is the model that was begun last, if it is in memory still. The caller holds a.mu.
func (a *Agent) loaded() []string {
	if a.model == "" || a.uses == 0 && a.mono()-a.used > keptLoaded {
		return nil
	}
	return []string{a.model}
}

// use notes that a task begins, and unuse that it has ended: with its model. The
// caller holds a.mu.
func (a *Agent) use(t *task) {
	m := t.grant.Model
	if m == "" || a.cfg.Loads != nil && !a.cfg.Loads(m) {
		return
	}
	if m != a.model {
		a.model, a.uses = m, 0
	}
	t.loads = true
	a.uses++
}

func (a *Agent) unuse(t *task) {
	if t.loads && t.grant.Model == a.model {
		a.uses--
		a.used = a.mono()
	}
}

// admit lets waiting tasks begin for which there are slots, in the order they came.
// The caller holds a.mu.
func (a *Agent) admit() {
	all, busy := a.busy()
	a.queue = slices.DeleteFunc(a.queue, func(t *task) bool {
		switch k := t.grant.Kind; {
		case t.ctx.Err() != nil:
			return true // it ends by itself
		case all >= a.cfg.Parallel || busy[k] >= a.slots(k):
			return false
		default:
			all++
			busy[k]++
			t.slot = true
			close(t.admitted)
			return true
		}
	})
}

// busy counts the slots that are taken. The caller holds a.mu.
func (a *Agent) busy() (all int, per map[lease.Kind]int) {
	per = map[lease.Kind]int{}
	for _, t := range a.tasks {
		if t.slot {
			all++
			per[t.grant.Kind]++
		}
	}
	return all, per
}

// asked gives back what was asked for and has not begun. The caller holds a.mu.
func (a *Agent) asked(back []lease.ShardID) {
	for _, t := range a.tasks {
		if !t.slot && slices.Contains(back, t.grant.Shard) {
			t.cancel(errAsked)
		}
	}
}
