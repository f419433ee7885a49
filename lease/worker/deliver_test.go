package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
)

func deliver(t *testing.T, r *rig) (Tally, error) {
	d := Delivery{Control: r.fake, Spool: r.sp}
	return d.Deliver(t.Context())
}

// Drain waits for the process that delivers, and takes over what that one left.
func TestDrainTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		first, second := r.spooled(r.leased()), r.spooled(r.leased())
		unlock, err := r.sp.Lock()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*busyPause, func() {
			if err := errors.Join(r.sp.Remove(first), unlock()); err != nil {
				t.Error(err)
			}
		})
		lefts := map[int]bool{}
		d := Delivery{Control: r.fake, Spool: r.sp, Told: func(t Tally) { lefts[t.Left] = true }}
		got, err := d.Drain(t.Context())
		if want := (Tally{Accepted: 1}); err != nil || got != want || !lefts[2] || !lefts[1] || !lefts[0] {
			t.Fatalf("Drain = %+v, %v, want %+v; told of %v left", got, err, want, lefts)
		}
		if list, err := r.sp.List(); err != nil || len(list) != 0 {
			t.Fatalf("List = %v, %v, want none; the second is %v", list, err, second)
		}

		// All of it is delivered by the other one.
		third := r.spooled(r.leased())
		release, err := r.sp.Lock()
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3*busyPause, func() {
			if err := r.sp.Remove(third); err != nil {
				t.Error(err)
			}
		})
		d = Delivery{Control: r.fake, Spool: r.sp}
		if got, err := d.Drain(t.Context()); err != nil || got != (Tally{}) {
			t.Fatalf("Drain = %+v, %v, want nothing left to do", got, err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	})
}

// Watch outlasts an outage, takes what comes by itself, and ends with ctx.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		r.spooled(r.leased())
		r.set(func() { r.down = true })
		ctx, stop := context.WithCancel(t.Context())
		d := Delivery{Control: r.fake, Spool: r.sp}
		type end struct {
			Tally
			error
		}
		ended := make(chan end)
		go func() {
			t, err := d.Watch(ctx)
			ended <- end{t, err}
		}()
		pass(time.Minute)
		r.set(func() { r.down = false })
		pass(watchTurn + time.Second)
		late := r.leased()
		r.spooled(late)
		pass(watchTurn + time.Second)
		if s := r.state(late.Shard); s.State != lease.Done {
			t.Errorf("what came while it watched is %v, want done", s.State)
		}
		stop()
		if e := <-ended; e.error != nil || e.Tally != (Tally{Accepted: 2}) {
			t.Fatalf("Watch = %+v, %v, want 2 accepted", e.Tally, e.error)
		}
		r.set(func() { r.refuse = func(lease.Exchange) error { return lease.ErrUnauthorized } })
		r.spooled(r.leased())
		d = Delivery{Control: r.fake, Spool: r.sp}
		if _, err := d.Watch(t.Context()); !errors.Is(err, lease.ErrUnauthorized) {
			t.Fatalf("Watch = %v, want ErrUnauthorized", err)
		}
	})
}

// A blob that has rotted in the spool costs its own report only, and no more tries
// than in a worker.
func TestDeliverRottenBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		file := filepath.Join(t.TempDir(), "sound")
		if err := os.WriteFile(file, []byte("sound"), 0o600); err != nil {
			t.Fatal(err)
		}
		rep := r.leased()
		digest := lease.DigestOf([]byte("sound"))
		rep.Blobs = []lease.Digest{digest}
		r.spooled(rep, file)
		r.spooled(r.leased())
		if err := os.WriteFile(filepath.Join(r.dir, "blobs", digest.String()), []byte("SOUND"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := deliver(t, r)
		if want := (Tally{Accepted: 1, Damaged: 1}); err != nil || got != want {
			t.Fatalf("Deliver = %+v, %v, want %+v", got, err, want)
		}
		if list, err := r.sp.Rejected(); err != nil || len(list) != 1 {
			t.Fatalf("Rejected = %v, %v, want the one of the rotten blob", list, err)
		}
	})
}
