package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// blobGrace keeps blobs that nothing refers to: their report may be on its way.
const blobGrace = 24 * time.Hour

// Open takes over an engine, initialising it when it is new, and reads what the
// index needs. It starts nothing: call Run.
func Open(o Options) (*Store, error) {
	s := &Store{
		engine: o.Engine, blobs: o.Blobs, planner: o.Planner, words: o.Words, log: o.Log, now: o.Now, rand: o.Rand,
		commands: make(chan *command, groupLimit), stopped: make(chan struct{}),
		budget: o.Budget, term: o.Term, present: map[lease.Digest]int64{}, known: map[lease.Digest]*known{}, uploads: map[lease.Digest]bool{},
		wake: make(chan struct{}), names: names{},
	}
	s.scope.Store(newScope())
	if s.now == nil {
		s.now = time.Now
	}
	if s.budget == 0 {
		s.budget = 8 << 30
	}
	if s.term == 0 {
		s.term = lease.Term
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.rand == nil {
		s.rand = mrand.New(mrand.NewPCG(mrand.Uint64(), mrand.Uint64()))
	}
	if err := s.initialise(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.migrate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// initialise writes the identity of a new store.
func (s *Store) initialise() error {
	fresh := false
	err := s.engine.View(func(r kv.Reader) error {
		fresh = empty(r)
		return Accept(r)
	})
	if err != nil || !fresh {
		return err
	}
	var id [48]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	now := s.now()
	return s.engine.Update(func(w kv.Writer) error {
		g := newGroup(w, head{Epoch: uint32(now.Unix() / 60)}, &room{})
		t := g.begin(s, now)
		t.tellStore(lease.Event{Kind: lease.EventCreated})
		t.tellProject(lease.Scope{Project: lease.DefaultProject, Created: t.stamp()}, lease.Event{Kind: lease.EventProjectCreated})
		row := append([]byte{schemaVersion}, id[:]...)
		t.put([]byte{keyStore}, row)
		t.head.Identity = sum([]byte{keyStore}, row)
		t.seal()
		return g.flush()
	})
}

// load reads the identity, the head and the rows.
func (s *Store) load() error {
	now := s.now()
	s.index, s.paging, s.beat = newIndex(s.present), nil, now
	s.drops, s.dropper, s.carrier, s.trimmed = nil, dropper{}, carrier{}, 0
	before := s.known
	s.known = map[lease.Digest]*known{}
	err := s.engine.View(func(r kv.Reader) error {
		id := r.Get([]byte{keyStore})
		if err := checkIdentity(id); err != nil {
			return err
		}
		if s.secret == nil { // it stays, and when the store is loaded again others read it
			s.schema = id[0]
			copy(s.id[:], id[1:])
			s.secret = append([]byte(nil), id[17:]...)
		}
		h, err := decodeHead(r.Get([]byte{keyHead}))
		if err != nil {
			return err
		}
		if id[0] >= 3 && h.Identity != sum([]byte{keyStore}, id) {
			return errors.New("the store is damaged: its identity is not the one that it was made with")
		}
		s.head = h
		if err := s.loadScope(r); err != nil {
			return err
		}
		if err := s.loadPauses(r, now); err != nil {
			return err
		}
		dropped := map[lease.JobID]bool{}
		scan(r, []byte{keyDrop}, func(k, _ []byte) bool {
			if len(k) == 9 {
				s.drops = append(s.drops, lease.JobID(decodeKey(k)))
				dropped[s.drops[len(s.drops)-1]] = true
			}
			return true
		})
		return s.loadRows(r, now, dropped)
	})
	if err != nil {
		return err
	}
	s.publish()
	return s.loadBlobs(now, before)
}

// loadRows fills the index. Every open lease gets one full term: while the
// control plane was away nobody could renew.
func (s *Store) loadRows(r kv.Reader, now time.Time, dropped map[lease.JobID]bool) (err error) {
	jobs := map[lease.JobID]*jobRow{}
	scan(r, []byte{keyJob}, func(k, v []byte) bool {
		var j *jobRow
		if len(k) != 9 {
			err = fmt.Errorf("key %q is not a job's", k)
			return false
		}
		id := lease.JobID(decodeKey(k))
		if j, _, err = decodeJob(id, v); err != nil {
			return false
		}
		jobs[id] = j
		if j.Input != (lease.Input{}) {
			s.index.lists[j.Input.Digest]++
			s.know(j.Project, j.Input.Digest)
		}
		if j.Canceled {
			s.index.marks[id] = markCanceled
			if j.Shards.Open() > 0 {
				s.paging = append(s.paging, &page{job: id})
			}
		} else if !j.Pause.IsZero() {
			s.index.pause(j.Pause, now)
		}
		return true
	})
	if err != nil {
		return err
	}
	row, names := &lease.Shard{}, names{} // the index keeps no part of a row
	states := func(id lease.ShardID) lease.State {
		if b := r.Get(shardKey(keyShard, id)); b != nil {
			if row, err := decodeShard(id, b); err == nil {
				return row.State
			}
		}
		return 0
	}
	scan(r, []byte{keyShard}, func(k, v []byte) bool {
		id := shardOfKey(k)
		if dropped[id.Job] {
			return true
		}
		*row = lease.Shard{}
		if err = readShard(row, id, v, names); err != nil {
			return false
		}
		j := jobs[id.Job]
		if j == nil {
			err = fmt.Errorf("shard %v: its job is missing", id)
			return false
		}
		if row.State == lease.Done {
			for _, d := range keeps(&row.Result) {
				s.know(j.Project, d).kept = true
			}
		}
		for _, d := range row.Inputs {
			if !row.State.Terminal() {
				s.know(j.Project, d)
			}
		}
		row.Project, row.Priority = j.Project, j.Priority
		if row.State == lease.Leased {
			row.Deadline = now.Add(s.term)
		}
		s.index.moved(row, 0, now)
		for _, seq := range row.After {
			if row.State == lease.Blocked && states(lease.ShardID{Job: id.Job, Seq: seq}) == lease.Done {
				s.index.waiting[id]--
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	scan(r, []byte{keyPlan}, func(k, v []byte) bool {
		id := shardOfKey(k)
		s.paging = append(s.paging, &page{job: id.Job, plan: id})
		if id.Seq == 0 {
			s.index.hold(id.Job)
		}
		return true
	})
	return nil
}

// loadBlobs lists what is there and removes what nothing has referred to for
// long. What was known before, when the store is loaded again, stays known: of
// uploads only memory tells.
func (s *Store) loadBlobs(now time.Time, before map[lease.Digest]*known) error {
	for d, k := range before {
		for _, p := range k.projects {
			if k.uploaded.IsZero() {
				break
			}
			s.know(p, d).uploaded, s.known[d].inputs = k.uploaded, k.inputs
		}
	}
	var orphans []lease.Digest
	err := s.blobs.List(func(d lease.Digest, size int64, received time.Time) bool {
		if now.Sub(received) > blobGrace && s.unreferredLocked(d, now) {
			orphans = append(orphans, d)
		} else {
			s.index.arrived(d, size)
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, d := range orphans {
		if err := s.blobs.Remove(d); err != nil {
			return err
		}
	}
	return nil
}
