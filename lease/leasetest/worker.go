package leasetest

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"macbatch/lease"
)

// Worker is a worker played by a test.
type Worker struct {
	lease.Hello
	T       testing.TB
	Ctl     lease.Control
	Request uint64
}

// NewWorker returns a worker's first incarnation.
func NewWorker(t testing.TB, ctl lease.Control, id lease.WorkerID, roots ...string) *Worker {
	return &Worker{T: t, Ctl: ctl, Hello: lease.Hello{
		Worker: id, Incarnation: 1, Machine: "machine of " + string(id), Offer: lease.Offer{Kinds: []lease.Kind{Work}, Roots: roots},
	}}
}

// Claim asks for up to n shards.
func (w *Worker) Claim(n int) []lease.Grant {
	w.T.Helper()
	w.Request++
	return w.Exchange(lease.Exchange{Max: n}).Grants
}

// Exchange fills in who asks and which request it is.
func (w *Worker) Exchange(x lease.Exchange) lease.Exchanged {
	w.T.Helper()
	out, err := w.Try(x)
	if err != nil {
		w.T.Fatalf("exchange of %s: %v", w.Worker, err)
	}
	return out
}

// Try is Exchange that may fail.
func (w *Worker) Try(x lease.Exchange) (lease.Exchanged, error) {
	x.Hello, x.Request = w.Hello, w.Request
	if x.PerKind == nil {
		x.PerKind = map[lease.Kind]int{Work: x.Max}
	}
	return w.Ctl.Exchange(context.Background(), x)
}

// Beat sends a heartbeat and returns what is lost.
func (w *Worker) Beat(phase lease.Phase, grants ...lease.Grant) []lease.ShardID {
	w.T.Helper()
	b := lease.Beat{Hello: w.Hello}
	for _, g := range grants {
		b.Leases = append(b.Leases, lease.LeaseBeat{Shard: g.Shard, Fence: g.Fence, Phase: phase})
	}
	out, err := w.Ctl.Heartbeat(context.Background(), b)
	if err != nil {
		w.T.Fatalf("heartbeat of %s: %v", w.Worker, err)
	}
	return out.Lost
}

// Report delivers one report and returns its verdict.
func (w *Worker) Report(r lease.Report) lease.Judgement {
	w.T.Helper()
	out := w.Exchange(lease.Exchange{Reports: []lease.Report{r}})
	if len(out.Verdicts) != 1 {
		w.T.Fatalf("report on %v: %d verdicts, want 1", r.Shard, len(out.Verdicts))
	}
	return out.Verdicts[0]
}

// Sound uploads the blob that a result of g delivers.
func (w *Worker) Sound(g lease.Grant) lease.Digest {
	w.T.Helper()
	b := SoundBytes(g.Shard)
	d := lease.DigestOf(b)
	if err := w.Ctl.PutBlob(context.Background(), Under(g, d, len(b)), bytes.NewReader(b)); err != nil {
		w.T.Fatalf("put blob: %v", err)
	}
	return d
}

// Under announces bytes for a report on g.
func Under(g lease.Grant, d lease.Digest, size int) lease.Upload {
	return lease.Upload{Digest: d, Size: int64(size), Shard: g.Shard, Fence: g.Fence, Token: g.Token}
}

// Done is the report of a result, for a list shard of the same one for each item.
func Done(g lease.Grant, text string, blobs ...lease.Digest) lease.Report {
	if g.Lines != nil {
		return Outcomes(g, text, 0)
	}
	return result(g, Result{Text: text}, blobs...)
}

// Bad is the report of a result that breaks its kind's rules.
func Bad(g lease.Grant) lease.Report {
	if g.Lines != nil {
		return Outcomes(g, "bad", 0)
	}
	return result(g, Result{Bad: true})
}

func result(g lease.Grant, r Result, blobs ...lease.Digest) lease.Report {
	b, _ := json.Marshal(r) // it always encodes
	return settle(g, b, blobs...)
}

func settle(g lease.Grant, b []byte, blobs ...lease.Digest) lease.Report {
	return lease.Report{
		Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeDone,
		Digest: lease.DigestOf(b), Bytes: int64(len(b)), Result: b, Blobs: blobs,
	}
}

// Failed is the report of a failed attempt.
func Failed(g lease.Grant, c lease.FailureClass, reason string) lease.Report {
	return lease.Report{
		Shard: g.Shard, Fence: g.Fence, Token: g.Token, Outcome: lease.OutcomeFailed,
		Digest: lease.FailureDigest(c, reason), Class: c, Reason: reason,
	}
}

// Submit submits a test job.
func Submit(t testing.TB, ctl lease.Control, p Params) lease.JobID {
	t.Helper()
	b, _ := json.Marshal(p) // it always encodes
	id, err := ctl.Submit(context.Background(), lease.Submission{Kind: "test", Params: b})
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return id
}

// JobOf reads a job.
func JobOf(t testing.TB, ctl lease.Control, id lease.JobID) lease.Job {
	t.Helper()
	j, err := ctl.Job(context.Background(), id)
	if err != nil {
		t.Fatalf("job %v: %v", id, err)
	}
	return j
}
