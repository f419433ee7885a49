//go:build linux

package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A spool on a full disk (200 KB): adding fails without a trace, what waited
// before is delivered, and then there is room again.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=200k"); err != nil {
		t.Logf("no small disk to be had (%v); the fault tests stand in for it", err)
		return
	}
	defer func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	s, err := Open(filepath.Join(disk, "spool"))
	if err != nil {
		t.Fatal(err)
	}
	var first Name
	added := 0
	for ; ; added++ {
		if added > 100 {
			t.Fatal("200 KB hold 100 entries of 10 KB")
		}
		blob := source(t, string(bytes.Repeat([]byte{byte(added)}, 8000))) // on another disk: copied
		e, err := s.Add("a", uint64(added), instant, make([]byte, 2000), []string{blob})
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Add on a full disk = %v, want ENOSPC", err)
			}
			if _, err := os.Lstat(blob); err != nil {
				t.Fatalf("source lost: %v", err)
			}
			break
		}
		if added == 0 {
			first = e.Name
		}
	}
	if left := names(t, s.path("tmp")); len(left) != 0 {
		t.Fatalf("tmp left: %v", left)
	}
	list, err := s.List()
	if err != nil || len(list) != added || len(names(t, s.path("blobs"))) != added {
		t.Fatalf("%d entries, %d blobs, %v; want %d of each", len(list), len(names(t, s.path("blobs"))), err, added)
	}
	for _, n := range list {
		if _, err := s.Read(n); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := s.Lock()
	if err != nil {
		t.Fatalf("Lock on a full disk = %v", err)
	}
	if err := errors.Join(s.Remove(first), unlock()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add("again", 1, instant, nil, nil); err != nil {
		t.Fatalf("Add after room was made = %v", err)
	}
}
