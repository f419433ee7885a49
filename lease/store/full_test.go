//go:build linux

package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"macbatch/lease"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/leasetest"
)

// On a really full disk submissions are refused and change nothing, while reads,
// cancels, prunes and the shutdown go on; what a prune gave up is room again,
// without a restart.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Logf("no small disk to be had (%v); the simulated one stands in for it", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	db, err := boltkv.Open(filepath.Join(disk, "store.db"), boltkv.Options{Reserve: 512 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // behind the fixture's last check
	f := leasetest.Open(t, db, leasetest.NewBlobs(), leasetest.NewClock())
	ctl := f.Near()
	w := leasetest.NewWorker(t, ctl, "w1")
	var ended []lease.JobID
	for i := range 20 {
		ended = append(ended, leasetest.Submit(t, ctl, leasetest.Params{Items: 10, Distinct: fmt.Sprint(i)}))
		for _, g := range w.Claim(10) {
			w.Report(leasetest.Done(g, strings.Repeat("result ", 500)))
		}
	}
	open := leasetest.Submit(t, ctl, leasetest.Params{Items: 50})
	fill(t, disk)
	submit := func() error {
		_, err := ctl.Submit(t.Context(), lease.Submission{Kind: "test", Params: []byte(`{"items":200}`)})
		return err
	}
	refused := 0
	for n := 0; refused < 3; n++ {
		if err := submit(); errors.Is(err, lease.ErrFull) {
			refused++
		} else if err != nil || n > 2000 {
			t.Fatalf("submission %d on a full disk = %v, want ErrFull at last", n, err)
		}
	}
	jobs, err := ctl.Jobs(t.Context(), 0, 0)
	if err != nil {
		t.Fatalf("jobs on a full disk: %v", err)
	}
	if problems, err := ctl.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Fatalf("verify on a full disk: %v, %v", problems, err)
	}
	if err := ctl.Cancel(t.Context(), open, "no room"); err != nil {
		t.Fatalf("cancel on a full disk: %v", err)
	}
	if err := ctl.Prune(t.Context(), ended); err != nil {
		t.Fatalf("prune on a full disk: %v", err)
	}
	for i := 0; ; i++ { // its pages make the room
		if err := submit(); err == nil {
			break
		} else if !errors.Is(err, lease.ErrFull) || i > 2000 {
			t.Fatalf("submission after the prune = %v", err)
		}
	}
	if again, err := ctl.Jobs(t.Context(), 0, 0); err != nil || len(again) != len(jobs)-len(ended)+1 {
		t.Fatalf("%d jobs after %d, %d pruned and one submitted: %v", len(again), len(jobs), len(ended), err)
	}
	f.Stop(t)
	f.Check(t)
	if err := errors.Join(db.Check(), db.Close()); err != nil {
		t.Fatal(err)
	}
	if db, err = boltkv.Open(db.Path(), boltkv.Options{}); err != nil {
		t.Fatalf("open on a full disk: %v", err)
	}
	f.Engine = db
}

// fill leaves a disk without room.
func fill(t *testing.T, disk string) {
	file, err := os.Create(filepath.Join(disk, "others"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size >= 512; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := file.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
