package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

// TestEntries names what is wrong with an entry that leads to a row.
func TestEntries(t *testing.T) {
	f := lived(t)
	all := dump(t, f.Engine)
	for name, tt := range map[string]struct {
		prefix string // of the entries, of which the first is changed
		value  func(old []byte) []byte
		want   string
	}{
		"key gone":               {"kdefault\x00known", func([]byte) []byte { return nil }, "key_missing"},
		"key of another job":     {"kdefault\x00known", func([]byte) []byte { return first(all, "kdefault\x00again") }, "key_disagrees"},
		"key of no job":          {"kdefault\x00known", func(old []byte) []byte { return append(bytes.Clone(old[:7]), 99) }, "orphan_key"},
		"key that is cut":        {"kdefault\x00known", func(old []byte) []byte { return old[:7] }, "row_unreadable"},
		"reuse gone":             {"u", func([]byte) []byte { return nil }, "reuse_missing"},
		"reuse of other work":    {"u", func(old []byte) []byte { return other(all, "u", old) }, "reuse_disagrees"},
		"reuse of no shard":      {"u", func(old []byte) []byte { return append(bytes.Clone(old[:11]), 99) }, "orphan_reuse"},
		"reuse that is cut":      {"u", func(old []byte) []byte { return old[:11] }, "row_unreadable"},
		"identity with a secret": {"m", func(old []byte) []byte { return append(bytes.Clone(old[:48]), old[48]^1) }, "identity_edited"},
	} {
		broken := append([]record(nil), all...)
		i := slices.IndexFunc(all, func(r record) bool { return strings.HasPrefix(string(r.key), tt.prefix) })
		if broken[i].value = tt.value(all[i].value); broken[i].value == nil {
			broken = slices.Delete(broken, i, i+1)
		}
		problems, err := store.Check(rebuild(t, broken), f.Blobs)
		if err != nil || !slices.ContainsFunc(problems, func(p lease.Problem) bool { return p.Kind == tt.want }) {
			t.Errorf("%s: %v, %v, want %s", name, problems, err, tt.want)
		}
		if tt.prefix == "m" {
			if _, err := store.Open(store.Options{Engine: rebuild(t, broken), Blobs: f.Blobs, Planner: leasetest.Planner{}}); err == nil {
				t.Errorf("%s: opened", name)
			}
		}
	}
}

func first(all []record, prefix string) []byte { return other(all, prefix, nil) }

// other is the first value under a prefix that is not v.
func other(all []record, prefix string, v []byte) []byte {
	for _, r := range all {
		if strings.HasPrefix(string(r.key), prefix) && !bytes.Equal(r.value, v) {
			return r.value
		}
	}
	return nil
}

// TestKeyOfAnother: an entry that was damaged does not lead to a job of another
// project or of another key; the submission is refused, and names neither.
func TestKeyOfAnother(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	project(t, ctl, "films")
	mine := submitAs(t, ctl, "mine")
	theirs, err := ctl.Submit(t.Context(), lease.Submission{Project: "films", Kind: "test", Params: []byte(`{"items":1}`), Key: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	f.Stop(t)
	for _, id := range []lease.JobID{theirs, mine + 77} {
		err = f.Engine.Update(func(w kv.Writer) error {
			return w.Put([]byte("kdefault\x00mine"), binary.BigEndian.AppendUint64(nil, uint64(id)))
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Restart(t)
		got, err := f.Near().Submit(context.Background(), lease.Submission{Kind: "test", Params: []byte(`{"items":1}`), Key: "mine"})
		if got != 0 || err == nil || !strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), id.String()) {
			t.Errorf("submit with an entry that leads to %v = %v, %v, want it refused", id, got, err)
		}
		f.Stop(t)
	}
	err = f.Engine.Update(func(w kv.Writer) error {
		return w.Put([]byte("kdefault\x00mine"), binary.BigEndian.AppendUint64(nil, uint64(mine)))
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Restart(t)
	if got := submitAs(t, f.Near(), "mine"); got != mine {
		t.Errorf("submit again = %v, want %v", got, mine)
	}
}

// TestKeyOfPruned: when the newest job of a key is pruned, the one before has it.
func TestKeyOfPruned(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	var ids []lease.JobID
	for range 3 {
		ids = append(ids, submitAs(t, ctl, "mine"))
		if err := ctl.Cancel(t.Context(), ids[len(ids)-1], "no"); err != nil {
			t.Fatal(err)
		}
		quiet(t, ctl)
	}
	for n := 3; n > 0; n-- {
		if err := ctl.Prune(t.Context(), ids[n-1:n]); err != nil {
			t.Fatal(err)
		}
		quiet(t, ctl)
		f.Stop(t)
		f.Check(t)
		want := []byte(nil)
		if n > 1 {
			want = binary.BigEndian.AppendUint64(nil, uint64(ids[n-2]))
		}
		if got := first(dump(t, f.Engine), "kdefault\x00mine"); !bytes.Equal(got, want) {
			t.Fatalf("with %d jobs left the key leads to %x, want %x", n-1, got, want)
		}
		f.Restart(t)
		ctl = f.Near()
	}
}

// TestEnded: a job's end is the moment its state became a terminal one, and is
// forgotten when it is worked on again.
func TestEnded(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	w := leasetest.NewWorker(t, ctl, "w")
	id := leasetest.Submit(t, ctl, leasetest.Params{Items: 2})
	gs := w.Claim(2)
	f.Clock.Advance(3e9)
	w.Report(leasetest.Done(gs[0], "a"))
	if j := leasetest.JobOf(t, ctl, id); !j.Ended.IsZero() {
		t.Errorf("ended %v, while a shard is open", j.Ended)
	}
	f.Clock.Advance(4e9)
	w.Report(leasetest.Failed(gs[1], lease.Permanent, "no"))
	j := leasetest.JobOf(t, ctl, id)
	if got := j.Ended.Sub(j.Submitted); got != 7e9 {
		t.Errorf("ended %v after it was submitted, want 7 s", got)
	}
	f.Restart(t)
	if again := leasetest.JobOf(t, f.Near(), id); !again.Ended.Equal(j.Ended) {
		t.Errorf("ended %v after a restart, was %v", again.Ended, j.Ended)
	}
	if _, err := f.Near().Retry(t.Context(), id, lease.Selection{}, 0); err != nil {
		t.Fatal(err)
	}
	if j := leasetest.JobOf(t, f.Near(), id); !j.Ended.IsZero() {
		t.Errorf("ended %v, while a retry is open", j.Ended)
	}
	f.Clock.Advance(5e9)
	if err := f.Near().Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	if j := leasetest.JobOf(t, f.Near(), id); j.Ended.Sub(j.Submitted) != 12e9 {
		t.Errorf("ended %v after it was submitted, want 12 s", j.Ended.Sub(j.Submitted))
	}
}
