package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Planner says what work means: it validates submissions and results, and plans
// the shards that follow. Its methods are pure: the same input gives the same
// plan, also after a restart.
type Planner interface {
	// Start validates a job's parameters and plans its first shards.
	Start(kind lease.Kind, params []byte) (lease.Plan, error)

	// Accept validates the result of a shard and plans the shards that follow from it.
	Accept(job *lease.Job, s *lease.Shard, result []byte, blobs []lease.Digest) (lease.Plan, error)
}

// Blobs keeps accepted bytes by their digest.
type Blobs interface {
	Put(ctx context.Context, d lease.Digest, size int64, r io.Reader) error
	Open(d lease.Digest) (io.ReadCloser, int64, error)
	Has(d lease.Digest) (bool, error)
	Remove(d lease.Digest) error
	List(fn func(d lease.Digest, size int64, received time.Time) bool) error
}

// Options configure a Store. Engine, Blobs and Planner are required.
type Options struct {
	Engine  kv.Engine
	Blobs   Blobs
	Planner Planner
	Budget  int64 // bytes of blobs that may wait for open shards before bulky work rests; 0: 8 GiB
	Log     *slog.Logger
	Now     func() time.Time // with a monotonic reading; nil: time.Now
	Rand    *mrand.Rand      // jitter; nil: seeded by the system
}

// groupLimit bounds how many commands share a commit.
const groupLimit = 512

// stallLimit is the silence after which the store assumes that it was asleep, or
// stopped, and that workers could not reach it.
const stallLimit = lease.Heartbeat

// blobGrace keeps blobs that nothing refers to: their report may be on its way.
const blobGrace = 24 * time.Hour

// Store is the control plane's state and its one writer. Commands are served
// while Run runs.
type Store struct {
	engine  kv.Engine
	blobs   Blobs
	planner Planner
	log     *slog.Logger
	now     func() time.Time
	rand    *mrand.Rand // the writer's only
	budget  int64

	id     [16]byte
	secret []byte // keys lease tokens
	head   head   // the writer's only

	commands chan *command
	stopped  chan struct{} // closed when Run returned
	broken   atomic.Bool   // a commit's outcome is unknown

	mu      sync.Mutex // guards what follows
	index   *index
	present map[lease.Digest]int64 // blobs that are here, and their sizes
	actors  map[lease.ActorID]*actorRow
	wake    chan struct{}  // closed and replaced when there may be new work
	paging  []*page        // work that follows in pages
	unused  []lease.Digest // blobs to look at once no plan is paging
	rest    bool           // no page before the next command or tick: the last one could not be written or read
	beat    time.Time      // when the writer last looked at the clock
}

// command is one request to the writer.
type command struct {
	run  func(*tx) error
	done chan error
	gone []lease.Digest
}

// Open takes over an engine, initialising it when it is new, and reads what the
// index needs. It starts nothing: call Run.
func Open(o Options) (*Store, error) {
	s := &Store{
		engine: o.Engine, blobs: o.Blobs, planner: o.Planner, log: o.Log, now: o.Now, rand: o.Rand,
		commands: make(chan *command, groupLimit), stopped: make(chan struct{}),
		budget: o.Budget, index: newIndex(), present: map[lease.Digest]int64{}, actors: map[lease.ActorID]*actorRow{},
		wake: make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.budget == 0 {
		s.budget = 8 << 30
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
	return s, nil
}

// initialise writes the identity of a new store.
func (s *Store) initialise() error {
	fresh := false
	err := s.engine.View(func(r kv.Reader) error {
		r.Scan(nil, nil, func(_, _ []byte) bool { fresh = false; return false })
		fresh = r.Get([]byte{keyStore}) == nil
		return nil
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
		g := newGroup(w, head{Epoch: uint32(now.Unix() / 60)})
		t := g.begin(s, now)
		t.append(lease.Event{Kind: lease.EventCreated, N: 1})
		t.put([]byte{keyStore}, append([]byte{schemaVersion}, id[:]...))
		t.seal()
		return g.flush()
	})
}

// schemaVersion is the store's layout as a whole.
const schemaVersion = 1

// load reads the identity, the head and the rows.
func (s *Store) load() error {
	now := s.now()
	s.index, s.paging, s.beat = newIndex(), nil, now
	kept := map[lease.Digest]bool{}
	err := s.engine.View(func(r kv.Reader) error {
		id := r.Get([]byte{keyStore})
		if len(id) != 49 || id[0] != schemaVersion {
			return errors.New("the store was written by a newer version of macbatch, or is damaged")
		}
		copy(s.id[:], id[1:])
		s.secret = append([]byte(nil), id[17:]...)
		h, err := decodeHead(r.Get([]byte{keyHead}))
		if err != nil {
			return err
		}
		s.head = h
		if err := s.loadActors(r); err != nil {
			return err
		}
		return s.loadRows(r, now, kept)
	})
	if err != nil {
		return err
	}
	return s.loadBlobs(now, kept)
}

// loadRows fills the index. Every open lease gets one full term: while the
// control plane was away nobody could renew.
func (s *Store) loadRows(r kv.Reader, now time.Time, kept map[lease.Digest]bool) (err error) {
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
		if j.Canceled {
			s.index.marks[id] = markCanceled
			if j.Shards.Open() > 0 {
				s.paging = append(s.paging, &page{job: id})
			}
		}
		return true
	})
	if err != nil {
		return err
	}
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
		var row *lease.Shard
		if row, err = decodeShard(id, v); err != nil {
			return false
		}
		j := jobs[id.Job]
		if j == nil {
			err = fmt.Errorf("shard %v: its job is missing", id)
			return false
		}
		if row.State == lease.Done && row.Result.Blob {
			kept[row.Result.Digest] = true
		}
		row.Project, row.Priority = j.Project, j.Priority
		if row.State == lease.Leased {
			row.Deadline = now.Add(lease.Term)
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
		s.paging = append(s.paging, &page{job: shardOfKey(k).Job, plan: shardOfKey(k)})
		return true
	})
	return nil
}

// loadBlobs lists what is there and removes what nothing has referred to for
// long, unless the shards that will are still being added.
func (s *Store) loadBlobs(now time.Time, kept map[lease.Digest]bool) error {
	var orphans []lease.Digest
	planning := s.planning()
	err := s.blobs.List(func(d lease.Digest, size int64, received time.Time) bool {
		if !planning && !kept[d] && s.index.inputs[d] == 0 && now.Sub(received) > blobGrace {
			orphans = append(orphans, d)
		} else {
			s.present[d] = size
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

// Run serves commands until ctx ends, and then those already waiting. It returns
// nil on a clean end, and kv.ErrUnknownOutcome (or what else broke the store)
// when nothing more can be served until the store is opened again.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.stopped)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var err error
		if page := s.nextPage(); page != nil {
			err = s.commit(page) // waiting commands ride along
		} else {
			select {
			case c := <-s.commands:
				err = s.commit(c)
			case <-tick.C:
				s.look()
			case <-ctx.Done():
				return s.drain()
			}
		}
		if err != nil {
			s.broken.Store(true)
			return err
		}
		if ctx.Err() != nil {
			return s.drain()
		}
	}
}

// drain serves what waits already.
func (s *Store) drain() error {
	for {
		select {
		case c := <-s.commands:
			if err := s.commit(c); err != nil {
				s.broken.Store(true)
				return err
			}
		default:
			return nil
		}
	}
}

// do runs a command in the next commit and returns its error once it is durable.
func (s *Store) do(ctx context.Context, run func(*tx) error) error {
	if s.broken.Load() {
		return lease.ErrUnknownOutcome
	}
	c := &command{run: run, done: make(chan error, 1)}
	select {
	case s.commands <- c:
	case <-s.stopped:
		return lease.ErrUnreachable
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// Once queued it may commit: its answer must be waited for.
	select {
	case err := <-c.done:
		return err
	case <-s.stopped:
		select {
		case err := <-c.done:
			return err
		default:
			return lease.ErrUnknownOutcome
		}
	}
}

var errNothing = errors.New("nothing written")

// commit runs a group of commands, beginning with first, in one commit.
// Its error ends the writer.
func (s *Store) commit(first *command) error {
	s.look()
	cmds := []*command{first}
	errs := []error{}
	var g *group
	err := s.engine.Update(func(w kv.Writer) error {
		g = newGroup(w, s.head)
		for i := 0; ; i++ {
			if i == len(cmds) {
				if i >= groupLimit {
					break
				}
				select {
				case c := <-s.commands:
					cmds = append(cmds, c)
				default:
				}
				if i == len(cmds) {
					break
				}
			}
			err, fatal := s.apply(g, cmds[i])
			if fatal {
				return err
			}
			errs = append(errs, err)
		}
		if g.head.Seq == s.head.Seq && len(g.writes) == 0 {
			return errNothing
		}
		return g.flush()
	})
	switch {
	case errors.Is(err, errNothing):
		err = nil
	case errors.Is(err, kv.ErrFull):
		for i := range errs {
			errs[i] = fmt.Errorf("%w: %w", lease.ErrFull, err)
		}
		s.mu.Lock()
		err = s.reload()
		s.rest = true
		s.mu.Unlock()
	case err == nil:
		s.head = g.head
	}
	if err != nil {
		for _, c := range cmds {
			c.done <- lease.ErrUnknownOutcome
		}
		return fmt.Errorf("commit: %w", err)
	}
	for i, c := range cmds {
		s.dispose(c.gone)
		c.done <- errs[i]
	}
	return nil
}

// reload rebuilds the index after a commit that did not happen. What only memory
// knows of workers and leases is kept.
func (s *Store) reload() error {
	old := s.index
	if err := s.load(); err != nil {
		return err
	}
	s.index.workers, s.index.silent = old.workers, old.silent
	for _, w := range s.index.workers {
		clear(w.leases)
	}
	for id, l := range s.index.leases {
		if o := old.leases[id]; o != nil && o.fence == l.fence {
			l.deadline, l.ran, l.work = o.deadline, o.ran, o.work
		}
		if w := s.index.workers[l.holder.Worker]; w != nil {
			w.leases[id] = l
		}
	}
	return nil
}

// apply runs one command. A refusal leaves nothing behind; a fault after a
// change, such as a damaged row, is fatal.
func (s *Store) apply(g *group, c *command) (err error, fatal bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := g.begin(s, s.now())
	if err := c.run(t); err != nil {
		return err, t.wrote()
	}
	if t.wrote() {
		t.seal()
		c.gone = t.gone
		s.ring()
	}
	return nil, false
}

// dispose removes blobs that no open shard needs, once that is durable. While a
// plan is paging it waits: the shards still to be added may need them.
func (s *Store) dispose(gone []lease.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, gone...)
	if s.planning() {
		return
	}
	gone, s.unused = s.unused, nil
	for _, d := range gone {
		if _, here := s.present[d]; !here || s.index.inputs[d] > 0 {
			continue
		}
		delete(s.present, d)
		if err := s.blobs.Remove(d); err != nil {
			s.log.Warn("remove blob", "digest", d.String(), "error", err)
		}
	}
}

// ring wakes everybody who waits for work, if there is new work. s.mu is held.
func (s *Store) ring() {
	if !s.index.offered {
		return
	}
	s.index.offered = false
	close(s.wake)
	s.wake = make(chan struct{})
}

// look reads the clock: it notices a sleep of the control plane, and makes
// claimable what has rested or lapsed.
func (s *Store) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	// A suspended host stops the monotonic clock, a stepped one moves the wall clock: heed both.
	gap := max(now.Sub(s.beat), now.Round(0).Sub(s.beat.Round(0)))
	s.beat = now
	if gap > stallLimit {
		s.log.Warn("the control plane was stopped or asleep; every lease gets a full term", "for", gap)
		for _, l := range s.index.leases {
			s.index.renew(l, now.Add(lease.Term))
		}
	}
	s.index.mature(now)
	s.ring()
}

// token proves that its bearer was granted a shard under a fence. It is derived,
// so that a repeated claim can be answered and no row needs to hold it.
func (s *Store) token(id lease.ShardID, f lease.Fence) string {
	m := hmac.New(sha256.New, s.secret)
	var e encoder
	e.fixed64(uint64(id.Job))
	e.fixed64(uint64(id.Seq))
	e.fixed64(uint64(f))
	m.Write(e.b)
	return hex.EncodeToString(m.Sum(nil)[:16])
}

func isNotFound(err error) bool { return errors.Is(err, lease.ErrNotFound) }
