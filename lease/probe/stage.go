package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"macbatch/lease"
	"macbatch/lease/api"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

// stage is a control plane in a process of its own, and what was seen of its work.
type stage struct {
	o      *Options
	r      *Report
	token  string
	hash   lease.Digest
	term   time.Duration
	listen string
	plane  *process
	ctl    *api.Client
	job    lease.JobID

	victims int // workers started to be killed

	mu       sync.Mutex
	parts    []*process
	closed   bool
	fences   map[lease.ShardID][]lease.Fence  // granted, in the order told
	accepted map[lease.ShardID][]lease.Digest // results acknowledged
}

// newStage starts the control plane on a new store and submits the job.
func newStage(ctx context.Context, o *Options, r *Report, term time.Duration) (*stage, error) {
	s := &stage{
		o: o, r: r, term: term, listen: "127.0.0.1:0",
		fences: map[lease.ShardID][]lease.Fence{}, accepted: map[lease.ShardID][]lease.Digest{},
	}
	s.token, s.hash = store.NewToken(probeID)
	context.AfterFunc(ctx, s.close)
	if err := s.open(); err != nil {
		return s, err
	}
	var err error
	if s.ctl, err = api.Dial("http://"+s.listen, func() string { return s.token }, api.NewHTTPClient(4, nil)); err != nil {
		return s, err
	}
	s.job, err = s.ctl.Submit(ctx, lease.Submission{Kind: Kind, Params: fmt.Appendf(nil, `{"items":%d}`, o.Items)})
	return s, err
}

// open starts the control plane, on the address it had before.
func (s *stage) open() error {
	p, err := s.start(order{Role: "control", Store: s.o.Store, Listen: s.listen, Term: s.term, Hash: s.hash})
	if err != nil {
		return err
	}
	n, err := p.next()
	if err != nil {
		p.kill()
		return fmt.Errorf("control plane: %w: %s", err, p.said)
	}
	s.listen, s.plane = n.Address, p
	return nil
}

// start starts a process, unless all were ended.
func (s *stage) start(ord order) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, context.Canceled
	}
	p, err := s.o.start(ord)
	if err == nil {
		s.parts = append(s.parts, p)
	}
	return p, err
}

// worker starts a worker.
func (s *stage) worker(name string, batch int, hold bool) (*process, error) {
	return s.start(order{Role: "worker", URL: "http://" + s.listen, Token: s.token, Name: lease.WorkerID(name), Batch: batch, Hold: hold, Job: s.job})
}

// close ends all processes there are.
func (s *stage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.parts {
		_ = p.cmd.Process.Kill()
	}
}

// end is close for the way out of a scenario: it waits too.
func (s *stage) end() {
	s.close()
	for _, p := range s.parts {
		p.kill()
	}
	if s.ctl != nil {
		s.ctl.Close()
	}
}

// killPlane ends the control plane by SIGKILL and starts it anew.
func (s *stage) killPlane() error {
	s.killed()
	s.plane.kill()
	return s.open()
}

// killed notes a kill, before it: from then on a worker may miss an answer.
func (s *stage) killed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r.Kills++
}

// follow counts what a worker tells until it ends. seen is told of each news.
func (s *stage) follow(p *process, name string, seen func(news)) error {
	for {
		n, err := p.next()
		if errors.Is(err, io.EOF) {
			err = p.wait()
		}
		if err != nil {
			return fmt.Errorf("worker %s: %w", name, err)
		}
		if p.ended {
			return nil
		}
		s.count(lease.WorkerID(name), n)
		if seen != nil {
			seen(n)
		}
	}
}

// count notes grants and verdicts. A grant or verdict told twice counts once.
func (s *stage) count(by lease.WorkerID, n news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range n.Grants {
		told := s.fences[g.Shard]
		if len(told) > 0 && told[len(told)-1] == g.Fence {
			continue
		}
		if len(told) > 0 && told[len(told)-1] > g.Fence {
			s.r.FenceErrors++
		}
		if len(told) == 0 {
			s.r.Distinct++
		}
		s.r.Claimed++
		s.fences[g.Shard] = append(told, g.Fence)
	}
	for _, v := range n.Verdicts {
		switch v.Verdict {
		case lease.Accepted, lease.Duplicate: // a duplicate's first answer was lost
			s.r.Accepted++
			s.accepted[v.Shard] = append(s.accepted[v.Shard], report(by, lease.Grant{Shard: v.Shard, Fence: v.Fence}).Digest)
		case lease.Conflict, lease.Stale, lease.InvalidReport, lease.NeedBlobs, lease.Denied:
			s.r.problem("worker %s: report on shard %v under fence %v: %s %s", by, v.Shard, v.Fence, v.Verdict, v.Reason)
			s.r.StorageErrors++
		}
	}
	if n.Fault != "" {
		s.r.StorageErrors++
		s.r.problem("worker %s: %s", by, n.Fault)
	}
	if n.Away && s.r.Kills == 0 {
		s.r.StorageErrors++
		s.r.problem("worker %s: no answer from a control plane that nobody killed", by)
	}
}

// finish reads rows and ledger through the protocol, ends the control plane, and
// verifies the store at rest.
func (s *stage) finish(ctx context.Context) error {
	if err := s.rows(ctx); err != nil {
		return err
	}
	if err := s.events(ctx); err != nil {
		return err
	}
	if _, err := io.WriteString(s.plane.in, stopWord+"\n"); err != nil {
		return fmt.Errorf("end the control plane: %w", err)
	}
	if err := s.plane.wait(); err != nil {
		return fmt.Errorf("end the control plane: %w", err)
	}
	return s.rest()
}

func (s *stage) rows(ctx context.Context) error {
	after := uint32(0)
	for {
		rows, err := s.ctl.Shards(ctx, s.job, after, lease.MaxPage, false)
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			row := &rows[i]
			after = row.ID.Seq
			if row.State.Terminal() {
				s.r.Terminal++
			}
			for _, d := range s.accepted[row.ID] {
				if row.State != lease.Done || row.Result.Digest != d {
					s.r.Lost++
					s.r.problem("shard %v is %v with %v; %v was acknowledged", row.ID, row.State, row.Result.Digest, d)
				}
			}
		}
	}
}

func (s *stage) events(ctx context.Context) error {
	after := uint64(0)
	for {
		events, err := s.ctl.Events(ctx, lease.ShardID{}, after, lease.MaxPage)
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			after = events[i].Seq
			switch events[i].Kind { //nolint:exhaustive // the others are not counted
			case lease.EventLeased:
				s.r.Granted++
			case lease.EventLeaseExpired:
				s.r.Reclaimed++
			case lease.EventDone, lease.EventFailed, lease.EventReused:
				s.r.Terminations++
			case lease.EventCanceled:
				if events[i].Shard != 0 {
					s.r.Terminations++
				}
			}
		}
	}
}

func (s *stage) rest() error {
	db, err := boltkv.Open(s.o.Store, boltkv.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	err = s.r.examine(db)
	return errors.Join(err, db.Close())
}

// examine verifies a store at rest.
func (r *Report) examine(db *boltkv.DB) error {
	problems, err := store.Check(db, noBlobs{})
	if err != nil {
		return err
	}
	r.LedgerProblems += len(problems)
	for _, p := range problems {
		r.problem("%s %s: %s", p.Kind, p.Subject, p.Detail)
	}
	stats, err := db.Stats()
	r.Commits = stats.Commits
	return errors.Join(err, db.Check())
}

// judge holds the counts that every scenario with processes has against what
// they must be: each shard is granted so many times and ends once.
func (r *Report) judge(grants int) {
	r.DuplicateClaims = r.Claimed - grants*r.Distinct
	r.must("shards claimed", r.Distinct, r.Items)
	r.must("claims", r.Claimed, grants*r.Items)
	r.must("grants in the ledger", r.Granted, grants*r.Items)
	r.must("duplicate claims", r.DuplicateClaims, 0)
	r.must("leases taken over", r.Reclaimed, (grants-1)*r.Items)
	r.must("results accepted", r.Accepted, r.Items)
	r.must("terminal shards", r.Terminal, r.Items)
	r.must("terminal events", r.Terminations, r.Items)
	r.must("fences out of order", r.FenceErrors, 0)
	r.must("lost results", r.Lost, 0)
	r.must("storage errors", r.StorageErrors, 0)
	r.must("ledger problems", r.LedgerProblems, 0)
}
