package worker

import (
	"cmp"
	"slices"
	"time"

	"macbatch/lease"
)

// hindrance is why a worker claims nothing at the moment.
type hindrance struct {
	reason string
	since  time.Duration // on the monotonic clock
	again  time.Duration // between two looks at it
}

// hinder notes why nothing is claimed, or with an empty reason that it is no more
// so. It reports whether that is news.
func (a *Agent) hinder(what, reason string, again time.Duration) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, was := a.hindered[what]
	if was == (reason != "") {
		if was {
			h.reason = reason
			a.hindered[what] = h
		}
		return false
	}
	delete(a.hindered, what)
	if reason != "" {
		a.hindered[what] = hindrance{reason, a.mono(), again}
	}
	poke(a.beatNow)
	return true
}

// lacks lists what is not offered at the moment, as a heartbeat tells it. The
// caller holds a.mu.
func (a *Agent) lacks() []lease.Withdrawal {
	now := a.mono()
	var list []lease.Withdrawal
	if a.draining {
		list = append(list, lease.Withdrawal{Reason: "it is about to end"})
	}
	if a.rests != "" {
		list = append(list, lease.Withdrawal{Reason: legible(a.rests)})
	}
	for _, h := range a.hindered {
		list = append(list, lease.Withdrawal{Reason: legible(h.reason), Age: now - h.since, Again: h.again})
	}
	for n, w := range a.withdrawn {
		if w.over(now) {
			continue
		}
		again := max(tick, a.looks-now)
		if w.term > 0 {
			again = max(tick, w.since+w.term-now)
		}
		list = append(list, lease.Withdrawal{Kind: n.Kind, Root: n.Root, Model: n.Model, Reason: w.why, Age: now - w.since, Again: again})
	}
	slices.SortFunc(list, func(x, y lease.Withdrawal) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Root, y.Root), cmp.Compare(x.Model, y.Model), cmp.Compare(x.Reason, y.Reason))
	})
	return list[:min(len(list), lease.MaxWithdrawn)]
}
