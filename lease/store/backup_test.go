package store_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/memkv"
	"macbatch/lease/leasetest"
	"macbatch/lease/store"
)

var backups = flag.Int("backups", 5, "backups to take under load")

// TestBackupUnderLoad takes backups while workers work and jobs are pruned. Each
// is of one moment: it verifies, and what it holds can be worked to its end.
func TestBackupUnderLoad(t *testing.T) {
	f := leasetest.Open(t, memkv.Open(), leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	ctx, stop := context.WithCancel(t.Context())
	var done atomic.Int64
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() { labour(ctx, t, ctl, i, &done) })
	}
	defer group.Wait()
	defer stop()
	open := 0
	for range *backups {
		before := done.Load()
		for done.Load() < before+20 && !t.Failed() {
			leasetest.NewWorker(t, ctl, "idle").Exchange(lease.Exchange{})
		}
		var archive bytes.Buffer
		if err := ctl.Backup(t.Context(), &slow{&archive, ctl}); err != nil {
			t.Fatal(err)
		}
		g, told := leasetest.Restore(t, &archive, f.Clock)
		if len(told.Missing) > 0 {
			t.Fatalf("blobs %v are missing", told.Missing)
		}
		open += told.Fenced
		w := leasetest.NewWorker(t, g.Near(), "drill", "nas")
		for gs := w.Claim(100); len(gs) > 0; gs = w.Claim(100) {
			for _, gr := range gs {
				sound := leasetest.SoundBytes(gr.Shard)
				if err := g.Near().PutBlob(t.Context(), leasetest.Under(gr, lease.DigestOf(sound), len(sound)), bytes.NewReader(sound)); err != nil {
					t.Fatal(err)
				}
				w.Report(leasetest.Done(gr, "drill", leasetest.SoundOf(gr.Shard)))
			}
		}
		jobs, err := g.Near().Jobs(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if !j.State.Terminal() {
				t.Fatalf("job %+v does not end after the restore", j)
			}
		}
		g.Stop(t)
	}
	stop()
	group.Wait()
	t.Logf("%d backups, %d results meanwhile, %d leases fenced off", *backups, done.Load(), open)
}

// slow lets the store go on between the parts of its backup.
type slow struct {
	io.Writer
	ctl lease.Control
}

func (s *slow) Write(b []byte) (int, error) {
	if _, err := s.ctl.Exchange(context.Background(), lease.Exchange{}); err != nil {
		return 0, err
	}
	return s.Writer.Write(b)
}

// labour submits, does and prunes jobs until ctx ends.
func labour(ctx context.Context, t *testing.T, ctl lease.Control, n int, done *atomic.Int64) {
	w := leasetest.NewWorker(t, ctl, lease.WorkerID(fmt.Sprint("w", n)))
	rnd := rand.New(rand.NewPCG(uint64(n), 3))
	var mine []lease.JobID
	for ctx.Err() == nil && !t.Failed() {
		if rnd.IntN(6) == 0 {
			p := leasetest.Params{Items: 1 + rnd.IntN(4), Then: rnd.IntN(3), Sound: true, Reuse: rnd.IntN(2) == 0, Distinct: fmt.Sprint(n, rnd.IntN(100))}
			mine = append(mine, leasetest.Submit(t, ctl, p))
		}
		for _, g := range w.Claim(3) {
			if _, err := ctl.Exchange(ctx, lease.Exchange{}); err != nil {
				return
			}
			b := leasetest.SoundBytes(g.Shard)
			if err := ctl.PutBlob(ctx, leasetest.Under(g, lease.DigestOf(b), len(b)), bytes.NewReader(b)); err != nil {
				return
			}
			rep := leasetest.Done(g, fmt.Sprint(g.Shard, g.Fence), leasetest.SoundOf(g.Shard))
			if rnd.IntN(3) == 0 {
				if err := ctl.PutBlob(ctx, leasetest.Under(g, rep.Digest, int(rep.Bytes)), bytes.NewReader(rep.Result)); err != nil {
					return
				}
				rep.Result, rep.Blobs = nil, append(rep.Blobs, rep.Digest)
			}
			w.Report(rep)
			done.Add(1)
		}
		if len(mine) > 3 {
			if j, err := ctl.Job(ctx, mine[0]); err == nil && j.State.Terminal() {
				if err := ctl.Prune(ctx, mine[:1]); err != nil && ctx.Err() == nil {
					t.Errorf("prune: %v", err)
				}
				mine = mine[1:]
			}
		}
	}
}

// TestDamagedBackup: an archive of which a byte was changed or that was cut short
// is refused, by a look as by a restore.
func TestDamagedBackup(t *testing.T) {
	f, _ := seasoned(t, memkv.Open(), leasetest.NewBlobs(), 20)
	var archive bytes.Buffer
	if err := f.Near().Backup(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	whole := archive.Bytes()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 4))
	t.Logf("seed %d, %d bytes", seed, len(whole))
	for i := range 300 {
		b := bytes.Clone(whole)
		what := ""
		if i%3 == 0 {
			b = b[:rnd.IntN(len(b)-1024)] // what follows is padding
			what = fmt.Sprintf("cut at %d", len(b))
		} else {
			at := rnd.IntN(len(b))
			b[at] ^= 1 << rnd.IntN(8)
			what = fmt.Sprintf("byte %d changed", at)
		}
		_, err := store.CheckBackup(bytes.NewReader(b))
		e, blobs := memkv.Open(), leasetest.NewBlobs()
		_, err2 := store.Restore(t.Context(), bytes.NewReader(b), e, blobs, f.Clock.Now)
		if (err == nil) != (err2 == nil) {
			t.Errorf("%s: looked at %v, restored %v", what, err, err2)
		}
		if err == nil && !same(t, whole, b) {
			t.Errorf("%s: not noticed", what)
		}
	}
	e := memkv.Open()
	if _, err := store.Restore(t.Context(), bytes.NewReader(whole), e, leasetest.NewBlobs(), f.Clock.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), bytes.NewReader(whole), e, leasetest.NewBlobs(), f.Clock.Now); err == nil {
		t.Error("restored into a store that is not empty")
	}
}

// same tells whether two archives hold the same: padding, the headers' further
// fields and the writing of JSON mean nothing.
func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, y := tar.NewReader(bytes.NewReader(a)), tar.NewReader(bytes.NewReader(b))
	for {
		h, err := x.Next()
		k, err2 := y.Next()
		if err != nil || err2 != nil {
			return errors.Is(err, io.EOF) && errors.Is(err2, io.EOF)
		}
		p, err := io.ReadAll(x)
		q, err2 := io.ReadAll(y)
		if err != nil || err2 != nil || h.Name != k.Name || path.Ext(h.Name) != ".json" && !bytes.Equal(p, q) {
			return false
		}
	}
}
