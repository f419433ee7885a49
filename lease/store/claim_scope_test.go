package store_test

import (
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
)

// A worker is granted work of the projects it is assigned to, and no other: not
// by asking for everything, and not by naming the job.
func TestClaimScope(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	id := leasetest.Submit(t, f.Near(), leasetest.Params{Items: 2})
	for _, job := range []lease.JobID{0, id} {
		for _, c := range []struct {
			worker   lease.WorkerID
			projects []lease.Project
			want     int
		}{
			{"nobodys", nil, 0},
			{"others", []lease.Project{"other"}, 0},
			{"ours", []lease.Project{"other", lease.DefaultProject}, 1},
		} {
			w := leasetest.NewWorker(t, f.As(lease.Actor{ID: lease.ActorID(c.worker), Role: lease.WorkerRole, Projects: c.projects}), c.worker)
			w.Request = uint64(job)
			w.Request++
			if got := len(w.Exchange(lease.Exchange{Max: 1, Job: job}).Grants); got != c.want {
				t.Errorf("worker %s with projects %q claims of job %v: %d grants, want %d", c.worker, c.projects, job, got, c.want)
			}
		}
	}
}
