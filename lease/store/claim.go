package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Exchange implements lease.Control.
func (c *control) Exchange(ctx context.Context, x lease.Exchange) (out lease.Exchanged, err error) {
	if err := c.may(lease.WorkerRole); err != nil {
		return out, err
	}
	if len(x.Reports) > lease.MaxReports || len(x.Releases) > lease.MaxReports || x.Max > lease.MaxGrants || x.Extra > lease.MaxGrants ||
		len(x.Paces) > lease.MaxPaces || len(x.Loaded) > lease.MaxPaces {
		return out, fmt.Errorf("exchange: %w", lease.ErrTooLarge)
	}
	if err := c.s.greet(c.actor.ID, x.Hello, x.Claims(), x.Request); err != nil {
		return out, err
	}
	if err := c.s.heed(ctx, x.Mark); err != nil {
		return out, err
	}
	reports := c.s.check(x.Reports)
	defer func() {
		if err == nil {
			out.Mark = c.s.mark()
		}
	}()
	deadline := c.s.now().Add(min(x.Wait, lease.MaxWait))
	waited := false
	defer func() {
		if waited {
			c.s.fed(&x)
		}
	}()
	for {
		c.s.mu.Lock()
		wake := c.s.wake
		c.s.mu.Unlock()
		err = c.s.do(ctx, func(t *tx) (err error) {
			actor, err := c.actor.now()
			if err == nil {
				out, err = t.exchange(actor, x, reports)
			}
			return err
		})
		for i := range out.Grants { // here, so that the writer need not
			out.Grants[i].Token = c.s.token(out.Grants[i].Shard, out.Grants[i].Fence)
		}
		if err != nil || x.Max == 0 || len(reports) > 0 || len(out.Grants) > 0 || out.More {
			return out, err
		}
		left := deadline.Sub(c.s.now())
		if left <= 0 {
			return out, nil
		}
		waited = true
		c.s.starves(&x)
		timer := time.NewTimer(left)
		select {
		case <-wake:
			timer.Stop()
		case <-timer.C:
			return out, nil
		case <-ctx.Done():
			timer.Stop()
			return out, context.Cause(ctx)
		case <-c.s.stopped:
			timer.Stop()
			return out, lease.ErrUnreachable
		}
	}
}

func (t *tx) exchange(actor lease.Actor, x lease.Exchange, reports []checked) (out lease.Exchanged, err error) {
	out.Verdicts = make([]lease.Judgement, 0, len(reports))
	for i := range reports {
		v, err := t.report(actor, &reports[i])
		if err != nil {
			return out, err
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	for _, g := range x.Releases {
		if err := t.release(actor, g); err != nil {
			return out, err
		}
	}
	if x.Claims() {
		err = t.claim(actor, &x, &out)
	}
	return out, err
}

// claim grants what the worker is able to do, oldest first.
func (t *tx) claim(actor lease.Actor, x *lease.Exchange, out *lease.Exchanged) error {
	ix := t.s.index
	w := ix.worker(x.Worker)
	w.paces, w.job, w.promised = x.Paces, x.Job, 0
	if done, err := t.claimAgain(actor, w, x, out); done || err != nil {
		return err
	}
	if ix.stops.workers[x.Worker] {
		if ix.alone == x.Worker {
			ix.alone = "" // the suspect is for another one
		}
		return nil
	}
	actor = t.s.scope.Load().claimant(actor)
	left := map[lease.Kind]int{}
	for k, n := range x.PerKind {
		left[k] = n
	}
	if alone, err := t.claimAlone(actor, w, x, left, out); alone || err != nil {
		return err
	}
	f := t.s.front(x, &actor, t.now)
	size := 0
	for reused := 0; len(out.Grants) < x.Max; {
		tk, ok := f.first(left)
		if !ok {
			break
		}
		if reused >= maxReuse || len(t.dirty) > 8*maxPlan {
			out.More = true
			return nil
		}
		told := len(out.Grants)
		if did, err := t.give(f, tk, actor, x, left, out); err != nil {
			return err
		} else if did {
			reused++
			continue
		}
		if size += bulk(out.Grants[told:]); size > maxPageBytes {
			return nil // the rest is for the next claim
		}
	}
	return t.ahead(f, actor, x, out, size)
}

// give grants the shard that was chosen. done: it needs no grant, for an earlier
// result serves for it, or the one that somebody is making will.
func (t *tx) give(f *front, tk ticket, actor lease.Actor, x *lease.Exchange, left map[lease.Kind]int, out *lease.Exchanged) (done bool, err error) {
	sh, err := t.shard(tk.id())
	if err != nil {
		return false, err
	}
	key := t.reuseOf(sh)
	if did, err := t.reuse(sh, key); did || err != nil {
		return did, err
	}
	ix, c := t.s.index, tk.line.class
	if l := ix.maker(&sh.Shard, key); l != nil {
		ix.setAside(tk, l)
		return true, nil
	}
	if err := t.grant(actor, sh, x, left, out); err != nil {
		return false, err
	}
	if l := ix.leases[sh.ID]; l != nil {
		ix.make(l, key)
	}
	f.granted(c, tk.line)
	return false, nil
}

// bulk is how many bytes of work and of results an answer carries.
func bulk(grants []lease.Grant) (n int) {
	for i := range grants {
		n += len(grants[i].Payload)
		for _, need := range grants[i].Needs {
			n += len(need.Inline)
		}
	}
	return n
}

// grant leases a shard under a new fence. A lapsed shard that used up its chances
// ends here instead.
func (t *tx) grant(actor lease.Actor, sh *shardTx, x *lease.Exchange, left map[lease.Kind]int, out *lease.Exchanged) error {
	count := false
	if l := t.s.index.leases[sh.ID]; l != nil {
		count = t.s.index.lapse(l)
	}
	if t.head.Fence++; t.head.Fence == 0 {
		t.head.Epoch++ // four thousand million grants: the next epoch begins
	}
	f := lease.Fence(uint64(t.head.Epoch)<<32 | uint64(t.head.Fence))
	err := t.step(sh, lease.Claim{
		Holder: lease.Holder{Worker: x.Worker, Actor: actor.ID, Incarnation: x.Incarnation, Request: x.Request},
		Fence:  f, Term: t.s.term, Count: count,
	})
	if err != nil {
		return err
	}
	if sh.State != lease.Leased {
		return t.settle(sh)
	}
	left[sh.Need.Kind]--
	return t.tellGrant(sh, out)
}

// tellGrant adds an open lease to the answer, but for its token.
func (t *tx) tellGrant(sh *shardTx, out *lease.Exchanged) error {
	g := lease.Grant{
		Shard: sh.ID, Fence: sh.Fence, Kind: sh.Need.Kind, Model: sh.Need.Model,
		Payload: bytes.Clone(sh.Payload), Work: sh.Work, Term: t.s.term,
	}
	if sh.Range != (lease.Range{}) {
		j, err := t.job(sh.ID.Job)
		if err != nil {
			return err
		}
		g.Payload, g.Lines = j.Params, sh.Lines(&j.Job)
	}
	if j, err := t.job(sh.ID.Job); err != nil {
		return err
	} else if j.Cost.Max > 0 {
		g.Capped = true
	}
	for _, seq := range sh.After {
		on, err := t.shard(lease.ShardID{Job: sh.ID.Job, Seq: seq})
		if err != nil {
			return err
		}
		res, err := t.resultOf(&on.Shard)
		if err != nil {
			return err
		}
		res.Maker, res.Keeps = lease.Maker{}, nil // the worker's work does not depend on them
		g.Needs = append(g.Needs, res)
	}
	out.Grants = append(out.Grants, g)
	return nil
}

// resultOf returns a done shard's result, with its bytes when they are in the store.
func (t *tx) resultOf(sh *lease.Shard) (lease.Result, error) {
	res := sh.Result
	if res.Blob {
		return res, nil
	}
	id := sh.ID
	if !sh.From.IsZero() {
		id = sh.From
	}
	b := t.get(shardKey(keyValue, id))
	if b == nil {
		return res, fmt.Errorf("shard %v: its result is missing", id)
	}
	res.Inline = append([]byte(nil), b...)
	return res, nil
}

// claimAgain answers a repeated claim with its open grants, and ends what older
// incarnations of the worker still hold. done: the answer is complete.
func (t *tx) claimAgain(actor lease.Actor, w *workerSeen, x *lease.Exchange, out *lease.Exchanged) (done bool, err error) {
	var again, old []lease.ShardID
	for id, l := range w.leases {
		switch {
		case l.holder.Actor != actor.ID: // a worker's name gives no right to another's leases
		case l.holder.Incarnation < x.Incarnation && l.spends:
			l.lapsed, l.deadline = true, t.now // parked: what became of its request is not known
		case l.holder.Incarnation < x.Incarnation:
			old = append(old, id)
		case l.holder.Incarnation == x.Incarnation && l.holder.Request == x.Request && !l.lapsed && t.s.index.marks[id.Job] != markCanceled && actor.Sees(t.s.index.project(id.Job)):
			again = append(again, id)
		}
	}
	sortShards(old)
	for _, id := range old {
		sh, err := t.shard(id)
		if err != nil {
			return false, err
		}
		l := w.leases[id]
		if err := t.step(sh, lease.Expire{Fence: sh.Fence, Count: t.s.index.lapse(l)}); err != nil {
			return false, err
		}
		if sh.State.Terminal() {
			if err := t.settle(sh); err != nil {
				return false, err
			}
		}
	}
	sortShards(again)
	for _, id := range again {
		sh, err := t.shard(id)
		if err != nil {
			return false, err
		}
		if err := t.tellGrant(sh, out); err != nil {
			return false, err
		}
	}
	return len(again) > 0, nil
}

// claimAlone serves shards that are suspected of killing their workers: one at a
// time, to a worker that holds nothing else. done: the worker gets nothing more.
func (t *tx) claimAlone(actor lease.Actor, w *workerSeen, x *lease.Exchange, left map[lease.Kind]int, out *lease.Exchanged) (done bool, err error) {
	ix := t.s.index
	held := 0
	for id, l := range w.leases {
		if l.lapsed {
			continue // the worker does not know of it, or it would have renewed it
		}
		held++
		if sh, err := t.shard(id); err != nil {
			return false, err
		} else if sh.Suspect() {
			return true, nil // it is alone with a suspect now
		}
	}
	tk, ok := firstSuspect(ix, x, &actor, func(k lease.Kind) bool { return held > 0 || left[k] > 0 })
	if !ok {
		if ix.alone == x.Worker {
			ix.alone = ""
		}
		return false, nil
	}
	if held > 0 {
		// One that no longer claims may be alive, but will not take the suspect.
		if other := ix.workers[ix.alone]; ix.alone != x.Worker && other != nil && t.now.Sub(other.claimed) < t.s.term {
			return false, nil // another worker is being drained for it
		}
		ix.alone = x.Worker
		return true, nil
	}
	sh, err := t.shard(tk.id())
	if err != nil {
		return false, err
	}
	ix.alone = ""
	err = t.grant(actor, sh, x, left, out)
	return sh.State == lease.Leased, err // it may have ended as poison
}

func firstSuspect(ix *index, x *lease.Exchange, actor *lease.Actor, room func(lease.Kind) bool) (best ticket, ok bool) {
	ix.suspects.Ascend(func(tk ticket) bool {
		l := tk.line
		if !l.hidden && !ix.stops.paused(l.need.Kind) && x.Offer.Able(l.need) && room(l.need.Kind) && (x.Job == 0 || x.Job == l.job) && actor.Sees(l.project) {
			best, ok = tk, true
		}
		return !ok
	})
	return best, ok
}

// inline reads the bytes of a result kept in the store; nil for a blob.
func inline(r kv.Reader, sh *lease.Shard) ([]byte, error) {
	if sh.State != lease.Done || sh.Result.Blob {
		return nil, nil
	}
	id := sh.ID
	if !sh.From.IsZero() {
		id = sh.From
	}
	b := r.Get(shardKey(keyValue, id))
	if b == nil {
		return nil, fmt.Errorf("shard %v: its result is missing", id)
	}
	return append([]byte(nil), b...), nil
}
