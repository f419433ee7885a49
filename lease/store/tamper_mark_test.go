package store_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// halted is a store whose commits are counted: those above the limit find no room.
type halted struct {
	*leasetest.Fixture
	db     *memkv.DB
	left   atomic.Int64
	halted chan struct{}
}

func haltable(t *testing.T) *halted {
	h := &halted{db: memkv.Open(), halted: make(chan struct{}, 1)}
	h.left.Store(1 << 40)
	h.db.OnCommit = func(int) *memkv.Fault {
		if h.left.Add(-1) >= 0 {
			return nil
		}
		select {
		case h.halted <- struct{}{}:
		default:
		}
		return &memkv.Fault{Err: kv.ErrFull}
	}
	h.Fixture = leasetest.Open(t, h.db, leasetest.NewBlobs(), leasetest.NewClock())
	return h
}

// TestTamperMarks makes every single change of the rows that are few, of actors,
// projects, pauses, successors, plans under way, entries of indexes and the
// identity: verify must notice each.
func TestTamperMarks(t *testing.T) {
	f := lived(t)
	before := dump(t, f.Engine)
	f.Restart(t)
	ctl := f.Near()
	for _, err := range []error{ // rows of each kind that are older now
		ctl.RotateActor(t.Context(), "mac", lease.Digest{8}, time.Hour), ctl.OpenProject(t.Context(), "films"),
		ctl.Resume(t.Context(), lease.Target{All: true}, ""), ctl.Pause(t.Context(), lease.Target{All: true}, "hotter", 0),
		ctl.Pause(t.Context(), lease.Target{Worker: "w1"}, "for longer", time.Hour),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	submitAs(t, ctl, "again")
	redo(t, ctl, leasetest.Submit(t, ctl, leasetest.Params{Items: 1, Reuse: true, Distinct: "afresh"}))
	f.Stop(t)
	tamperMarks(t, "aqznkum", dump(t, f.Engine), before, f.Blobs)

	for name, begin := range map[string]func(*halted){
		"plans": func(h *halted) { // two under way, each with a page added
			ctl, w := h.Near(), leasetest.NewWorker(t, h.Near(), "w1")
			leasetest.Submit(t, ctl, leasetest.Params{Items: 2, Then: 3000})
			gs := w.Claim(2)
			h.left.Store(3)
			w.Exchange(lease.Exchange{Reports: []lease.Report{leasetest.Done(gs[0], "a"), leasetest.Done(gs[1], "b")}})
		},
		"lists": func(h *halted) {
			h.left.Store(2)
			leasetest.SubmitList(t, h.Near(), 6000, leasetest.ListParams{Items: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := haltable(t)
			begin(h)
			<-h.halted
			early := dump(t, h.Engine)
			h.left.Store(2)
			for len(h.halted) == 0 {
				leasetest.JobOf(t, h.Near(), jobsOf(t, h.Near())[0])
			}
			h.Stop(t)
			all := dump(t, h.Engine)
			h.left.Store(1 << 40)
			tamperMarks(t, "p", all, early, h.Blobs)
		})
	}
}

// redo does the one shard of a job, which was reused, afresh.
func redo(t *testing.T, ctl lease.Control, id lease.JobID) {
	t.Helper()
	if err := ctl.Resume(t.Context(), lease.Target{All: true}, ""); err != nil {
		t.Fatal(err)
	}
	w := leasetest.NewWorker(t, ctl, "w8")
	w.Claim(30)
	if j := leasetest.JobOf(t, ctl, id); j.Shards.Done != 1 {
		t.Fatalf("job %+v, want its shard reused", j)
	}
	if _, err := ctl.Retry(t.Context(), id, lease.Selection{Shards: []uint32{1}}, 0); err != nil {
		t.Fatal(err)
	}
	for _, g := range w.Claim(30) {
		if g.Shard.Job == id {
			w.Report(leasetest.Done(g, "anew"))
		}
	}
	if j := leasetest.JobOf(t, ctl, id); j.Shards.Done != 2 {
		t.Fatalf("job %+v, want its shard done again", j)
	}
	if err := ctl.Pause(t.Context(), lease.Target{All: true}, "hotter", 0); err != nil {
		t.Fatal(err)
	}
}

func jobsOf(t *testing.T, ctl lease.Control) (ids []lease.JobID) {
	jobs, err := ctl.Jobs(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// tamperMarks changes the rows whose keys begin with one of kinds, in each way.
func tamperMarks(t *testing.T, kinds string, all, earlier []record, blobs *leasetest.Blobs) {
	t.Helper()
	was := map[string][]byte{}
	for _, r := range earlier {
		was[string(r.key)] = r.value
	}
	tried := map[string]int{}
	try := func(i int, what string, broken []record) {
		tried[string(all[i].key[:1])]++
		if problems, err := store.Check(rebuild(t, broken), blobs); err == nil && len(problems) == 0 {
			t.Errorf("%q %s: not noticed", all[i].key, what)
		}
	}
	with := func(i int, value []byte) []record {
		broken := append([]record(nil), all...)
		broken[i].value = value
		return broken
	}
	put := map[byte]int{}
	for i, r := range all {
		if r.key == nil || !bytes.ContainsAny(r.key[:1], kinds) {
			continue
		}
		try(i, "removed", append(append([]record(nil), all[:i]...), all[i+1:]...))
		if v, here := was[string(r.key)]; here && !bytes.Equal(v, r.value) {
			try(i, "put back", with(i, v))
			put[r.key[0]]++
		}
		for j, o := range all {
			if j > i && o.key != nil && o.key[0] == r.key[0] && !bytes.Equal(o.value, r.value) {
				broken := with(i, o.value)
				broken[j].value = r.value
				try(i, fmt.Sprintf("swapped with %q", o.key), broken)
			}
		}
		for at := range r.value {
			try(i, fmt.Sprintf("cut to %d bytes", at), with(i, r.value[:at]))
			v := bytes.Clone(r.value)
			v[at] ^= 1 << (at % 8)
			try(i, fmt.Sprintf("bit %d of byte %d flipped", at%8, at), with(i, v))
		}
		try(i, "made longer", with(i, append(bytes.Clone(r.value), 0)))
	}
	for _, k := range kinds {
		if tried[string(k)] == 0 || put[byte(k)] == 0 && k != 'n' && k != 'm' {
			t.Errorf("no row %c was tried, or none put back: %v, %v", k, tried, put)
		}
	}
	t.Logf("tamperings by kind of row: %v", tried)
}
