package store_test

import (
	"bytes"
	"errors"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// report tells how an attempt ended: well, badly or not at all truly.
func (w *world) report(p *player) {
	h := w.any(p)
	if h == nil {
		return
	}
	rep := leasetest.Done(h.Grant, fmt.Sprint(h.Shard.Seq), leasetest.SoundOf(h.Shard))
	if h.Lines != nil {
		rep = leasetest.Outcomes(h.Grant, "x", w.rnd.IntN(int(h.Lines.Items)+1))
	}
	switch w.rnd.IntN(20) {
	case 0, 1:
		rep = leasetest.Failed(h.Grant, lease.Retryable, "try again")
	case 2:
		rep = leasetest.Failed(h.Grant, lease.Permanent, "no film")
	case 3:
		rep = leasetest.Bad(h.Grant)
	case 4:
		rep.Token = "forged"
	case 5:
		rep.Fence, rep.Token = rep.Fence+1, "forged"
	}
	if w.rnd.IntN(4) > 0 {
		w.upload(h.Grant)
	}
	w.post(p, rep)
}

func (w *world) upload(g lease.Grant) {
	b := leasetest.SoundBytes(g.Shard)
	err := w.ctl().PutBlob(w.Context(), leasetest.Under(g, leasetest.SoundOf(g.Shard), len(b)), bytes.NewReader(b))
	if errors.Is(err, lease.ErrFenced) {
		return // taken over, or canceled
	}
	if errors.Is(err, lease.ErrNotFound) && w.lost {
		return
	}
	if !w.failed("put blob", err) {
		w.told = true
	}
}

// replay sends an old report again, or another under its fence.
func (w *world) replay(p *player) {
	if len(p.sent) == 0 {
		return
	}
	rep := p.sent[w.rnd.IntN(len(p.sent))]
	if w.rnd.IntN(3) == 0 {
		rep = leasetest.Done(lease.Grant{Shard: rep.Shard, Fence: rep.Fence, Token: rep.Token, Lines: w.lines(rep.Shard)}, "another", leasetest.SoundOf(rep.Shard))
	}
	w.post(p, rep)
}

// deliver sends a report and compares the verdict with what the row demands.
func (w *world) deliver(p *player, rep lease.Report) {
	row, there := lease.Shard{}, !w.pruned[rep.Shard.Job]
	if there {
		if row, there = w.find(rep.Shard); !there && !w.lost {
			w.Fatalf("shard %v is not there", rep.Shard)
		}
	}
	if !there {
		out, err := w.ctl().Exchange(w.Context(), lease.Exchange{Reports: []lease.Report{rep}})
		if !w.failed("report", err) && out.Verdicts[0].Verdict != lease.Denied {
			w.Fatalf("report on %v, which is not there: verdict %s, want %s", rep.Shard, out.Verdicts[0].Verdict, lease.Denied)
		}
		return
	}
	job, err := w.ctl().Job(w.Context(), rep.Shard.Job)
	if w.failed("job", err) {
		return
	}
	x := lease.Exchange{Hello: lease.Hello{Mark: p.Mark}, Reports: []lease.Report{rep}}
	if w.rnd.IntN(2) == 0 {
		x.Hello = p.Hello
	}
	sounds := w.here(rep.Blobs)
	out, err := w.ctl().Exchange(w.Context(), x)
	if w.failed("report", err) {
		if h := w.open[rep.Shard]; h != nil && h.Fence == rep.Fence {
			h.over = true // or not: it may have been recorded
		}
		return
	}
	p.hear(out.Mark)
	got := out.Verdicts[0].Verdict
	if got == lease.Accepted {
		// An older copy keeps the leases under which money may have been spent.
		if under := (grant{rep.Shard, rep.Fence}); w.accepted[under] && row.Intent.Fence != rep.Fence {
			w.Fatalf("report on %v accepted twice under fence %v:%s", rep.Shard, rep.Fence, w.tell(rep.Shard))
		} else {
			w.accepted[under] = true
		}
	}
	if got == lease.NeedBlobs {
		// A cancel's page may have dropped them meanwhile; of uploads only memory knew.
		sounds = sounds && w.here(rep.Blobs) && w.told
	}
	w.count[string(got)]++
	if want := verdict(&row, job.Canceled, &rep, sounds); got != want {
		w.Fatalf("report %s %v under %v on %+v: verdict %s (%s), want %s", rep.Outcome, rep.Shard, rep.Fence, row, got, out.Verdicts[0].Reason, want)
	}
	p.sent = append(p.sent, rep)
	if got == lease.Accepted || got == lease.InvalidReport || got == lease.Stale {
		if h := w.open[rep.Shard]; h != nil && h.Fence == rep.Fence {
			h.over = true
		}
		if h := p.held[rep.Shard]; h != nil && h.Fence == rep.Fence {
			delete(p.held, rep.Shard)
		}
	}
}

func (w *world) here(blobs []lease.Digest) bool {
	for _, d := range blobs {
		if here, _ := w.blobs.Has(d); !here {
			return false
		}
	}
	return true
}

// verdict is the table of the design, said again.
func verdict(row *lease.Shard, canceled bool, rep *lease.Report, sounds bool) lease.Verdict {
	open := row.State == lease.Leased && !canceled
	switch {
	case rep.Fence != row.Fence:
		return lease.Stale
	case rep.Token == "forged":
		return lease.Denied
	case !open && row.Settled.Fence == rep.Fence && row.Settled.Digest == rep.Digest:
		return lease.Duplicate
	case !open && row.Settled.Fence == rep.Fence:
		return lease.Conflict
	case !open:
		return lease.Stale
	case !sounds:
		return lease.NeedBlobs
	case bytes.Contains(rep.Result, []byte(`"bad"`)):
		return lease.InvalidReport
	}
	return lease.Accepted
}
