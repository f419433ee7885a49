package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// maxMakers bounds the makers that a census tells apart; the rest is one more.
const maxMakers = 1000

// tally adds up a census.
type tally struct {
	jobs   map[lease.Kind]*lease.JobCount
	shards map[lease.Kind]*lease.ShardCount
	leases map[lease.WorkerID]*lease.LeaseCount
	makers map[makerKey]*lease.MakerCount
	open   map[lease.ShardID]lease.WorkerID
}

type makerKey struct {
	kind  lease.Kind
	maker lease.Maker
}

// Census implements lease.Control. It keeps no counts of its own: it reads all jobs,
// and all shards in pages between which the writer gets on, and holds no more of
// them than their kinds. A shard is counted once, as it is when its page is read.
func (c *control) Census(ctx context.Context) (out lease.Census, err error) {
	t := tally{
		jobs: map[lease.Kind]*lease.JobCount{}, shards: map[lease.Kind]*lease.ShardCount{}, leases: map[lease.WorkerID]*lease.LeaseCount{},
		makers: map[makerKey]*lease.MakerCount{}, open: map[lease.ShardID]lease.WorkerID{},
	}
	now := c.s.now()
	out.At = now.Round(0).UTC()
	jobs := map[lease.JobID]*jobRow{} // those the actor sees
	err = c.view(func(r kv.Reader) error {
		var fault error
		scan(r, []byte{keyJob}, func(k, v []byte) bool {
			var j *jobRow
			if j, _, fault = decodeJob(lease.JobID(decodeKey(k)), v); fault == nil && c.actor.Sees(j.Project) {
				j.Params = nil
				jobs[j.ID] = j
				t.job(j)
				if !j.Pause.IsZero() && !j.State.Terminal() {
					out.Pauses = append(out.Pauses, j.Pause)
				}
			}
			return fault == nil
		})
		if fault != nil {
			return fault
		}
		if out.Pauses, err = pauses(r, out.Pauses, c.actor.Role == lease.Admin); err != nil {
			return err
		}
		h, err := decodeHead(r.Get([]byte{keyHead}))
		if err != nil {
			return err
		}
		if c.actor.Role == lease.Admin {
			out.Store.Events, out.Store.Commits = h.Seq, h.Commits
		}
		return nil
	})
	for at := shardKey(keyShard, lease.ShardID{}); err == nil && at != nil; {
		if err = context.Cause(ctx); err == nil {
			err = c.view(func(r kv.Reader) (err error) {
				at, err = t.rows(r, at, jobs)
				return err
			})
		}
	}
	if err != nil {
		return lease.Census{}, err
	}
	c.lapsed(&t, now)
	if c.actor.Role == lease.Admin {
		if err := c.size(&out.Store); err != nil {
			return lease.Census{}, err
		}
	}
	t.into(&out)
	return out, nil
}

func (t *tally) job(j *jobRow) {
	n := t.jobs[j.Kind]
	if n == nil {
		n = &lease.JobCount{Kind: j.Kind, Jobs: map[lease.JobState]int{}}
		t.jobs[j.Kind] = n
	}
	n.Jobs[j.State]++
	n.Cost.Reserved, n.Cost.Spent = n.Cost.Reserved.Plus(j.Cost.Reserved), n.Cost.Spent.Plus(j.Cost.Spent)
	for _, p := range []struct{ sum, of *lease.Progress }{{&n.Items, &j.Items}, {&n.Work, &j.Work}} {
		p.sum.Total += p.of.Total
		p.sum.Done += p.of.Done
		p.sum.Failed += p.of.Failed
	}
}

// rows adds one page of the shards of jobs, from a key on, and returns where the
// next one begins; nil: there is none.
func (t *tally) rows(r kv.Reader, from []byte, jobs map[lease.JobID]*jobRow) (next []byte, err error) {
	names := names{}
	var row lease.Shard
	looked := 0
	r.Scan(from, []byte{keyShard + 1}, func(k, v []byte) bool {
		if looked++; looked > maxLooked {
			next = slices.Clone(k)
			return false
		}
		id := shardOfKey(k)
		j := jobs[id.Job]
		if j == nil {
			return true
		}
		row = lease.Shard{}
		if err = readShard(&row, id, v, names); err == nil {
			t.shard(j, &row, j.Old != (lease.Counts{}) && r.Get(shardKey(keyNext, id)) != nil)
		}
		return err == nil
	})
	return next, err
}

func (t *tally) shard(j *jobRow, s *lease.Shard, old bool) {
	n := t.shards[s.Need.Kind]
	if n == nil {
		n = &lease.ShardCount{Kind: s.Need.Kind}
		t.shards[s.Need.Kind] = n
	}
	*n.Of(s.State)++
	if old {
		n.Old++
		return
	}
	reused := !s.From.IsZero()
	if reused && s.Planned == 0 {
		t.jobs[j.Kind].Reused += uint64(s.Settles)
	}
	if s.State == lease.Leased {
		t.open[s.ID] = s.Holder.Worker
		w := t.leases[s.Holder.Worker]
		if w == nil {
			w = &lease.LeaseCount{Worker: s.Holder.Worker}
			t.leases[s.Holder.Worker] = w
		}
		w.Leases++
	}
	if s.State != lease.Done || s.Result.Maker == (lease.Maker{}) {
		return
	}
	key := makerKey{s.Need.Kind, s.Result.Maker}
	m := t.makers[key]
	if m == nil && len(t.makers) >= maxMakers {
		key.maker = lease.Maker{Engine: "others"}
		m = t.makers[key]
	}
	if m == nil {
		m = &lease.MakerCount{Kind: key.kind, Maker: key.maker}
		t.makers[key] = m
	}
	m.Results++
	if reused {
		m.Reused++
	}
}

// lapsed looks up which of the open leases are past their deadline: memory's.
func (c *control) lapsed(t *tally, now time.Time) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for id, w := range t.open {
		if l := c.s.index.leases[id]; l != nil && !now.Before(l.deadline) {
			t.leases[w].Lapsed++
			t.shards[l.ticket.line.need.Kind].Lapsed++
		}
	}
}

// size reads how much the store takes.
func (c *control) size(f *lease.StoreFigures) (err error) {
	if e, ok := c.s.engine.(interface{ Size() (int64, error) }); ok { // one that is a file
		if f.Bytes, err = e.Size(); err != nil {
			return fmt.Errorf("census: %w", err)
		}
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, n := range c.s.present {
		f.Blobs++
		f.BlobBytes += n
	}
	return nil
}

// pauses adds those of kinds and of everything; and those of workers.
func pauses(r kv.Reader, list []lease.Pause, workers bool) (_ []lease.Pause, err error) {
	scan(r, []byte{keyPause}, func(k, v []byte) bool {
		var p lease.Pause
		if p, err = decodePause(k, v); err == nil && (workers || p.Worker == "") {
			list = append(list, p)
		}
		return err == nil
	})
	return list, err
}

func (t *tally) into(out *lease.Census) {
	for _, k := range slices.Sorted(maps.Keys(t.jobs)) {
		out.Jobs = append(out.Jobs, *t.jobs[k])
	}
	for _, k := range slices.Sorted(maps.Keys(t.shards)) {
		out.Shards = append(out.Shards, *t.shards[k])
	}
	for _, id := range slices.Sorted(maps.Keys(t.leases)) {
		out.Leases = append(out.Leases, *t.leases[id])
	}
	for _, m := range t.makers {
		out.Makers = append(out.Makers, *m)
	}
	slices.SortFunc(out.Makers, func(a, b lease.MakerCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Engine, b.Engine), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Server, b.Server))
	})
}
