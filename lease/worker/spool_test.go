package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"macbatch/lease"
	"macbatch/spool"
)

func TestReplayAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(30*time.Second))
		id := r.add("k", 2)
		r.start()
		pass(10 * time.Second)
		r.set(func() { r.down = true })
		pass(time.Hour)
		if n := r.waiting(); n != 1 {
			t.Fatalf("%d entries in the spool during the outage, want 1", n)
		}
		r.set(func() {
			if n := len(r.calls); n > 3600 {
				t.Errorf("%d calls in an hour without an answer", n)
			}
			r.down = false
		})
		pass(highPause)
		if s := r.state(id); s.State != lease.Done || s.Fence != 1 {
			t.Fatalf("shard is %v under fence %v, want done under 1: nobody else claimed it", s.State, s.Fence)
		}
		pass(31 * time.Second)
		if n := r.count(lease.EventDone); n != 2 {
			t.Fatalf("%d done, want 2", n)
		}
		if n := r.waiting(); n != 0 {
			t.Fatalf("%d entries left", n)
		}
		r.stop()
	})
}

// A former run's results come before the first claim: that ends its leases.
func TestReplayComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		file := filepath.Join(t.TempDir(), "sound")
		if err := os.WriteFile(file, []byte("sound"), 0o600); err != nil {
			t.Fatal(err)
		}
		plain, large := r.leased(), r.leased()
		large.Blobs = []lease.Digest{lease.DigestOf([]byte("sound"))}
		r.spooled(plain)
		r.spooled(large, file)
		r.add("k", 1)
		r.cfg.Incarnation = 2
		r.start()
		pass(3 * time.Second)
		if n := r.count(lease.EventDone); n != 3 {
			t.Errorf("%d done, want 3", n)
		}
		r.set(func() {
			times := 0
			for _, x := range r.xs {
				for _, rep := range x.Reports {
					if rep.Shard == large.Shard {
						times++
					}
				}
			}
			if times != 1 {
				t.Errorf("reported %d times, want once, after its upload", times)
			}
		})
		if n := r.count(lease.EventLeaseExpired); n != 0 {
			t.Errorf("%d leases ended by the claim, want 0", n)
		}
		if n := r.waiting(); n != 0 {
			t.Errorf("%d entries left", n)
		}
		r.stop()
	})
}

// Nothing but a verdict moves an entry, and each does what the package says.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		verdict  lease.Verdict
		waiting  int
		rejected string
	}{
		{lease.Accepted, 0, ""},
		{lease.Duplicate, 0, ""},
		{lease.Stale, 0, ""},
		{lease.Conflict, 0, "conflict: because"},
		{lease.InvalidReport, 0, "invalid: because"},
		{lease.NeedBlobs, 1, ""},
		{lease.Denied, 1, ""},
		{"later", 1, ""},
		{"", 1, ""},
	} {
		t.Run(string(c.verdict), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, taking(time.Second))
				rep := r.leased()
				name := r.spooled(rep)
				times := 0
				r.verdict = func(got lease.Report) *lease.Judgement {
					if got.Fence != rep.Fence {
						return nil
					}
					times++
					return &lease.Judgement{Verdict: c.verdict, Reason: "because"}
				}
				other := r.add("k", 1)
				r.start()
				pass(5 * time.Second)
				if n := r.waiting(); n != c.waiting {
					t.Errorf("%d entries wait, want %d", n, c.waiting)
				}
				reason, err := r.sp.Reason(name)
				if c.rejected != reason || (err == nil) != (c.rejected != "") {
					t.Errorf("rejected with %q, %v, want %q", reason, err, c.rejected)
				}
				if s := r.state(other); s.State != lease.Done {
					t.Errorf("another shard is %v, want done: an entry must block nothing", s.State)
				}
				pass(20 * time.Minute)
				if most := map[bool]int{true: 100, false: 1}[c.waiting > 0]; times > most {
					t.Errorf("sent %d times in 20 min", times)
				} else if c.waiting > 0 && times < 2 {
					t.Errorf("sent once in 20 min, want again")
				}
				r.stop()
			})
		})
	}
}

// The reply to complete is lost: sent again, told duplicate, one terminal event.
func TestReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		r.add("k", 5)
		lost := map[bool]int{}
		r.answer = func(x lease.Exchange, _ lease.Exchanged) error {
			kind := len(x.Reports) > 0
			if lost[kind]++; lost[kind]%2 == 1 {
				return lease.ErrUnreachable
			}
			return nil
		}
		r.start()
		pass(time.Minute)
		if n := r.count(lease.EventDone); n != 5 {
			t.Errorf("%d done, want 5", n)
		}
		r.set(func() {
			if len(r.grants) != 5 {
				t.Errorf("%d grants, want 5: one whose answer is lost must be learned", len(r.grants))
			}
		})
		if n := r.waiting(); n != 0 {
			t.Errorf("%d entries left", n)
		}
		r.stop()
	})
}

// The worker dies between the accept and the removal of the entry.
func TestCrashBeforeRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		rep := r.leased()
		if _, err := r.Exchange(t.Context(), lease.Exchange{Reports: []lease.Report{rep}}); err != nil {
			t.Fatal(err)
		}
		r.spooled(rep)
		r.cfg.Incarnation = 2
		r.start()
		pass(time.Second)
		if n := r.count(lease.EventDone); n != 1 {
			t.Errorf("%d done events, want 1", n)
		}
		if n := r.waiting(); n != 0 {
			t.Errorf("%d entries left", n)
		}
		r.stop()
	})
}

func TestDamagedEntriesBlockNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		dir := t.TempDir()
		sp, err := spool.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r.sp, r.cfg.Spool = sp, sp
		damaged := r.spooled(r.leased())
		path := filepath.Join(dir, "new", string(damaged))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-3] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sp.Add("other/1", 1, time.Now(), []byte(`[]`), nil); err != nil {
			t.Fatal(err)
		}
		good := r.leased()
		r.spooled(good)
		r.cfg.Incarnation = 2
		next := r.add("k", 1)
		r.start()
		pass(4 * time.Second) // the damaged one's shard runs again, too
		for _, id := range []lease.ShardID{good.Shard, next} {
			if s := r.state(id); s.State != lease.Done {
				t.Errorf("shard %v is %v, want done", id, s.State)
			}
		}
		if n := r.waiting(); n != 0 {
			t.Errorf("%d entries left", n)
		}
		if names, err := sp.Damaged(); err != nil || len(names) != 1 {
			t.Errorf("Damaged() = %v, %v, want one", names, err)
		}
		if names, err := sp.Rejected(); err != nil || len(names) != 1 {
			t.Errorf("Rejected() = %v, %v, want one", names, err)
		}
		r.stop()
	})
}

// One report that the other end won't even read is found among the others.
func TestRefusedReportIsSetApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		var reps []lease.Report
		for range 5 {
			reps = append(reps, r.leased())
			r.spooled(reps[len(reps)-1])
		}
		r.refuse = func(x lease.Exchange) error {
			for _, rep := range x.Reports {
				if rep.Fence == reps[2].Fence {
					return lease.ErrTooLarge
				}
			}
			return nil
		}
		next := r.add("k", 1)
		r.start()
		pass(5 * time.Second)
		for i, rep := range append(reps, lease.Report{Shard: next}) {
			if s := r.state(rep.Shard); s.State != lease.Done || (s.Fence == rep.Fence) != (i != 2 && i != 5) {
				t.Errorf("shard %d is %v under fence %v", i, s.State, s.Fence) // the refused one ran again
			}
		}
		if n := r.waiting(); n != 1 {
			t.Errorf("%d entries wait, want 1", n)
		}
		r.stop()
	})
}

func TestBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(_ context.Context, k Task) (Output, error) {
			file := filepath.Join(k.Dir, "chunk")
			if err := os.WriteFile(file, []byte("sound"), 0o600); err != nil {
				return Output{}, err
			}
			result, err := json.Marshal(strings.Repeat("<&>x", lease.InlineResult/4))
			return Output{Result: result, Files: []string{file}}, err
		})
		id := r.add("k", 1)
		lost := false
		r.refuse = func(x lease.Exchange) error {
			if len(x.Reports) > 0 && !lost {
				lost = true
				clear(r.blobs) // gone between upload and report
			}
			return nil
		}
		r.start()
		pass(2 * time.Second)
		s := r.state(id)
		if s.State != lease.Done || !s.Result.Blob || s.Result.Bytes <= lease.InlineResult {
			t.Fatalf("shard is %v with %+v, want done with a blob", s.State, s.Result)
		}
		r.set(func() {
			if len(r.blobs) != 2 || lease.DigestOf(r.blobs[s.Result.Digest]) != s.Result.Digest {
				t.Errorf("%d blobs, want the sound and the result", len(r.blobs))
			}
			if len(r.put) != 4 {
				t.Errorf("%d uploads, want 2 and, once missing, 2 again", len(r.put))
			}
			for i, c := range r.calls {
				if c == "exchange" && i > 0 && r.calls[i-1] == "exchange" && len(r.put) == 0 {
					t.Errorf("calls %v: reported before the upload", r.calls)
				}
			}
		})
		r.stop()
	})
}

func TestBlobLostEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		rep := r.leased()
		rep.Blobs = []lease.Digest{lease.DigestOf([]byte("gone"))}
		name := r.spooled(rep)
		next := r.add("k", 1)
		r.start()
		pass(3 * time.Second)
		if reason, err := r.sp.Reason(name); err != nil || !strings.Contains(reason, "neither here nor there") {
			t.Errorf("Reason = %q, %v", reason, err)
		}
		if s := r.state(next); s.State != lease.Done {
			t.Errorf("next shard is %v, want done", s.State)
		}
		r.stop()
	})
}

// A blob that rotted in the spool: its report is given up, with the reason.
func TestRottenBlobIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		dir := t.TempDir()
		sp, err := spool.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r.sp, r.cfg.Spool = sp, sp
		file := filepath.Join(t.TempDir(), "sound")
		if err := os.WriteFile(file, []byte("sound"), 0o600); err != nil {
			t.Fatal(err)
		}
		rep := r.leased()
		rep.Blobs = []lease.Digest{lease.DigestOf([]byte("sound"))}
		name := r.spooled(rep, file)
		if err := os.WriteFile(filepath.Join(dir, "blobs", rep.Blobs[0].String()), []byte("sOund"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.cfg.Incarnation = 2
		r.start()
		pass(time.Minute)
		if reason, err := sp.Reason(name); err != nil || !strings.Contains(reason, "is damaged") {
			t.Errorf("Reason = %q, %v", reason, err)
		}
		if s := r.state(rep.Shard); s.State != lease.Done || s.Fence == rep.Fence {
			t.Errorf("shard is %v under fence %v, want done by a second run", s.State, s.Fence)
		}
		r.stop()
	})
}

// A control plane can't ask for files that its report does not speak of.
func TestOnlyOwnBlobsAreUploaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		secret := lease.DigestOf([]byte("secret"))
		if _, err := r.sp.Add("other/1", 1, time.Now().Add(time.Hour), []byte(`{}`), []string{file}); err != nil {
			t.Fatal(err)
		}
		rep := r.leased()
		r.spooled(rep)
		r.verdict = func(lease.Report) *lease.Judgement {
			return &lease.Judgement{Verdict: lease.NeedBlobs, Missing: []lease.Digest{secret}}
		}
		r.start()
		pass(5 * time.Minute)
		r.set(func() {
			if len(r.put) != 0 {
				t.Errorf("uploaded %v", r.put)
			}
		})
		r.stop()
	})
}

func TestBusySpoolIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		id := r.add("k", 2)
		r.start()
		pass(500 * time.Millisecond)
		unlock, err := r.sp.Lock()
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if s := r.state(id); s.State != lease.Leased || r.waiting() == 0 {
			t.Fatalf("shard is %v: delivered past the lock", s.State)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if n := r.count(lease.EventDone); n != 2 {
			t.Errorf("%d done after the lock went, want 2", n)
		}
		r.stop()
	})
}

func TestBellAndForeignEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		bell := make(chan struct{}, 1)
		r.cfg.Bell = bell
		r.start()
		pass(2 * time.Second)
		first, second := r.leased(), r.leased()
		r.spooled(first)
		bell <- struct{}{}
		pass(time.Millisecond)
		if s := r.state(first.Shard); s.State != lease.Done {
			t.Errorf("after the bell: %v, want done", s.State)
		}
		r.spooled(second)
		pass(lease.MaxWait + time.Second)
		if s := r.state(second.Shard); s.State != lease.Done {
			t.Errorf("without a bell, a poll later: %v, want done", s.State)
		}
		r.stop()
	})
}

func TestDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, taking(time.Second))
		file := filepath.Join(t.TempDir(), "sound")
		if err := os.WriteFile(file, []byte("sound"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range lease.MaxReports + 1 {
			r.spooled(r.leased())
		}
		withBlob := r.leased()
		withBlob.Blobs = []lease.Digest{lease.DigestOf([]byte("sound"))}
		r.spooled(withBlob, file)
		stale := r.leased()
		stale.Fence--
		r.spooled(stale)
		foreign := r.leased()
		foreign.Shard.Job++
		r.spooled(foreign)
		got, err := deliver(t, r)
		if want := (Tally{Accepted: lease.MaxReports + 2, Stale: 1, Denied: 1, Left: 1}); err != nil || got != want {
			t.Fatalf("Deliver = %+v, %v, want %+v", got, err, want)
		}
		r.set(func() {
			for _, x := range r.xs {
				if x.Worker != "" || x.Request != 0 || len(x.Reports) > lease.MaxReports {
					t.Errorf("exchange of %d reports by %q, request %d", len(x.Reports), x.Worker, x.Request)
				}
			}
			r.down = true
		})
		if got, err := deliver(t, r); !errors.Is(err, lease.ErrUnreachable) || got.Left != 1 {
			t.Fatalf("Deliver = %+v, %v, want ErrUnreachable and 1 left", got, err)
		}
		unlock, err := r.sp.Lock()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deliver(t, r); !errors.Is(err, spool.ErrBusy) {
			t.Fatalf("Deliver = %v, want ErrBusy", err)
		}
		if err := unlock(); err != nil {
			t.Fatal(err)
		}
	})
}

// torn serves the first half of each blob so many times.
type torn struct {
	*fake
	times int
}

func (c *torn) Blob(ctx context.Context, of lease.ShardID, d lease.Digest) (io.ReadCloser, int64, error) {
	r, n, err := c.fake.Blob(ctx, of, d)
	if c.times--; err == nil && c.times >= 0 {
		return io.NopCloser(io.LimitReader(r, n/2)), n, nil
	}
	return r, n, err
}

func TestFetch(t *testing.T) {
	sound, gone := []byte("some sound"), lease.DigestOf([]byte("gone"))
	for _, c := range []struct {
		name   string
		digest lease.Digest
		down   bool
		torn   int
		want   error
	}{
		{"there", lease.DigestOf(sound), false, 0, nil},
		{"outage", lease.DigestOf(sound), true, 0, nil},
		{"torn twice", lease.DigestOf(sound), false, 2, nil},
		{"always torn", lease.DigestOf(sound), false, 100, lease.ErrDigest},
		{"gone", gone, false, 0, lease.ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []byte
				var err error
				r := newRig(t, nil)
				r.cfg.Control = &torn{r.fake, c.torn}
				r.blobs[lease.DigestOf(sound)] = sound
				r.cfg.Executors["k"] = execute(func(ctx context.Context, k Task) (Output, error) {
					r.set(func() { r.down = c.down })
					k.Grant.Needs = nil
					var path string
					if path, err = k.Blob(ctx, c.digest); err == nil {
						got, err = os.ReadFile(path)
					}
					return Output{Result: []byte(`1`)}, err
				})
				r.add("k", 1)
				r.start()
				pass(30 * time.Second)
				r.set(func() { r.down = false })
				pass(30 * time.Second)
				if !errors.Is(err, c.want) || c.want == nil && !bytes.Equal(got, sound) {
					t.Errorf("Blob = %q, %v, want %v", got, err, c.want)
				}
				r.stop()
			})
		})
	}
}

func TestNeed(t *testing.T) {
	a := &Agent{}
	inline := []byte(`{"n":1}`)
	k := &task{grant: lease.Grant{Needs: []lease.Result{
		{Digest: lease.DigestOf(inline), Inline: inline},
		{Digest: lease.DigestOf([]byte("other")), Inline: inline},
	}}}
	if b, err := a.need(t.Context(), k, 0); err != nil || !bytes.Equal(b, inline) {
		t.Errorf("need(0) = %q, %v", b, err)
	}
	if _, err := a.need(t.Context(), k, 1); !errors.Is(err, lease.ErrDigest) {
		t.Errorf("need(1) = %v, want ErrDigest", err)
	}
	if _, err := a.need(t.Context(), k, 2); !errors.Is(err, lease.ErrInvalid) {
		t.Errorf("need(2) = %v, want ErrInvalid", err)
	}
}
