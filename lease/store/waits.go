package store

import (
	"fmt"
	"time"

	"macbatch/lease"
)

// waits says in one sentence why nothing of a job is being worked on; "" when
// something is, or nothing is left. When it says that shards rest, one of them is
// named too. s.mu is held.
func (s *Store) waits(j *lease.Job, now time.Time) (why string, rests lease.ShardID) {
	x := s.index
	switch {
	case j.State.Terminal() || j.Shards.Leased > j.Parked:
		return "", rests
	case x.marks[j.ID] == markPaused:
		return "it is paused", rests
	case x.stops.all:
		return "everything is paused", rests
	case x.partial[j.ID]:
		return "its input is still being cut into shards", rests
	}
	open := x.jobs[j.ID]
	if open == nil {
		return "", rests
	}
	for _, l := range open.lines {
		if l.slots.Len() == 0 {
			continue
		}
		if why = s.unmet(l, now); why == "" {
			return "its turn has not come, or its workers are busy", rests
		}
	}
	if why == "" {
		why, rests = x.rest(j.ID, now)
	}
	if why == "" && j.Parked > 0 {
		why = fmt.Sprintf("%d of its shards sent a paid request whose outcome is unknown: they wait for their worker, or for retry --resend", j.Parked)
	}
	return why, rests
}

// unmet says what keeps the shards of a line from being granted; "" when nothing does.
func (s *Store) unmet(l *line, now time.Time) string {
	need := l.need
	if s.index.stops.paused(need.Kind) {
		return fmt.Sprintf("the kind %s is paused", need.Kind)
	}
	nearest, stopped := isAway, map[string][]string{}
	for id, w := range s.index.workers {
		if w.seen.IsZero() {
			continue
		}
		b := s.barred(id, w, l, now)
		switch nearest = max(nearest, b.distance); b.distance {
		case isFree:
			return ""
		case isStopped:
			stopped[b.text] = append(stopped[b.text], string(id))
		case isAway, lacksKind, lacksRoot, lacksModel, lacksLabel:
		}
	}
	switch nearest {
	case isAway:
		return "no worker is there"
	case lacksKind:
		return fmt.Sprintf("no worker does %s", need.Kind)
	case lacksRoot:
		return fmt.Sprintf("no worker that does %s has the root %q", need.Kind, need.Root)
	case lacksModel:
		return fmt.Sprintf("no worker that does %s has the model %q", need.Kind, need.Model)
	case lacksLabel:
		return fmt.Sprintf("no worker that could do %s has the labels %s", need.Kind, need.Tags)
	case isStopped, isFree:
	}
	why := ""
	for text, ids := range stopped { // the commonest
		if n := len(stopped[why]); len(ids) > n || len(ids) == n && text < why {
			why = text
		}
	}
	if ids := stopped[why]; len(ids) > 1 {
		return fmt.Sprintf("of %d workers: %s", len(ids), why)
	}
	return fmt.Sprintf("of worker %s: %s", stopped[why][0], why)
}

// rest says how long what is ready of a job still rests, or what else it waits for.
func (x *index) rest(id lease.JobID, now time.Time) (why string, first lease.ShardID) {
	var soonest time.Time
	for _, d := range x.rests {
		if _, rests := x.resting[d.id]; rests && d.id.Job == id && (soonest.IsZero() || d.at.Before(soonest)) {
			soonest, first = d.at, d.id
		}
	}
	if !soonest.IsZero() {
		return fmt.Sprintf("what is ready rests after a failure or release, the first for %v more", max(soonest.Sub(now), 0).Round(time.Second)), first
	}
	alone := false
	x.suspects.Ascend(func(t ticket) bool {
		alone = t.line.job == id
		return !alone
	})
	for t := range x.aside {
		if t.Job == id {
			return "the same work is being done for another item or job", first
		}
	}
	if alone {
		return "a shard whose workers went silent waits for one that holds nothing else", first
	}
	return "", first
}
