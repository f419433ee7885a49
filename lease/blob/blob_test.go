package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"macbatch/lease"
)

func names(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.List(func(lease.Digest, int64, time.Time) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPut(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Repeat([]byte("sound "), 10_000)
	d, size := lease.DigestOf(b), int64(len(b))
	cut := errors.New("connection lost")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		d    lease.Digest
		size int64
		r    io.Reader
		want error
	}{
		{"another digest", t.Context(), lease.Digest{1}, size, bytes.NewReader(b), lease.ErrDigest},
		{"too short", t.Context(), d, size, bytes.NewReader(b[:100]), lease.ErrDigest},
		{"too long", t.Context(), d, size, bytes.NewReader(append(b[:size:size], 'x')), lease.ErrDigest},
		{"cut at half", t.Context(), d, size, io.MultiReader(bytes.NewReader(b[:size/2]), broken{cut}), cut},
		{"given up", gone, d, size, bytes.NewReader(b), context.Canceled},
	} {
		if err := s.Put(c.ctx, c.d, c.size, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: Put = %v, want %v", c.name, err, c.want)
		}
		if s.Has(c.d) || names(t, s) != 0 {
			t.Errorf("%s: a blob is there", c.name)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(left) > 0 {
			t.Errorf("%s: %d files left in tmp", c.name, len(left))
		}
	}
	if _, _, err := s.Open(d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing = %v, want %v", err, fs.ErrNotExist)
	}
	for range 2 {
		if err := s.Put(t.Context(), d, size, bytes.NewReader(b)); err != nil {
			t.Fatalf("Put = %v", err)
		}
	}
	r, n, err := s.Open(d)
	if err != nil || n != size {
		t.Fatalf("Open = %d bytes, %v, want %d", n, err, size)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("read back other bytes, %v", err)
	}
	if err := s.Check(d); err != nil || names(t, s) != 1 {
		t.Fatalf("Check = %v, %d blobs, want one", err, names(t, s))
	}
	if err := os.WriteFile(s.path(d), append(b[1:size:size], 'x'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(d); !errors.Is(err, lease.ErrDigest) || s.Has(d) {
		t.Fatalf("Check of changed bytes = %v, still there: %v; want %v and gone", err, s.Has(d), lease.ErrDigest)
	}
	if _, err := os.Stat(filepath.Join(dir, "damaged", d.String())); err != nil {
		t.Fatalf("the changed bytes were not kept: %v", err)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestClean(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, "tmp", "half")
	if err := os.WriteFile(half, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("half a blob is still there: %v", err)
	}
	if err := errors.Join(s.Remove(lease.Digest{1}), s.Remove(lease.Digest{1})); err != nil {
		t.Fatalf("Remove of nothing = %v", err)
	}
}
