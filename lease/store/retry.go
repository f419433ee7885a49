package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// errCanceling is the answer while the rows of a cancel are still being written.
var errCanceling = errors.New("its cancel is still being carried out")

// Retry implements lease.Control.
func (c *control) Retry(ctx context.Context, id lease.JobID, what lease.Selection, after uint32) (out lease.Retried, err error) {
	if err := c.may(lease.Submitter); err != nil {
		return out, err
	}
	if len(what.With) > maxName {
		return out, fmt.Errorf("retry with %.100q…: %w", what.With, lease.ErrTooLarge)
	}
	if len(what.Items)+len(what.Shards) > lease.MaxPage {
		return out, fmt.Errorf("retry of %d items and shards at once: %w", len(what.Items)+len(what.Shards), lease.ErrTooLarge)
	}
	var next uint32
	var at reached
	for idle, least := 0, ^uint32(0); idle < 1000; idle++ {
		open := uint32(0)
		var seqs []uint32
		var early bool
		if seqs, next, early, err = c.selected(id, what, after); err != nil {
			return out, err
		}
		if err = c.reach(ctx, id, &at); err != nil {
			return out, err
		}
		err = c.s.do(ctx, func(t *tx) (err error) {
			if out, err = t.retry(c.actor, id, what, seqs, early, &at, &open); err != nil {
				out = lease.Retried{}
			}
			return err
		})
		if !errors.Is(err, errCanceling) {
			break
		}
		if open < least { // each of these tries lets a page pass: go on while they get on
			idle, least = 0, open
		}
	}
	if errors.Is(err, errCanceling) {
		return out, fmt.Errorf("retry job %v: %w: %w", id, err, lease.ErrNotAllowed)
	}
	if out.Next == 0 {
		out.Next = next
	}
	return out, err
}

// selected lists the shards above after that a retry begins with, and where the
// next page goes on; 0: there is none. early: a cancel is still being carried out.
func (c *control) selected(id lease.JobID, what lease.Selection, after uint32) (seqs []uint32, next uint32, early bool, err error) {
	err = c.view(func(r kv.Reader) error {
		j, err := c.job(r, id)
		if err != nil || after == ^uint32(0) {
			return err
		}
		early = j.canceling()
		if after == 0 {
			seqs = append(seqs, what.Shards...)
		}
		if len(what.Shards) > 0 && len(what.Items) == 0 {
			return nil
		}
		looked := 0
		var fault error
		r.Scan(shardKey(keyShard, lease.ShardID{Job: id, Seq: after + 1}), prefixEnd(jobKey(keyShard, id)), func(k, v []byte) bool {
			var row *lease.Shard
			if row, fault = decodeShard(shardOfKey(k), v); fault != nil {
				return false
			}
			if meant(r, row, what) && r.Get(shardKey(keyNext, row.ID)) == nil {
				seqs = append(seqs, row.ID.Seq)
			}
			if looked++; len(seqs) >= pageRows || looked >= maxLooked {
				next = row.ID.Seq
			}
			return next == 0
		})
		return fault
	})
	return seqs, next, early, err
}

// canceling reports whether rows are still to follow the job's cancel.
func (j *jobRow) canceling() bool { return j.Canceled && (j.Shards.Open() > 0 || j.Plans > 0) }

// meant reports whether a row that nothing supersedes is selected.
func meant(r kv.Reader, row *lease.Shard, what lease.Selection) bool {
	if len(what.Items) > 0 {
		return row.Opens > 0 && slices.ContainsFunc(what.Items, func(n uint32) bool { return n >= row.Item && n-row.Item < row.Opens })
	}
	return row.State == lease.Failed || row.State == lease.Canceled || row.Result.Failed > 0 || unplanned(r.Get, row) || what.Resend && row.Intent.Fence != 0
}

// unplanned reports whether a cancel kept the shards of a result from being added.
func unplanned(get func([]byte) []byte, row *lease.Shard) bool {
	if row.State != lease.Done || row.Planned <= maxPlan || row.First == 0 || get(shardKey(keyPlan, row.ID)) != nil {
		return false
	}
	return get(shardKey(keyShard, lease.ShardID{Job: row.ID.Job, Seq: row.First + row.Planned - 1})) == nil
}

// successor reads the value under keyNext.
func successor(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// newest follows a shard to the newest one in its place.
func (t *tx) newest(id lease.ShardID) lease.ShardID {
	for {
		by := successor(t.get(shardKey(keyNext, id)))
		if by == 0 {
			return id
		}
		id.Seq = by
	}
}

// retry adds what does the selected shards again.
func (t *tx) retry(actor asker, id lease.JobID, what lease.Selection, seqs []uint32, early bool, at *reached, open *uint32) (out lease.Retried, err error) {
	j, err := t.seen(actor, id)
	if err != nil {
		return out, err
	}
	if err := actor.s.open(j.Project); err != nil {
		return out, err
	}
	if early || j.canceling() || j.Canceled && slices.ContainsFunc(t.s.paging, func(p *page) bool { return p.job == id }) {
		*open = j.Shards.Open()
		return out, errCanceling
	}
	for _, seq := range seqs {
		named := slices.Contains(what.Shards, seq)
		if out.Added >= pageRows && !named {
			out.Next = seq - 1
			break
		}
		a := &again{t: t, j: j, with: what.With, set: map[uint32]*shardTx{}, under: map[uint32]uint32{}}
		sh, err := t.shard(t.newest(lease.ShardID{Job: id, Seq: seq}))
		if err != nil {
			return out, err
		}
		if !named && sh.ID.Seq != seq {
			continue // it came along with another one, or with another request
		}
		out.Found++
		if sent, err := t.resend(sh, what); err != nil {
			return out, err
		} else if sent {
			out.Resent++
			continue
		}
		a.resend = what.Resend
		if err := a.begin(sh, named, len(what.Items) > 0); err != nil {
			return out, err
		}
		switch {
		case a.unknown:
			out.Unknown++
		case a.busy:
			out.Busy++
		case a.lost:
			out.Lost++
		default:
			if out.Added == 0 {
				if err := t.revive(j, at); err != nil {
					return out, err
				}
			}
			if err := a.queue(actor.ID); err != nil {
				return out, err
			}
			out.Added += len(a.set)
		}
	}
	if out.Added > 0 {
		t.tell(j, lease.Event{Kind: lease.EventRetried, Actor: actor.ID, Reason: fmt.Sprintf("shards added: %d", out.Added)})
	}
	return out, nil
}

// reached is how far the input of a canceled job is in shards.
type reached struct {
	place
	next uint32 // the number that the job's next shard would get when that was found out
}

// reach finds out, in pages, how far the input of a canceled list job is in shards,
// once nothing is added to it any more.
func (c *control) reach(ctx context.Context, id lease.JobID, at *reached) error {
	for from := uint32(0); ; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		more := false
		err := c.view(func(r kv.Reader) error {
			j, err := c.job(r, id)
			if err != nil || !j.Canceled || j.canceling() || j.Input == (lease.Input{}) || from == 0 && at.next == j.NextSeq {
				return err
			}
			if from == 0 {
				*at = reached{next: j.NextSeq}
			}
			looked := 0
			var row lease.Shard
			var fault error
			r.Scan(shardKey(keyShard, lease.ShardID{Job: id, Seq: from}), prefixEnd(jobKey(keyShard, id)), func(k, v []byte) bool {
				row = lease.Shard{}
				if fault = readShard(&row, shardOfKey(k), v, nil); fault != nil {
					return false
				}
				if row.Range.To > at.offset {
					at.place = place{row.Range.To, row.Item + row.Opens}
				}
				from = row.ID.Seq + 1
				looked++
				more = looked >= maxLooked
				return !more
			})
			return fault
		})
		if err != nil || !more {
			return err
		}
	}
}

// revive takes a cancel back: what it ended stays ended, what is added goes on.
func (t *tx) revive(j *jobRow, at *reached) error {
	if !j.Canceled {
		return nil
	}
	j.Canceled, j.Reason = false, ""
	t.s.index.resume(j.ID)
	if j.Input == (lease.Input{}) {
		return nil
	}
	// The cancel may have come before the whole input was in shards.
	if at.next != j.NextSeq {
		return fmt.Errorf("job %v: shards were added meanwhile: %w", j.ID, errCanceling)
	}
	if at.offset == j.Input.Bytes {
		return nil
	}
	id := lease.ShardID{Job: j.ID}
	t.put(shardKey(keyPlan, id), encodePlace(j.ID, at.place))
	j.Plans++
	t.marked[j.ID] = true
	t.s.index.hold(j.ID)
	t.s.paging = append(t.s.paging, &page{job: j.ID, plan: id})
	return nil
}

// again is a set of shards that can only be done again together.
type again struct {
	t     *tx
	j     *jobRow
	set   map[uint32]*shardTx // to be copied
	under map[uint32]uint32   // those that the new result of another will plan anew → the nearest such
	fresh bool                // no earlier result is wanted
	with  string              // the engine that is to do it; "": as before
	busy  bool
	lost  bool

	resend  bool // also what may have been paid already
	unknown bool // there is such work, and it is not to be sent again
}

// resend puts a parked shard back into the queue, if that is wanted.
func (t *tx) resend(sh *shardTx, what lease.Selection) (bool, error) {
	l := t.s.index.leases[sh.ID]
	if !what.Resend || l == nil || !l.lapsed || !l.spends {
		return false, nil
	}
	return true, t.step(sh, lease.Expire{Fence: sh.Fence})
}

// begin collects what doing a selected shard again takes.
func (a *again) begin(sh *shardTx, named, item bool) error {
	if item && !named {
		var failed []*shardTx
		err := a.below(sh, func(s *shardTx) error {
			if s.State == lease.Failed || s.State == lease.Canceled || s.Result.Failed > 0 || unplanned(a.t.get, &s.Shard) {
				failed = append(failed, s)
			}
			a.busy = a.busy || !s.State.Terminal()
			return nil
		})
		if err != nil || a.busy {
			return err
		}
		for _, s := range failed {
			if err := a.add(s); err != nil {
				return err
			}
		}
		if len(failed) > 0 {
			return nil
		}
	}
	a.fresh = sh.State == lease.Done && sh.Result.Failed == 0 && !unplanned(a.t.get, &sh.Shard)
	return a.add(sh)
}

// below calls fn for a shard and all that its result led to, as they are now.
func (a *again) below(sh *shardTx, fn func(*shardTx) error) error {
	if err := fn(sh); err != nil || sh.First == 0 {
		return err
	}
	for seq := sh.First; seq < sh.First+sh.Planned; seq++ {
		next, err := a.t.shard(a.t.newest(lease.ShardID{Job: a.j.ID, Seq: seq}))
		if isNotFound(err) {
			continue // a cancel came before its page
		}
		if err == nil {
			err = a.below(next, fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add takes in a shard with what must be done again before it and after it.
func (a *again) add(sh *shardTx) error {
	seq := sh.ID.Seq
	if a.set[seq] != nil || a.under[seq] != 0 || a.busy || a.lost {
		return nil
	}
	if sh.Class == lease.Unknown && sh.State == lease.Failed && !a.resend {
		a.unknown, a.busy = true, true
		return nil
	}
	if !sh.State.Terminal() || a.t.get(shardKey(keyPlan, sh.ID)) != nil {
		a.busy = true
		return nil
	}
	if len(a.t.s.missing(sh.Project, sh.Inputs)) > 0 {
		if sh.Parent == 0 {
			a.lost = true
			return nil
		}
		parent, err := a.t.shard(a.t.newest(lease.ShardID{Job: a.j.ID, Seq: sh.Parent}))
		if err != nil {
			return err
		}
		return a.add(parent)
	}
	a.set[seq] = sh
	if sh.Planned > 0 && sh.First == 0 { // what it led to is not known: its row is older than that
		a.lost = true
		return nil
	}
	err := a.below(sh, func(s *shardTx) error {
		if s != sh {
			if s.Opens > 0 && a.fresh {
				return fmt.Errorf("shard %v found items of the job; submit again for a new look: %w", sh.ID, lease.ErrNotAllowed)
			}
			a.busy = a.busy || !s.State.Terminal() || a.t.get(shardKey(keyPlan, s.ID)) != nil
			a.under[s.ID.Seq] = seq
			delete(a.set, s.ID.Seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range sh.Next {
		next, err := a.t.shard(a.t.newest(lease.ShardID{Job: a.j.ID, Seq: n}))
		if isNotFound(err) {
			continue
		}
		if err == nil {
			err = a.add(next)
		}
		if err != nil {
			return err
		}
	}
	for _, n := range sh.After {
		on, err := a.t.shard(a.t.newest(lease.ShardID{Job: a.j.ID, Seq: n}))
		if isNotFound(err) {
			a.lost = true
			return nil
		}
		if err == nil && on.State != lease.Done {
			err = a.add(on)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queue adds the copies, each in the place of what it repeats.
func (a *again) queue(actor lease.ActorID) error {
	olds := make([]uint32, 0, len(a.set))
	generation := uint32(0)
	supersedes := map[uint32][]uint32{}
	for seq, sh := range a.set {
		olds = append(olds, seq)
		generation = max(generation, sh.Generation+1)
	}
	for seq, by := range a.under {
		for a.under[by] != 0 {
			by = a.under[by]
		}
		supersedes[by] = append(supersedes[by], seq)
		old, err := a.t.shard(lease.ShardID{Job: a.j.ID, Seq: seq})
		if err != nil {
			return err
		}
		generation = max(generation, old.Generation+1)
	}
	slices.Sort(olds)
	place := map[uint32]uint32{}
	for _, seq := range olds {
		place[seq] = a.j.NextSeq
		a.j.NextSeq++
	}
	added := make([]*shardTx, len(olds))
	for i, seq := range olds {
		slices.Sort(supersedes[seq])
		sh, err := a.copy(a.set[seq], place)
		if err != nil {
			return err
		}
		sh.Generation, sh.Supersedes = generation, append([]uint32{seq}, supersedes[seq]...)
		a.t.shards[sh.ID] = sh
		added[i] = sh
	}
	for _, sh := range added {
		for _, old := range sh.Supersedes {
			if err := a.t.supersede(a.j, old, sh.ID.Seq); err != nil {
				return err
			}
		}
		a.j.Items.Total += uint64(sh.Opens)
		a.j.Work.Total += sh.Work
		if err := a.t.step(sh, lease.Queue{Actor: actor}); err != nil {
			return err
		}
	}
	for _, sh := range added {
		if err := a.t.lookBack(sh); err != nil {
			return err
		}
	}
	return nil
}

// copy is a new shard for the work of an old one.
func (a *again) copy(old *shardTx, place map[uint32]uint32) (*shardTx, error) {
	spec := old.Spec
	if p, ok := a.t.s.planner.(withPlanner); ok && a.with != "" {
		var err error
		if spec, err = p.With(spec, a.with); err != nil {
			return nil, fmt.Errorf("retry shard %v with %q: %w: %w", old.ID, a.with, err, lease.ErrInvalid)
		}
	} else if a.with != "" {
		return nil, fmt.Errorf("retry shard %v with %q: %w", old.ID, a.with, lease.ErrInvalid)
	}
	sh := &shardTx{Shard: lease.Shard{
		ID: lease.ShardID{Job: a.j.ID, Seq: place[old.ID.Seq]}, Project: a.j.Project, Priority: a.j.Priority, Spec: spec,
	}}
	sh.Fresh, sh.Resend = old.Fresh || a.fresh, a.resend
	sh.After = make([]uint32, len(old.After))
	for i, n := range old.After {
		now := a.t.newest(lease.ShardID{Job: a.j.ID, Seq: n}).Seq
		if at := place[now]; at != 0 {
			now = at
		}
		sh.After[i] = now
	}
	for _, n := range old.Next {
		if at := place[a.t.newest(lease.ShardID{Job: a.j.ID, Seq: n}).Seq]; at != 0 {
			sh.Next = append(sh.Next, at)
		}
	}
	return sh, nil
}

// withPlanner is a Planner that knows how work is done by another engine.
type withPlanner interface {
	// With returns the spec of the same work for an engine or model; work that has
	// none stays as it is.
	With(sp lease.Spec, engine string) (lease.Spec, error)
}

// supersede takes an ended shard out of its job's items and work.
func (t *tx) supersede(j *jobRow, seq, by uint32) error {
	sh, err := t.shard(lease.ShardID{Job: j.ID, Seq: seq})
	if err != nil {
		return err
	}
	t.marked[j.ID] = true
	t.put(shardKey(keyNext, sh.ID), binary.BigEndian.AppendUint32(nil, by))
	*j.Old.Of(sh.State)++
	j.Items.Total -= uint64(sh.Opens)
	if sh.Planned > 0 {
		return nil
	}
	j.Work.Total -= sh.Work
	switch sh.State {
	case lease.Done:
		j.Items.Done -= uint64(sh.Settles - sh.Result.Failed)
		j.Items.Failed -= uint64(sh.Result.Failed)
		j.Work.Done -= sh.Work
	case lease.Failed:
		j.Items.Failed -= uint64(sh.Settles)
		j.Work.Failed -= sh.Work
	case lease.Blocked, lease.Ready, lease.Leased, lease.Canceled:
	}
	return nil
}
