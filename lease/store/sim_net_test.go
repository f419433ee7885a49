package store_test

import (
	"errors"
	"time"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// The network loses messages and answers, delivers some twice, and some so late
// that others, sent after them, came first. A message that is under way belongs
// to what its sender was when it was sent.

// dropped reports that a message of a worker does not arrive at all.
func (w *world) dropped() bool {
	if w.rnd.IntN(25) > 0 {
		return false
	}
	w.count["dropped"]++
	return true
}

// delayed takes a message that is to arrive later, in any order.
func (w *world) delayed(arrive func()) bool {
	if w.rnd.IntN(12) > 0 {
		return false
	}
	w.late = append(w.late, arrive)
	w.count["late"]++
	return true
}

// arrive lets a message come in that was under way, sometimes twice.
func (w *world) arrive() {
	if len(w.late) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.late))
	message := w.late[i]
	if w.rnd.IntN(4) == 0 {
		w.count["twice"]++
	} else {
		w.late = append(w.late[:i], w.late[i+1:]...)
	}
	message()
}

// astray deals with the error of a message that nobody waits for any more: it
// may come too late to be heeded at all.
func (w *world) astray(what string, err error) {
	if errors.Is(err, lease.ErrTwin) || errors.Is(err, lease.ErrInvalid) {
		w.count["too late"]++
		return
	}
	w.failed(what, err)
}

// ask sends a claim; when it returns false there was no answer.
func (w *world) ask(p *player, n int) (out lease.Exchanged, answered bool) {
	x := lease.Exchange{Hello: p.Hello, Request: p.request, Max: n, PerKind: map[lease.Kind]int{leasetest.Work: n}}
	if w.dropped() || w.delayed(func() {
		_, err := w.ctl().Exchange(w.Context(), x)
		w.astray("late claim", err)
	}) {
		return out, false
	}
	out, err := w.ctl().Exchange(w.Context(), x)
	if w.failed("claim", err) {
		return out, false
	}
	p.hear(out.Mark)
	return out, true
}

// post sends a report, which may be lost, late or doubled.
func (w *world) post(p *player, rep lease.Report) {
	if w.dropped() || w.delayed(func() { w.deliver(p, rep) }) {
		return
	}
	w.deliver(p, rep)
	if w.rnd.IntN(12) == 0 {
		w.count["twice"]++
		w.deliver(p, rep)
	}
}

// freeze stops a worker, as SIGSTOP or a closed lid does: it does nothing, and
// when it goes on it knows of nothing.
func (w *world) freeze(p *player) {
	p.frozen = w.clock.Now().Add(time.Duration(w.rnd.IntN(300)) * time.Second)
	w.count["frozen"]++
}

// stall stops the control plane for a moment or for long.
func (w *world) stall() {
	w.clock.Advance(lease.Heartbeat + time.Duration(w.rnd.IntN(100))*time.Second)
	w.count["stall"]++
	w.touch()
}
