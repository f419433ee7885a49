package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list = append(list, f.Name())
	}
	return list
}

// TestWriteNew: a file appears whole or not at all; what a dead predecessor left of
// it goes, and what a live one, or somebody else, makes stays.
func TestWriteNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "b.tar")
	for _, name := range []string{"b.tar.part-17", "b.tar.part-x", "b.tar.part-", "c.tar.part-18", "b.tar.part-19~"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("?"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fine := func(*os.File) error { return nil }
	begun, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() { // another one of the same name, which is slow
		ended <- writeNew(path, func(w io.Writer) error {
			close(begun)
			<-finish
			_, err := io.WriteString(w, "slow")
			return err
		}, fine)
	}()
	<-begun
	others := []string{"b.tar.part-", "b.tar.part-19~", "b.tar.part-x", "c.tar.part-18"}
	if got := names(t, dir); len(got) != len(others)+1 || slices.Contains(got, "b.tar.part-17") {
		t.Errorf("while it is written: %q, want the dead one's part gone", got)
	}
	bad := errors.New("bad")
	if err := writeNew(path, func(io.Writer) error { return bad }, fine); !errors.Is(err, bad) {
		t.Errorf("writeNew = %v, want what went wrong", err)
	}
	if err := writeNew(path, func(io.Writer) error { return nil }, func(*os.File) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("writeNew = %v, want what the check found", err)
	}
	if got := names(t, dir); len(got) != len(others)+1 {
		t.Errorf("after two that failed: %q, want the live one's part there", got)
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "slow" {
		t.Errorf("file = %q, %v", b, err)
	}
	if got, want := names(t, dir), append([]string{"b.tar"}, others...); !slices.Equal(got, want) {
		t.Errorf("at the end: %q, want %q", got, want)
	}
	if err := writeNew(path, func(io.Writer) error { return nil }, fine); err == nil {
		t.Error("an existing file was replaced")
	}
}

func TestSweepFolders(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(dir, "data.restoring-5", "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	live, err := makePart(func() (*os.File, error) {
		name, err := os.MkdirTemp(dir, "data"+restoringSuffix+"*")
		if err != nil {
			return nil, err
		}
		return os.Open(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sweepParts(path, restoringSuffix); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{filepath.Base(live.Name())}) {
		t.Errorf("left are %q, want %q alone", got, filepath.Base(live.Name()))
	}
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
}
