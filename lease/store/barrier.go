package store

import (
	"fmt"
	"strings"
	"time"

	"macbatch/lease"
)

// distance tells how near a worker is to being granted a shard.
type distance int

const (
	isAway distance = iota // or must not see its project
	lacksKind
	lacksRoot
	lacksModel
	lacksLabel
	isStopped // drained, or lacking something for now
	isFree
)

// barrier is what keeps a worker from being granted something.
type barrier struct {
	distance
	text  string
	age   time.Duration // for so long, where that is known
	again time.Duration // it is looked at again in so long, likewise
}

func (b barrier) String() string {
	s := b.text
	if b.age > 0 {
		s += fmt.Sprintf(", for %v now", b.age.Round(time.Second))
	}
	if b.again > 0 {
		s += fmt.Sprintf(", looked at again in %v", b.again.Round(time.Second))
	}
	return s
}

// barred says what keeps a worker from the shards of a line, beside their turn and
// its slots. s.mu is held.
func (s *Store) barred(id lease.WorkerID, w *workerSeen, l *line, now time.Time) barrier {
	need, x := l.need, s.index
	actor, err := asker{lease.Actor{ID: w.actor, Role: lease.Admin}, s}.now()
	switch {
	case err != nil:
		return barrier{isAway, "its credential was revoked", 0, 0}
	case !actor.Sees(l.project):
		return barrier{isAway, fmt.Sprintf("its actor %q is not assigned to the project %q", w.actor, l.project), 0, 0}
	case now.Sub(w.seen) >= s.term:
		return barrier{isAway, "it is silent", now.Sub(w.seen), 0}
	}
	has, lacks := w.hello.Offer, w.lacks(now)
	for _, gone := range lacks { // what it is set up for
		if gone.Kind != "" {
			has.Kinds = append(has.Kinds[:len(has.Kinds):len(has.Kinds)], gone.Kind)
		}
		if gone.Root != "" {
			has.Roots = append(has.Roots[:len(has.Roots):len(has.Roots)], gone.Root)
		}
		if gone.Model != "" {
			has.Models = append(has.Models[:len(has.Models):len(has.Models)], gone.Model)
		}
	}
	switch {
	case !has.Able(lease.Need{Kind: need.Kind}):
		return barrier{lacksKind, fmt.Sprintf("it does not do %s", need.Kind), 0, 0}
	case !has.Able(lease.Need{Kind: need.Kind, Root: need.Root}):
		return barrier{lacksRoot, fmt.Sprintf("it has no root %q", need.Root), 0, 0}
	case !has.Able(lease.Need{Kind: need.Kind, Root: need.Root, Model: need.Model}):
		return barrier{lacksModel, fmt.Sprintf("it has no model %q", need.Model), 0, 0}
	case !has.Able(need):
		return barrier{lacksLabel, fmt.Sprintf("it has no label %s", need.Tags.Missing(has.Labels)), 0, 0}
	}
	if p := x.stops.of(lease.Target{Worker: id}, now); !p.IsZero() {
		return barrier{isStopped, "it is " + s.left(p, now), 0, 0}
	}
	for _, gone := range lacks {
		if gone.Of(need) {
			return barrier{isStopped, withdrawn(&gone), gone.Age, gone.Again}
		}
	}
	if w.job != 0 && w.job != l.job {
		return barrier{isStopped, fmt.Sprintf("it works on job %v only", w.job), 0, 0}
	}
	if need.Bulky && x.backlog >= s.budget && x.needing[l.job] > 0 {
		return barrier{isStopped, "too much of what it made waits for its next stage", 0, 0}
	}
	return barrier{distance: isFree}
}

// withdrawn says what a worker lacks, and why.
func withdrawn(w *lease.Withdrawal) string {
	switch {
	case w.Kind != "":
		return fmt.Sprintf("it does no %s: %s", w.Kind, w.Reason)
	case w.Root != "":
		return fmt.Sprintf("its root %q is away: %s", w.Root, strings.TrimPrefix(w.Reason, fmt.Sprintf("root %q: ", w.Root)))
	case w.Model != "":
		return fmt.Sprintf("its model %q is away: %s", w.Model, w.Reason)
	}
	return "it takes no work: " + w.Reason
}

// left tells of a pause, and how long it goes on.
func (s *Store) left(p lease.Pause, now time.Time) string {
	p.For = 0
	text := p.String()
	if at, ends := s.index.stops.ends[p.Target]; ends {
		text += fmt.Sprintf(", for %v more", max(0, at.Sub(now)).Round(time.Second))
	}
	return text
}
