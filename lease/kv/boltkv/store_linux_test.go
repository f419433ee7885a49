package boltkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// TestStoreFaults lets a control plane live on a disk of which the n-th write or
// sync fails, once or from then on, for every n until a life meets no fault.
// Whatever was acknowledged is there afterwards, whatever was not is there whole
// or not at all, and rows and ledger agree.
func TestStoreFaults(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, forEver := range []bool{false, true} {
			name := fmt.Sprintf("%v, once", errno)
			if forEver {
				name = fmt.Sprintf("%v, for ever", errno)
			}
			t.Run(name, func(t *testing.T) {
				met := map[string]int{}
				n := 1
				for ; ; n++ {
					l := &faulty{T: t, path: storePath(t), at: n, forEver: forEver, err: errno, met: met}
					if l.live(); l.fault == "" {
						break
					}
					if t.Failed() {
						t.Fatalf("the %d. operation on the disk, a %s, failed", n, l.fault)
					}
				}
				t.Logf("%d lives, faults met: %v", n, met)
				for _, op := range []string{opWrite, opSync, opWriteMeta, opSyncMeta} {
					if met[op] < 8 {
						t.Errorf("only %d faults of a %s", met[op], op)
					}
				}
			})
		}
	}
}

// faulty is a life of a store on a disk that fails.
type faulty struct {
	*testing.T
	path    string
	at      int
	forEver bool
	err     error
	met     map[string]int

	count int
	fault string // the first operation that failed
	disk  *faults
	db    *DB
	store *store.Store
	stop  context.CancelFunc
	ended chan error
	blobs *leasetest.Blobs
	jobs  []lease.JobID
	done  []lease.Report // acknowledged
}

func (l *faulty) ask(op string, _ int64, _ []byte) error {
	l.count++
	if l.count == l.at || l.forEver && l.count > l.at {
		if l.fault == "" {
			l.fault = op
			l.met[op]++
		}
		return l.err
	}
	return nil
}

// open opens the store as a process does that starts. It may take several tries.
func (l *faulty) open() {
	for try := 0; ; try++ {
		var err error
		if l.db, err = Open(l.path, Options{InitialMmap: 1 << 20}); err != nil {
			l.Fatal(err)
		}
		l.disk = between(l.T, l.db, l.ask)
		l.store, err = store.Open(store.Options{Engine: l.db, Blobs: l.blobs, Planner: leasetest.Planner{}, Budget: 1})
		if err == nil {
			break
		}
		l.close()
		if try > 3 || !errors.Is(err, kv.ErrUnknownOutcome) && !errors.Is(err, kv.ErrFull) {
			l.Fatalf("open store: %v", err)
		}
		l.healed()
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.ended = stop, make(chan error, 1)
	go func() { l.ended <- l.store.Run(ctx) }()
}

func (l *faulty) close() {
	if err := errors.Join(l.disk.heal(), l.db.Close()); err != nil {
		l.Fatal(err)
	}
}

// healed ends a fault that would go on: somebody replaced the disk.
func (l *faulty) healed() {
	if l.forEver && l.fault != "" {
		l.forEver, l.at = false, 0
	}
}

func (l *faulty) halt() {
	l.stop()
	if err := <-l.ended; err != nil && !errors.Is(err, kv.ErrUnknownOutcome) {
		l.Fatalf("run store: %v", err)
	}
	l.close()
}

// do insists, across restarts, on what may fail; it asks again as a client would.
func (l *faulty) do(what string, ask func(lease.Control) error) {
	l.Helper()
	for range 5 {
		err := ask(l.store.As(leasetest.Admin))
		switch {
		case err == nil:
			return
		case errors.Is(err, lease.ErrFull):
			if !errors.Is(l.err, syscall.ENOSPC) {
				l.Fatalf("%s: %v on a disk with room", what, err)
			}
			if l.forEver {
				l.healed() // somebody made room: it goes on without a restart
			}
		case errors.Is(err, lease.ErrUnknownOutcome) || errors.Is(err, lease.ErrUnreachable):
			l.halt()
			l.check()
			l.healed()
			l.open()
		default:
			l.Fatalf("%s: %v", what, err)
		}
	}
	l.Fatalf("%s: five times no answer", what)
}

func (l *faulty) live() {
	l.blobs = leasetest.NewBlobs()
	l.open()
	ctx := context.Background()
	hello := lease.Hello{Worker: "w", Incarnation: 1, Machine: "m", Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}}}
	for round := range 3 {
		key := fmt.Sprint("job ", round)
		l.do("submit", func(ctl lease.Control) error {
			id, err := ctl.Submit(ctx, lease.Submission{Kind: "test", Key: key, Params: fmt.Appendf(nil, `{"items":5,"then":2,"distinct":%q}`, key)})
			if err == nil && !slices.Contains(l.jobs, id) {
				l.jobs = append(l.jobs, id)
			}
			return err
		})
		var grants []lease.Grant
		l.do("claim", func(ctl lease.Control) error {
			out, err := ctl.Exchange(ctx, lease.Exchange{Hello: hello, Request: uint64(round + 1), Max: 4, PerKind: map[lease.Kind]int{leasetest.Work: 4}})
			grants = out.Grants
			return err
		})
		if len(grants) != 4 {
			l.Fatalf("round %d: %d grants, want 4", round, len(grants))
		}
		reports := []lease.Report{
			leasetest.Done(grants[0], "a"), leasetest.Done(grants[1], "b"),
			leasetest.Failed(grants[2], lease.Permanent, "no film"), leasetest.Bad(grants[3]),
		}
		l.do("report", func(ctl lease.Control) error {
			out, err := ctl.Exchange(ctx, lease.Exchange{Reports: reports})
			if err == nil {
				for i, v := range out.Verdicts {
					if v.Verdict != lease.Accepted && v.Verdict != lease.Duplicate && v.Verdict != lease.InvalidReport {
						l.Fatalf("round %d, report %d: %s %s", round, i, v.Verdict, v.Reason)
					}
				}
			}
			return err
		})
		l.done = append(l.done, reports[:2]...)
	}
	l.do("cancel", func(ctl lease.Control) error { return ctl.Cancel(ctx, l.jobs[2], "enough") })
	l.halt()
	l.check()
}

// check looks at the store at rest, on a sound disk.
func (l *faulty) check() {
	l.Helper()
	db, err := Open(l.path, Options{InitialMmap: 1 << 20})
	if err != nil {
		l.Fatal(err)
	}
	defer func() {
		if err := errors.Join(db.Check(), db.Close()); err != nil {
			l.Error(err)
		}
	}()
	problems, err := store.Check(db, l.blobs)
	if err != nil || len(problems) > 0 {
		l.Errorf("verify: %v %v", problems, err)
	}
	s, err := store.Open(store.Options{Engine: db, Blobs: l.blobs, Planner: leasetest.Planner{}})
	if err != nil {
		l.Fatal(err)
	}
	ctl := s.As(leasetest.Admin)
	for _, id := range l.jobs {
		if _, err := ctl.Job(context.Background(), id); err != nil {
			l.Errorf("an acknowledged job: %v", err)
		}
	}
	for _, rep := range l.done {
		rows, err := ctl.Shards(context.Background(), rep.Shard.Job, rep.Shard.Seq-1, 1, true)
		if err != nil || len(rows) != 1 || rows[0].State != lease.Done || rows[0].Result.Digest != rep.Digest {
			l.Errorf("an acknowledged result of %v: %+v, %v", rep.Shard, rows, err)
		}
	}
}
