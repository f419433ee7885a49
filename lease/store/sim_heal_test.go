package store_test

import (
	"time"

	"macbatch/lease"
	"macbatch/lease/leasetest"
)

// heal is one able worker and time: every job ends.
func (w *world) heal() {
	p := &player{
		Hello: lease.Hello{Worker: "healer", Incarnation: 1, Machine: "m", Offer: lease.Offer{Kinds: []lease.Kind{leasetest.Work}, Roots: []string{"nas"}}},
		held:  map[lease.ShardID]*holding{},
	}
	if w.rnd.IntN(2) == 0 { // one that was here before, and goes on
		p = w.workers[0]
	}
	for len(w.paused) > 0 {
		w.resume()
	}
	w.failed("resume", w.ctl().Resume(w.Context(), lease.Target{All: true}, "")) // one of unknown outcome
	w.failed("resume", w.ctl().Resume(w.Context(), lease.Target{Kind: leasetest.Work}, ""))
	for _, p := range w.workers {
		w.failed("resume", w.ctl().Resume(w.Context(), lease.Target{Worker: p.Worker}, ""))
	}
	for _, j := range w.all() {
		w.failed("resume", w.ctl().Resume(w.Context(), lease.Target{Job: j.ID}, ""))
	}
	for range 400 {
		w.claim(p, 1000, false)
		w.beat(p)
		var x lease.Exchange
		for _, h := range p.held {
			x.Reports = append(x.Reports, leasetest.Done(h.Grant, "healed", leasetest.SoundOf(h.Shard)))
		}
		if len(x.Reports) == 0 {
			if w.settled() {
				w.tally()
				return
			}
			w.resend()
			w.pass(30 * time.Second)
			continue
		}
		for _, h := range p.held {
			w.upload(h.Grant)
		}
		x.Hello = p.Hello
		x.Reports = x.Reports[:min(len(x.Reports), lease.MaxReports)]
		out, err := w.ctl().Exchange(w.Context(), x)
		if w.failed("report", err) {
			continue // the last fault was on its way
		}
		for _, v := range out.Verdicts {
			if v.Verdict == lease.NeedBlobs {
				continue
			}
			if h := w.open[v.Shard]; h != nil {
				h.over = true
			}
			delete(p.held, v.Shard)
		}
	}
	for _, job := range w.all() {
		if ended(&job) {
			continue
		}
		rows, _ := w.ctl().Shards(w.Context(), job.ID, 0, 10, false)
		w.Errorf("job %v does not end, %s holds %d: %+v\n%+v", job.ID, p.Worker, len(p.held), job, rows)
		for i := range rows {
			w.Logf("shard %v:%s", rows[i].ID, w.tell(rows[i].ID))
		}
	}
	w.FailNow()
}

func (w *world) settled() bool {
	for _, j := range w.all() {
		if !ended(&j) {
			return false
		}
	}
	return true
}

func ended(j *lease.Job) bool { return j.State.Terminal() && j.Shards.Open() == 0 && j.Plans == 0 }

// all is every job that is there: more than w.jobs, as the answer to a submission may have been lost.
func (w *world) all() (list []lease.Job) {
	for before := lease.JobID(0); ; {
		jobs, err := w.ctl().Jobs(w.Context(), before, 100)
		if w.failed("jobs", err) {
			continue
		}
		if len(jobs) == 0 {
			return list
		}
		list, before = append(list, jobs...), jobs[len(jobs)-1].ID
	}
}

// tally looks at what is left when all has ended.
func (w *world) tally() {
	for after := uint64(0); ; {
		events, err := w.ctl().Events(w.Context(), lease.ShardID{}, after, 1000)
		if err != nil {
			w.Fatalf("events: %v", err)
		}
		if len(events) == 0 {
			break
		}
		for _, ev := range events {
			after = ev.Seq
			if ev.Kind == lease.EventCarried || ev.Kind == lease.EventCheckpoint {
				w.count[string(ev.Kind)]++
			}
			if ev.Kind == lease.EventRestored && !w.lost {
				w.Errorf("event %d: %s, though nothing was lost", ev.Seq, ev.Reason)
			}
		}
	}
	for id := range w.jobs {
		rows, err := w.ctl().Shards(w.Context(), id, 0, 1000, false)
		if err != nil {
			w.Fatalf("shards: %v", err)
		}
		for _, r := range rows {
			w.count["shard"]++
			w.count["item failed"] += int(r.Result.Failed)
			w.count[r.State.String()]++
			if !r.From.IsZero() {
				w.count["reused"]++
			}
			if r.Generation > 0 {
				w.count["repeated"]++
			}
		}
	}
}
