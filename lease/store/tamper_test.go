package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/kvtest"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// record is one key or ledger record of a store.
type record struct {
	key   []byte // nil: a ledger record
	seq   uint64
	value []byte
}

func dump(t testing.TB, e kv.Engine) (all []record) {
	t.Helper()
	err := e.View(func(r kv.Reader) error {
		r.Scan(nil, nil, func(k, v []byte) bool {
			all = append(all, record{key: bytes.Clone(k), value: bytes.Clone(v)})
			return true
		})
		r.Log(0, func(seq uint64, v []byte) bool {
			all = append(all, record{seq: seq, value: bytes.Clone(v)})
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func rebuild(t testing.TB, all []record) kv.Engine {
	t.Helper()
	e := memkv.Open()
	err := e.Update(func(w kv.Writer) error {
		for _, r := range all {
			var err error
			if r.key != nil {
				err = w.Put(r.key, r.value)
			} else {
				err = w.Append(r.seq, r.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// lived returns a store that went through everything that writes an event.
func lived(t testing.TB) *leasetest.Fixture {
	f := leasetest.Open(t, kvtest.Guard(t, memkv.Open()), leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	w := leasetest.NewWorker(t, ctl, "w1")
	leasetest.Submit(t, ctl, leasetest.Params{Items: 12, Then: 2, Reuse: true})
	gs := w.Claim(9)
	w.Report(leasetest.Done(gs[0], "a"))
	w.Report(leasetest.Done(gs[1], "b"))
	w.Report(leasetest.Failed(gs[2], lease.Permanent, "no film"))
	w.Report(leasetest.Failed(gs[3], lease.Retryable, "again"))
	w.Report(leasetest.Bad(gs[4]))
	w.Exchange(lease.Exchange{Releases: []lease.Give{{Shard: gs[5].Shard, Fence: gs[5].Fence, Reason: "away"}}})
	w.Beat(lease.Running, gs[6], gs[7])
	w.Incarnation, w.Request = 2, 0
	for _, g := range w.Claim(3) {
		w.Report(leasetest.Done(g, "c"))
	}
	leasetest.Submit(t, ctl, leasetest.Params{Items: 3, Then: 2, Reuse: true, Distinct: "again"})
	w.Claim(20)
	chain := leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Then: 2, Distinct: "chain", Root: "nas"})
	w.Offer.Roots = []string{"nas"}
	for range 3 {
		for _, g := range w.Claim(2) {
			if g.Shard.Seq == 1 {
				w.Report(leasetest.Done(g, "d"))
			} else {
				w.Report(leasetest.Failed(g, lease.Permanent, "broken"))
			}
		}
		if _, err := ctl.Retry(t.Context(), chain, lease.Selection{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	leasetest.SubmitList(t, ctl, 7, leasetest.ListParams{Items: 3, Reuse: true})
	for _, g := range w.Claim(2) {
		if g.Lines != nil {
			w.Report(leasetest.Outcomes(g, "d", 1))
		}
	}
	for _, of := range []lease.Target{{Job: leasetest.Submit(t, ctl, leasetest.Params{Items: 2})}, {Kind: "another"}, {Worker: "w1"}, {All: true}} {
		if err := errors.Join(ctl.Pause(t.Context(), of, "hot", time.Hour), ctl.Resume(t.Context(), of, ""), ctl.Pause(t.Context(), of, "hot", 0)); err != nil {
			t.Fatal(err)
		}
	}
	submitAs(t, ctl, "known")
	again := submitAs(t, ctl, "again")
	canceled := leasetest.Submit(t, ctl, leasetest.Params{Items: 5})
	if err := ctl.Cancel(t.Context(), again, "not yet"); err != nil {
		t.Fatal(err)
	}
	if err := ctl.Cancel(t.Context(), canceled, "enough"); err != nil {
		t.Fatal(err)
	}
	project(t, ctl, "films")
	add(t, ctl, "mac", lease.WorkerRole, "films", lease.DefaultProject)
	add(t, ctl, "gone", lease.Reader, "films")
	for _, err := range []error{
		ctl.Unassign(t.Context(), "mac", "films"), ctl.RotateActor(t.Context(), "mac", lease.Digest{9}, time.Hour),
		ctl.RevokeActor(t.Context(), "gone"), ctl.CloseProject(t.Context(), "films"), joinAgain(t, f, "mac"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Stop(t)
	return f
}

// submitAs submits a job under a key.
func submitAs(t testing.TB, ctl lease.Control, key string) lease.JobID {
	t.Helper()
	id, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: []byte(`{"items":1}`), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestTamper edits, removes, swaps and puts back single rows and records: verify
// must notice each.
func TestTamper(t *testing.T) {
	f := lived(t)
	all := dump(t, f.Engine)
	f.Restart(t)
	leasetest.NewWorker(t, f.Near(), "w9").Claim(30)
	f.Stop(t)
	seed := rand.Uint64()
	n := tamper(t, rand.New(rand.NewPCG(seed, 1)), seed, 3000, dump(t, f.Engine), all, f.Blobs)
	t.Logf("seed %d, %d rows and records, %d tamperings", seed, len(all), n)
}

// tamper makes single changes to a store, and returns how many. Earlier is what
// was there at an earlier moment, to be put back.
func tamper(t *testing.T, rnd *rand.Rand, seed uint64, times int, all, earlier []record, blobs *leasetest.Blobs) (tried int) {
	t.Helper()
	jobs := map[string]bool{}
	for _, r := range all {
		if len(r.key) == 9 && r.key[0] == 'j' {
			jobs[string(r.key[1:])] = true
		}
	}
	was := map[string][]byte{}
	for _, r := range earlier {
		if r.key != nil {
			was[string(r.key)] = r.value
		}
	}
	for tried < times {
		i := rnd.IntN(len(all))
		if k := all[i].key; k != nil && !bytes.ContainsAny(k[:1], "hjsoznaqkum") || len(all[i].value) == 0 {
			continue
		} else if len(k) == 13 && !jobs[string(k[1:9])] {
			continue // of a pruned job, on its way out
		}
		broken := make([]record, len(all))
		copy(broken, all)
		what := ""
		switch rnd.IntN(9) {
		case 0:
			what = "removed"
			broken = append(broken[:i:i], broken[i+1:]...)
		case 1:
			j := rnd.IntN(len(all))
			if (all[i].key == nil) != (all[j].key == nil) || bytes.Equal(all[i].value, all[j].value) || j == i ||
				all[j].key != nil && all[i].key[0] != all[j].key[0] {
				continue
			}
			what = fmt.Sprintf("swapped with %d", j)
			broken[i].value, broken[j].value = all[j].value, all[i].value
		case 2:
			what = "cut short"
			broken[i].value = all[i].value[:rnd.IntN(len(all[i].value))]
		case 3:
			v, here := was[string(all[i].key)]
			if !here || bytes.Equal(v, all[i].value) {
				continue
			}
			what = "put back"
			broken[i].value = v
		default:
			at, bit := rnd.IntN(len(all[i].value)), byte(1)<<rnd.IntN(8)
			what = fmt.Sprintf("bit %d of byte %d flipped", bit, at)
			broken[i].value = bytes.Clone(all[i].value)
			broken[i].value[at] ^= bit
		}
		tried++
		problems, err := store.CheckWithin(rebuild(t, broken), blobs, 10+rnd.IntN(400))
		if err == nil && len(problems) == 0 {
			t.Errorf("seed %d: %q/%d %s: not noticed", seed, all[i].key, all[i].seq, what)
		}
	}
	return tried
}

// joinAgain has an actor join by an invitation.
func joinAgain(t testing.TB, f *leasetest.Fixture, id lease.ActorID) error {
	secret, hash := store.NewInvite(id)
	_, err := f.Near().Invite(t.Context(), lease.Invitation{Actor: lease.Actor{ID: id}, Secret: hash, For: time.Hour, Again: true})
	if err != nil {
		return err
	}
	guest, err := f.Authenticate(secret)
	if err == nil {
		_, err = f.As(guest).Join(t.Context(), lease.Digest{7})
	}
	return err
}
