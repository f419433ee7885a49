package store

import (
	"bytes"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// careRows bounds the rows that one commit carries or drops, and careScan those
// that are read between two commits.
const (
	careRows = 400
	careScan = 4000
)

// carrier walks over what is to be carried: jobs first, then shards. It lives in
// memory only: what was carried already is passed over after a restart.
type carrier struct {
	jobs  lease.JobID   // the first not yet looked at
	next  lease.ShardID // likewise, once the jobs are done
	stage int           // 0 jobs, 1 shards, 2 all done
}

// nextCare is the next step of what a prune asked for, or nil: first the rows of
// pruned jobs go, then the ledger is cut. Each step is a commit that leaves a
// store that verifies, and that a restart goes on from.
func (s *Store) nextCare() *command {
	s.mu.Lock()
	dropping := len(s.drops) > 0
	s.mu.Unlock()
	switch {
	case dropping:
		return s.dropStep()
	case s.sweeping():
		return s.sweepStep()
	case s.head.Cut != 0:
		return s.carryStep()
	case s.head.Base > s.trimmed:
		return s.trimStep()
	case s.head.Want:
		s.carrier = carrier{}
		return s.care((*tx).cut)
	}
	return nil
}

func (s *Store) care(run func(*tx) error) *command {
	return &command{run: run, done: make(chan error, 1)}
}

// still is a step that only read: what waits for the writer has its turn.
func still(*tx) error { return nil }

// cut begins a checkpoint at the newest commit. From now on what changes is
// carried first, so that each carried row is the row as of the cut.
func (t *tx) cut() error {
	if len(t.g.record.b) > 0 {
		return nil // not the first of its group: the next step tries again
	}
	t.head.Want, t.head.Carried = false, 0
	t.head.Cut, t.head.CutChain = t.head.Seq, t.head.Chain
	t.touchHead()
	return nil
}

// touchHead makes the commit write the head though nothing else is written.
func (t *tx) touchHead() { t.put([]byte{keyHead}, nil) }

// carry tells a shard's row as of the cut before it changes for the first time
// since, or because its turn has come.
func (t *tx) carry(sh *shardTx) {
	if t.head.Cut == 0 || sh.Events == 0 || sh.Last > t.head.Cut {
		return
	}
	sh.event = t.append(lease.Event{Kind: lease.EventCarried, Job: sh.ID.Job, Shard: sh.ID.Seq, N: sh.Events + 1, Prev: sh.Last})
	ev := &t.events[sh.event]
	sh.Events, sh.Last = ev.N, ev.Seq
	ev.Row = encodeShard(&sh.Shard)
	ev.Sum = sum(shardKey(keyShard, sh.ID), ev.Row)
	t.head.Carried++
	if !sh.changed {
		sh.changed = true
		t.dirty = append(t.dirty, sh)
	}
}

// carryJob is carry for a job, of which j may have been changed already.
func (t *tx) carryJob(j *jobRow) {
	if t.head.Cut == 0 || j.Events == 0 || j.Last > t.head.Cut {
		return
	}
	old, _, err := decodeJob(j.ID, t.get(jobKey(keyJob, j.ID)))
	if err != nil {
		t.fault = err
		return
	}
	i := t.append(lease.Event{Kind: lease.EventCarried, Job: j.ID, N: j.Events + 1, Prev: j.Last})
	ev := &t.events[i]
	j.Events, j.Last = ev.N, ev.Seq
	old.Events, old.Last = ev.N, ev.Seq
	row, fixed := encodeJob(old)
	ev.Row = row[:fixed]
	ev.Sum = sum(jobKey(keyJob, j.ID), ev.Row)
	t.head.Carried++
	t.marked[j.ID] = true
}

// carryActor is carry for an actor, of which a may have been changed already.
func (t *tx) carryActor(a *actorRow) {
	if t.head.Cut == 0 || a.Events == 0 || a.Last > t.head.Cut {
		return
	}
	key := actorKey(a.ID)
	old, err := decodeActor(a.ID, t.get(key))
	if err != nil {
		t.fault = err
		return
	}
	a.Events, a.Last = t.carryScope(lease.Event{Subject: a.ID}, &old.Events, &old.Last, key, func() []byte { return encodeActor(old) })
}

// carryProject is carry for a project, of which p may have been changed already.
func (t *tx) carryProject(p *lease.Scope) {
	if t.head.Cut == 0 || p.Events == 0 || p.Last > t.head.Cut {
		return
	}
	key := projectKey(p.Project)
	old, err := decodeProject(p.Project, t.get(key))
	if err != nil {
		t.fault = err
		return
	}
	p.Events, p.Last = t.carryScope(lease.Event{Project: p.Project}, &old.Events, &old.Last, key, func() []byte { return encodeProject(old) })
}

func (t *tx) carryScope(ev lease.Event, events *uint32, last *uint64, key []byte, row func() []byte) (n uint32, seq uint64) {
	ev.Kind, ev.N, ev.Prev = lease.EventCarried, *events+1, *last
	i := t.append(ev)
	*events, *last = ev.N, t.events[i].Seq
	t.events[i].Row = row()
	t.events[i].Sum = sum(key, t.events[i].Row)
	t.head.Carried++
	return *events, *last
}

// carryScopes carries all actors and projects: they are few.
func (t *tx) carryScopes() {
	for _, a := range t.s.scope.Load().actors {
		if row := *a; a.Events > 0 && a.Last <= t.head.Cut {
			t.carryActor(&row)
			t.put(actorKey(row.ID), encodeActor(&row))
			t.s.scope.Store(t.s.scope.Load().with(&row, nil))
		}
	}
	for _, p := range t.s.scope.Load().projects {
		if row := *p; p.Events > 0 && p.Last <= t.head.Cut {
			t.carryProject(&row)
			t.put(projectKey(row.Project), encodeProject(&row))
			t.s.scope.Store(t.s.scope.Load().with(nil, &row))
		}
	}
}

// carryStep carries the next rows over the cut, and seals it behind the last.
func (s *Store) carryStep() *command {
	c := &s.carrier
	if c.stage == 2 {
		return s.care((*tx).sealCut)
	}
	var jobs []lease.JobID
	var shards []lease.ShardID
	err := s.engine.View(func(r kv.Reader) (err error) {
		if c.stage == 0 {
			jobs, err = c.scanJobs(r, s.head.Cut)
		} else {
			shards, err = c.scanShards(r, s.head.Cut)
		}
		return err
	})
	return s.care(func(t *tx) error {
		if err != nil {
			return t.putOff("carry rows over the cut", err)
		}
		for _, id := range jobs {
			if j, err := t.job(id); err == nil {
				t.carryJob(j)
			} else if !isNotFound(err) {
				return err
			}
		}
		for _, id := range shards {
			if sh, err := t.shard(id); err == nil {
				t.carry(sh)
			} else if !isNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// putOff leaves a step that could not read the store for later.
func (t *tx) putOff(what string, err error) error {
	t.s.log.Error(what, "error", err)
	t.s.rest = true
	return nil
}

func (c *carrier) scanJobs(r kv.Reader, cut uint64) (ids []lease.JobID, err error) {
	seen := 0
	r.Scan(jobKey(keyJob, c.jobs), []byte{keyJob + 1}, func(k, v []byte) bool {
		var j *jobRow
		id := lease.JobID(decodeKey(k))
		if seen++; len(ids) == careRows || seen > careScan {
			c.jobs = id
			return false
		}
		if j, _, err = decodeJob(id, v); err != nil {
			return false
		}
		if j.Last <= cut {
			ids = append(ids, id)
		}
		return true
	})
	if len(ids) < careRows && seen <= careScan {
		c.stage = 1
	}
	return ids, err
}

func (c *carrier) scanShards(r kv.Reader, cut uint64) (ids []lease.ShardID, err error) {
	seen, ended := 0, true
	r.Scan(shardKey(keyShard, c.next), []byte{keyShard + 1}, func(k, v []byte) bool {
		var row *lease.Shard
		id := shardOfKey(k)
		if seen++; len(ids) == careRows || seen > careScan {
			c.next, ended = id, false
			return false
		}
		if row, err = decodeShard(id, v); err != nil {
			return false
		}
		if row.Last <= cut {
			ids = append(ids, id)
		}
		return true
	})
	if ended {
		c.stage = 2
	}
	return ids, err
}

// sealCut ends a checkpoint: the ledger begins behind its cut from now on.
func (t *tx) sealCut() error {
	h := &t.head
	t.carryScopes()
	var pauses []lease.Event
	scan(t.g.w, []byte{keyPause}, func(k, v []byte) bool {
		of := pauseOf(k)
		pauses = append(pauses, lease.Event{Kind: lease.EventCarried, What: of.Kind, Worker: of.Worker, Row: bytes.Clone(v), Sum: sum(k, v)})
		return true
	})
	for _, ev := range pauses { // few, and as of the seal: their own events since the cut say the same
		t.tellStore(ev)
		h.Carried++
	}
	t.tellStore(lease.Event{Kind: lease.EventCheckpoint, Cut: h.Cut, Digest: h.CutChain, Carried: h.Carried})
	h.Seal, h.Base, h.BaseChain = h.Seq, h.Cut, h.CutChain
	h.Cut, h.CutChain, h.Carried = 0, lease.Digest{}, 0
	return nil
}

// trimStep removes the oldest records that a checkpoint sealed.
func (s *Store) trimStep() *command {
	before, n := uint64(0), 0
	err := s.engine.View(func(r kv.Reader) error {
		r.Log(0, func(seq uint64, _ []byte) bool {
			before = seq
			n++
			return seq <= s.head.Base && n <= careRows
		})
		return nil
	})
	base := s.head.Base
	return s.care(func(t *tx) error {
		switch {
		case err != nil:
			return t.putOff("trim the ledger", err)
		case n == 1 && before > base: // the first record that is there is to stay
			t.s.trimmed = base
			return nil
		}
		t.g.trim = min(before, base+1)
		t.touchHead()
		return nil
	})
}
