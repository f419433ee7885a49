package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func open(t *testing.T) *Spool {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// source writes a file that Add may take.
func source(t *testing.T, content string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "source")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func add(t *testing.T, s *Spool, shard string, body string, blobs ...string) Entry {
	t.Helper()
	var files []string
	for _, b := range blobs {
		files = append(files, source(t, b))
	}
	e, err := s.Add(shard, 7, instant, []byte(body), files)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func TestAddReadRemove(t *testing.T) {
	s := open(t)
	files := []string{source(t, "one"), source(t, "two"), source(t, "one"), source(t, "")}
	e, err := s.Add("7f3/1", 1<<40, instant, []byte("body"), files)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, err := os.Lstat(f); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("source %q is still there: %v", f, err)
		}
	}
	add(t, s, "7f3/2", "")
	list, err := s.List()
	if err != nil || len(list) != 2 || !slices.Contains(list, e.Name) {
		t.Fatalf("List = %v, %v, want 2 with %q", list, err, e.Name)
	}
	got, err := s.Read(e.Name)
	if err != nil {
		t.Fatal(err)
	}
	if got.Shard != "7f3/1" || got.Fence != 1<<40 || string(got.Body) != "body" || len(got.Blobs) != 4 ||
		got.Blobs[0] != got.Blobs[2] || got.Blobs[3].Size != 0 {
		t.Fatalf("Read = %+v", got)
	}
	f, err := s.OpenBlob(got.Blobs[1].Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil || b.String() != "two" {
		t.Fatalf("blob = %q, %v, want \"two\"", b.String(), err)
	}
	for _, folder := range []string{"", "new", "blobs", "tmp"} {
		if info, err := os.Stat(s.path(folder)); err != nil || info.Mode().Perm() != 0o700 {
			t.Fatalf("mode of %q = %v, %v, want 0700", folder, info.Mode(), err)
		}
	}
	for _, file := range []string{"new/" + string(e.Name), "blobs/" + got.Blobs[0].Digest} {
		if info, err := os.Stat(s.path(file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("mode of %q = %v, %v, want 0600", file, info.Mode(), err)
		}
	}
	for range 2 {
		if err := s.Remove(e.Name); err != nil {
			t.Fatal(err)
		}
	}
	if left := names(t, s.path("blobs")); len(left) != 0 {
		t.Fatalf("blobs left: %v", left)
	}
	if _, err := s.Read(e.Name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Read after Remove = %v, want fs.ErrNotExist", err)
	}
	if left := names(t, s.path("tmp")); len(left) != 0 {
		t.Fatalf("tmp left: %v", left)
	}
}

func TestSharedBlobs(t *testing.T) {
	s := open(t)
	a := add(t, s, "a", "a", "shared", "only a")
	b := add(t, s, "b", "b", "shared")
	c := add(t, s, "c", "c", "shared")
	if err := s.Remove(a.Name); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.path("blobs")); !slices.Equal(got, []string{b.Blobs[0].Digest}) {
		t.Fatalf("blobs = %v, want the shared one", got)
	}
	if err := s.Reject(c.Name, "invalid: times not monotone"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(b.Name); err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.path("blobs")); len(got) != 1 {
		t.Fatalf("blobs = %v, want the one of the rejected entry", got)
	}
}

// The same bytes again, as a second link to the blob already there: rename does
// nothing between two names of one file.
func TestSameFileTwice(t *testing.T) {
	s := open(t)
	src := source(t, "bytes")
	second := src + ".2"
	if err := os.Link(src, second); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{src, second} {
		if _, err := s.Add("a", 1, instant, nil, []string{f}); err != nil {
			t.Fatal(err)
		}
	}
	if left := names(t, s.path("tmp")); len(left) != 0 {
		t.Fatalf("tmp left: %v", left)
	}
}

func TestAddRefuses(t *testing.T) {
	s := open(t)
	src := source(t, "x")
	link := src + ".link"
	if err := os.Symlink(src, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shard string
		body  []byte
		files []string
	}{
		{"", nil, nil},
		{"a", make([]byte, MaxBody+1), nil},
		{"a", nil, []string{src, link}},
		{"a", nil, []string{src, t.TempDir()}},
		{"a", nil, []string{src, src + ".missing"}},
	} {
		if _, err := s.Add(c.shard, 1, instant, c.body, c.files); err == nil {
			t.Fatalf("Add(%q, %d bytes, %v) = nil, want an error", c.shard, len(c.body), c.files)
		}
	}
	for _, folder := range []string{"tmp", "new", "blobs"} {
		if left := names(t, s.path(folder)); len(left) != 0 {
			t.Fatalf("%s left: %v", folder, left)
		}
	}
	if _, err := os.Lstat(src); err != nil {
		t.Fatalf("source gone: %v", err)
	}
}

func TestReject(t *testing.T) {
	s := open(t)
	e := add(t, s, "a", "body")
	for range 2 {
		if err := s.Reject(e.Name, "stale"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Rejected()
	if err != nil || !slices.Equal(list, []Name{e.Name}) {
		t.Fatalf("Rejected = %v, %v, want %q", list, err, e.Name)
	}
	if reason, err := s.Reason(e.Name); err != nil || reason != "stale" {
		t.Fatalf("Reason = %q, %v, want \"stale\"", reason, err)
	}
	if list, _ := s.List(); len(list) != 0 {
		t.Fatalf("List = %v, want none", list)
	}
	gone := add(t, s, "b", "body").Name
	if err := s.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := s.Reject(gone, "why"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Reject of one removed = %v, want fs.ErrNotExist", err)
	}
	if left := names(t, s.path("rejected")); len(left) != 2 {
		t.Fatalf("rejected/ holds %v, want one entry and its reason", left)
	}
	for _, n := range []Name{"../new/x", "", "tmp"} {
		if err := s.Remove(n); err == nil {
			t.Fatalf("Remove(%q) = nil, want an error", n)
		}
		if err := s.Reject(n, ""); err == nil {
			t.Fatalf("Reject(%q) = nil, want an error", n)
		}
		if _, err := s.Read(n); err == nil {
			t.Fatalf("Read(%q) = nil, want an error", n)
		}
	}
}

// A bad file gets out of the way of the others by itself.
func TestReadDamaged(t *testing.T) {
	s := open(t)
	good := add(t, s, "good", "body")
	torn := add(t, s, "torn", "body")
	if err := os.Truncate(s.path("new", string(torn.Name)), 100); err != nil {
		t.Fatal(err)
	}
	blobless := add(t, s, "blobless", "body", "blob")
	if err := os.Remove(s.path("blobs", blobless.Blobs[0].Digest)); err != nil {
		t.Fatal(err)
	}
	short := add(t, s, "short", "body", "a longer blob")
	if err := os.Truncate(s.path("blobs", short.Blobs[0].Digest), 3); err != nil {
		t.Fatal(err)
	}
	for _, e := range []Entry{torn, blobless, short} {
		if _, err := s.Read(e.Name); !errors.Is(err, ErrDamaged) {
			t.Fatalf("Read(%q) = %v, want ErrDamaged", e.Name, err)
		}
		if _, err := s.Read(e.Name); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("second Read(%q) = %v, want fs.ErrNotExist", e.Name, err)
		}
	}
	if list, err := s.List(); err != nil || !slices.Equal(list, []Name{good.Name}) {
		t.Fatalf("List = %v, %v, want %q", list, err, good.Name)
	}
	if list, err := s.Damaged(); err != nil || len(list) != 3 {
		t.Fatalf("Damaged = %v, %v, want 3", list, err)
	}

	// What is no entry is passed over: a folder, a pipe, a Finder file.
	if err := os.Mkdir(s.path("new", string(torn.Name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.path("new", string(short.Name)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("new", ".DS_Store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || !slices.Equal(list, []Name{good.Name}) {
		t.Fatalf("List = %v, %v, want %q", list, err, good.Name)
	}
	if _, err := s.Read(short.Name); err == nil {
		t.Fatal("Read of a pipe = nil, want an error")
	}
}

func TestReadVersion(t *testing.T) {
	s := open(t)
	kept := add(t, s, "kept", "", "blob of the newer one")
	name := nameOf("s", 1, instant, strings.Repeat("0", 64))
	file := signed("macbatch spool entry 2", "unreadable")
	if err := os.WriteFile(s.path("new", string(name)), file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(name); !errors.Is(err, ErrVersion) {
		t.Fatalf("Read = %v, want ErrVersion", err)
	}
	// It may refer to any blob: none goes while it waits.
	if err := errors.Join(s.Remove(kept.Name), s.Clean()); err != nil {
		t.Fatal(err)
	}
	if list, _ := s.List(); !slices.Equal(list, []Name{name}) {
		t.Fatalf("List = %v, want it left", list)
	}
	if left := names(t, s.path("blobs")); len(left) != 1 {
		t.Fatalf("blobs = %v, want the one kept", left)
	}
}

// One process delivers while another adds: blobs both entries share stay.
func TestAddWhileRemoving(t *testing.T) {
	s := open(t)
	const rounds = 60
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range rounds {
				file := filepath.Join(s.dir, fmt.Sprintf("source%d.%d", w, i))
				if err := os.WriteFile(file, []byte("shared by all"), 0o600); err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Add(fmt.Sprintf("w%d/%d", w, i), 1, instant, nil, []string{file}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := 0
	for finished := false; !finished || seen < 2*rounds; {
		select {
		case <-done:
			finished = true
		default:
		}
		list, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		if finished && len(list) == 0 {
			break
		}
		for _, n := range list {
			if _, err := s.Read(n); err != nil {
				t.Fatal(err)
			}
			if err := s.Remove(n); err != nil {
				t.Fatal(err)
			}
			seen++
		}
	}
	if seen != 2*rounds {
		t.Fatalf("delivered %d entries, want %d", seen, 2*rounds)
	}
	if left := names(t, s.path("blobs")); len(left) != 0 {
		t.Fatalf("blobs left: %v", left)
	}
}
