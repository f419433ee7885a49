package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/store"
)

// pageSize is the unit in which files are compared.
const pageSize = 4096

// write is one page that a commit changed.
type write struct {
	off      int64
	was, now []byte
}

// commit is what one commit did to the file.
type commit struct {
	number       int
	base         []byte // of the first one: the file before it
	before, size int64  // of the file
	writes       []write
	prior, after lease.Digest // of the contents
}

// meta is the index of the meta page among the writes: one of the first two pages.
func (c *commit) meta() int {
	for i := range c.writes {
		if c.writes[i].off < 2*int64(os.Getpagesize()) {
			return i
		}
	}
	return -1
}

// recorder is an engine that notes what each commit does to its file. It is used
// by one writer.
type recorder struct {
	*boltkv.DB
	path    string
	file    []byte // as of the last commit
	state   lease.Digest
	commits []commit
	number  atomic.Int64 // how many they are
}

// Update implements kv.Engine.
func (rec *recorder) Update(fn func(kv.Writer) error) error {
	if rec.file == nil {
		var err error
		if rec.file, err = os.ReadFile(rec.path); err != nil {
			return err
		}
		if rec.state, err = contents(rec.DB); err != nil {
			return err
		}
	}
	if err := rec.DB.Update(fn); err != nil {
		return err
	}
	return rec.note()
}

func (rec *recorder) note() error {
	now, err := os.ReadFile(rec.path)
	if err != nil {
		return err
	}
	c := commit{number: len(rec.commits) + 1, before: int64(len(rec.file)), size: int64(len(now)), prior: rec.state}
	if c.number == 1 {
		c.base = rec.file
	}
	was := rec.file
	if grown := len(now) - len(was); grown > 0 {
		was = append(bytes.Clone(was), make([]byte, grown)...)
	}
	for off := 0; off < len(now); off += pageSize {
		to := min(off+pageSize, len(now))
		if !bytes.Equal(was[off:to], now[off:to]) {
			c.writes = append(c.writes, write{int64(off), bytes.Clone(was[off:to]), bytes.Clone(now[off:to])})
		}
	}
	rec.file = now
	if len(c.writes) == 0 {
		return nil // nothing was written: no commit
	}
	if c.meta() < 0 {
		return fmt.Errorf("commit %d changed no meta page", c.number)
	}
	rec.state, err = contents(rec.DB)
	c.after = rec.state
	rec.commits = append(rec.commits, c)
	rec.number.Add(1)
	return err
}

// live lets a store do so many commits of every kind.
func live(ctx context.Context, rec *recorder, rnd *rand.Rand, commits int) (err error) {
	s, err := store.Open(store.Options{Engine: rec, Blobs: noBlobs{}, Planner: planner{}, Rand: rnd})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	l := life{ctl: s.As(lease.Actor{ID: probeID, Role: lease.Admin}), rnd: rnd}
	for rec.number.Load() < int64(commits) {
		if err := l.act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// life is a client and a worker in one.
type life struct {
	ctl     lease.Control
	rnd     *rand.Rand
	jobs    []lease.JobID
	held    []lease.Grant
	request uint64
}

func (l *life) act(ctx context.Context) error {
	switch n := l.rnd.IntN(20); {
	case len(l.jobs) == 0 || n < 2:
		id, err := l.ctl.Submit(ctx, lease.Submission{Kind: Kind, Params: fmt.Appendf(nil, `{"items":%d}`, 1+l.rnd.IntN(60)), Key: fmt.Sprint("key ", len(l.jobs))})
		l.jobs = append(l.jobs, id)
		return err
	case n < 3 && len(l.jobs) > 4:
		i := l.rnd.IntN(len(l.jobs))
		return l.ctl.Cancel(ctx, l.jobs[i], "enough")
	}
	l.request++
	x := lease.Exchange{
		Hello:   lease.Hello{Worker: "w", Incarnation: 1, Machine: "m", Offer: lease.Offer{Kinds: []lease.Kind{Kind}}},
		Request: l.request, Max: l.rnd.IntN(12),
	}
	x.PerKind = map[lease.Kind]int{Kind: x.Max}
	for range l.rnd.IntN(10) {
		if len(l.held) == 0 {
			break
		}
		g := l.held[0]
		l.held = l.held[1:]
		rep := report("w", g)
		switch l.rnd.IntN(6) {
		case 0:
			rep = lease.Report{Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeFailed, Class: lease.Retryable, Reason: "try again"}
			rep.Digest = lease.FailureDigest(rep.Class, rep.Reason)
			x.Reports = append(x.Reports, rep)
		case 1:
			x.Releases = append(x.Releases, lease.Give{Shard: g.Shard, Fence: g.Fence, Reason: "away"})
		default:
			x.Reports = append(x.Reports, rep)
		}
	}
	out, err := l.ctl.Exchange(ctx, x)
	l.held = append(l.held, out.Grants...)
	return err
}
