package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// known about a shard that somebody asks about: its rows, as of one commit.
type asked struct {
	job       *jobRow
	shard     *lease.Shard
	successor uint32
	before    []lease.Shard // that it waits for, and that are not done
}

// Why implements lease.Control.
func (c *control) Why(_ context.Context, of lease.ShardID) (out lease.Why, err error) {
	s := c.s
	var q asked
	err = c.view(func(r kv.Reader) (err error) {
		q.job, err = c.job(r, of.Job)
		return err
	})
	if err != nil {
		return out, err
	}
	if of.Seq == 0 {
		s.mu.Lock()
		q.job.Parked = s.index.parked(of.Job, s.now())
		next := s.index.next(of.Job)
		waits, _ := s.waits(&q.job.Job, s.now())
		s.mu.Unlock()
		if next == 0 || q.job.Canceled {
			out.Text = ofJob(&q.job.Job, waits)
			return out, nil
		}
		of.Seq = next
	}
	if err = c.view(func(r kv.Reader) error { return q.read(r, of) }); err != nil {
		return out, err
	}
	actor, err := c.actor.now()
	if err != nil {
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	out = lease.Why{Shard: of, Kind: q.shard.Need.Kind, State: q.shard.State}
	if q.job.Canceled && !q.shard.State.Terminal() { // its row follows
		out.Text = ofJob(&q.job.Job, "")
		return out, nil
	}
	out.Text = s.whyItself(&q, now)
	if q.shard.State == lease.Ready || q.shard.State == lease.Leased {
		out.Workers = s.whyThere(&actor, &q, now)
	}
	return out, nil
}

// read takes in the rows.
func (q *asked) read(r kv.Reader, of lease.ShardID) (err error) {
	if q.job, q.shard, err = rows(r, of); err != nil {
		return err
	}
	q.successor = successor(r.Get(shardKey(keyNext, of)))
	if q.shard.State != lease.Blocked {
		return nil
	}
	for _, seq := range q.shard.After {
		_, on, err := rows(r, lease.ShardID{Job: of.Job, Seq: seq})
		if err != nil {
			return err
		}
		if on.State != lease.Done {
			q.before = append(q.before, *on)
		}
	}
	return nil
}

// next is the number of the shard of a job that stands first: ready before
// resting, suspect and leased ones; 0: none of these. s.mu is held.
func (x *index) next(id lease.JobID) uint32 {
	var best *ticket
	take := func(t ticket) {
		if t.line.job == id && (best == nil || t.before(*best)) {
			best = &t
		}
	}
	if j := x.jobs[id]; j != nil {
		for _, l := range j.lines {
			if first, ok := l.slots.Min(); ok {
				take(ticket{line: l, slot: first})
			}
		}
	}
	if best == nil {
		for _, t := range x.resting {
			take(t)
		}
	}
	if best == nil {
		for _, t := range x.aside {
			take(t)
		}
	}
	if best == nil {
		x.suspects.Ascend(func(t ticket) bool { take(t); return true })
	}
	if best == nil {
		for _, l := range x.leases {
			take(l.ticket)
		}
	}
	if best == nil {
		return 0
	}
	return best.seq
}

// ofJob tells of a job of which no shard waits.
func ofJob(j *lease.Job, waits string) string {
	switch {
	case j.Canceled && !j.State.Terminal():
		return fmt.Sprintf("it is %s: %s", lease.JobCanceled, j.Reason)
	case j.State.Terminal() && j.Reason != "":
		return fmt.Sprintf("it is %s: %s", j.State, j.Reason)
	case j.State.Terminal():
		return "it is " + string(j.State)
	case waits != "":
		return waits
	case j.Plans > 0:
		return "what follows from its results is being added"
	}
	return "nothing of it waits"
}

// whyItself tells what keeps a shard from ending, apart from workers. s.mu is held.
func (s *Store) whyItself(q *asked, now time.Time) string {
	sh, x := q.shard, s.index
	switch sh.State {
	case lease.Done, lease.Failed, lease.Canceled:
		text := "it is " + sh.State.String()
		if sh.State != lease.Done && sh.Reason != "" {
			text += ": " + sh.Reason
		}
		if q.successor != 0 {
			text += fmt.Sprintf("; shard %v came in its place", lease.ShardID{Job: sh.ID.Job, Seq: q.successor})
		}
		return text
	case lease.Blocked:
		if len(q.before) == 0 {
			return "what it waited for is done: it is about to be ready"
		}
		on := &q.before[0]
		text := fmt.Sprintf("it is blocked by shard %v (%s, %s)", on.ID, on.Need.Kind, on.State)
		if n := len(q.before) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		return text
	case lease.Leased:
		l := x.leases[sh.ID]
		switch {
		case l == nil:
			return "it is leased"
		case l.spends && !now.Before(l.deadline):
			return fmt.Sprintf("its worker %s went silent after a paid request whose outcome is unknown: it waits for that worker, or for retry --resend", l.holder.Worker)
		case l.lapsed || !now.Before(l.deadline):
			return fmt.Sprintf("its worker %s went silent %v ago: the next that claims it takes it over", l.holder.Worker, now.Sub(l.deadline).Round(time.Second))
		case sh.Work > 0 && l.ran:
			return fmt.Sprintf("it runs: %d of %d done", min(l.work, sh.Work), sh.Work)
		case l.ran:
			return "it runs"
		}
		return "it is leased, and not begun as far as is known"
	case lease.Ready:
	}
	switch {
	case x.marks[sh.ID.Job] == markPaused:
		return "its job is " + s.left(q.job.Pause, now)
	case x.stops.all:
		return "everything is " + s.left(x.stops.pauses[lease.Target{All: true}], now)
	case x.stops.kinds[sh.Need.Kind]:
		return fmt.Sprintf("the kind %s is %s", sh.Need.Kind, s.left(x.stops.pauses[lease.Target{Kind: sh.Need.Kind}], now))
	case x.partial[sh.ID.Job]:
		return "the input of its job is still being cut into shards"
	case !s.scope.Load().open(sh.Project):
		return fmt.Sprintf("the project %q is closed", sh.Project)
	}
	text := "it is ready"
	if _, aside := x.aside[sh.ID]; aside {
		text = "the same work is being done for another item or job"
	}
	if _, rests := x.resting[sh.ID]; rests {
		text = "it rests"
		if i := slices.IndexFunc(x.rests, func(d due) bool { return d.id == sh.ID && d.at.After(now) }); i >= 0 {
			text = fmt.Sprintf("it rests for %v more", x.rests[i].at.Sub(now).Round(time.Second))
		}
		if sh.Reason != "" {
			text += ": " + sh.Reason
		}
	}
	switch {
	case sh.Suspect():
		text += fmt.Sprintf("; its workers went silent %d times: it is leased alone", sh.Lapses)
	case sh.Failures > 0:
		text += fmt.Sprintf("; it failed %d times of %d", sh.Failures, lease.MaxFailures)
	}
	return text
}

// whyThere tells it of each worker that the actor sees. s.mu is held.
func (s *Store) whyThere(actor *lease.Actor, q *asked, now time.Time) (list []lease.WhyThere) {
	sh, x := q.shard, s.index
	held, lapsed := x.leases[sh.ID], false
	if held != nil {
		lapsed = held.lapsed || !now.Before(held.deadline)
	}
	t := x.ticketOf(sh)
	_, rests := x.resting[sh.ID]
	for id, w := range x.workers {
		if w.seen.IsZero() || !s.shared(actor, w.actor) {
			continue
		}
		text := ""
		b := s.barred(id, w, t.line, now)
		switch {
		case held != nil && held.holder.Worker == id && !lapsed:
			text = fmt.Sprintf("it has it, until %v from now unless it is heard of", held.deadline.Sub(now).Round(time.Second))
		case b.distance != isFree:
			text = b.String()
		case held != nil && !lapsed:
			text = fmt.Sprintf("worker %s has it", held.holder.Worker)
		case rests:
			text = "it could, but the shard rests"
		case x.aside[sh.ID].line != nil:
			text = "it could, but the same work is under way"
		case held != nil && held.spends:
			text = "it could, but a paid request may be under way"
		case x.stops.paused(sh.Need.Kind) || t.line.hidden:
			text = "it could, but nothing of it is granted"
		case sh.Suspect() && len(w.leases) > 0:
			text = "it must hold nothing else, and does"
		default:
			text = s.turn(actor, w, t, now)
		}
		list = append(list, lease.WhyThere{Worker: id, Text: text})
	}
	slices.SortFunc(list, func(a, b lease.WhyThere) int { return strings.Compare(string(a.Worker), string(b.Worker)) })
	return list
}

// turn tells how far a shard is from being the next one that a worker is granted.
func (s *Store) turn(asks *lease.Actor, w *workerSeen, t ticket, now time.Time) string {
	older, others := s.older(asks, w, t)
	switch {
	case others:
		return "its turn has not come there"
	case older == 1:
		return "an older shard that it can do is before it"
	case older > 1:
		return fmt.Sprintf("%d older shards that it can do are before it", older)
	case len(w.leases) > 0:
		return "it is the next one there, once a slot is free"
	case w.claimed.IsZero() || now.Sub(w.claimed) > s.term:
		return "it is the next one there, but the worker does not ask for work"
	}
	return "it is the next one there"
}

// older counts the shards that a worker is granted before one; others: there are
// some that the one who asks must not know of.
func (s *Store) older(asks *lease.Actor, w *workerSeen, t ticket) (n int, others bool) {
	actor, err := asker{lease.Actor{ID: w.actor, Role: lease.Admin}, s}.now()
	if err != nil {
		return 0, false
	}
	actor = s.scope.Load().claimant(actor)
	for key, c := range s.index.classes {
		if !actor.Sees(key.project) || !w.hello.Offer.Able(key.need) || s.index.stops.paused(key.need.Kind) {
			continue
		}
		c.lines.Ascend(func(l *line) bool {
			switch {
			case w.job != 0 && l.job != w.job:
			case l.priority == t.line.priority && l.job == t.line.job:
				l.slots.AscendLessThan(t.slot, func(slot) bool { n++; return true })
			case l.before(t.line):
				n += l.slots.Len()
				others = others || !asks.Sees(l.project)
			default:
				return false
			}
			return true
		})
	}
	return n, others
}
