package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"macbatch/lease"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "deep", "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, content string) lease.Digest {
	t.Helper()
	digest := sha256.Sum256([]byte(content))
	if err := s.Put(t.Context(), digest, int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	return digest
}

// files returns the paths of all files of the store, in it.
func files(t *testing.T, s *Store) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(s.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPutOpen(t *testing.T) {
	s := open(t)
	for _, content := range []string{"", "a", strings.Repeat("large ", 1<<18)} {
		digest := sha256.Sum256([]byte(content))
		if has, err := s.Has(digest); has || err != nil {
			t.Fatalf("Has before Put = %v, %v", has, err)
		}
		if _, _, err := s.Open(digest); !errors.Is(err, ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Open before Put = %v, want ErrNotFound", err)
		}
		put(t, s, content)
		f, size, err := s.Open(digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(got) != content || size != int64(len(content)) {
			t.Fatalf("Open: %d of %d bytes, %v", len(got), size, err)
		}
		if has, err := s.Has(digest); !has || err != nil {
			t.Fatalf("Has after Put = %v, %v", has, err)
		}
		if err := s.Check(t.Context(), digest); err != nil {
			t.Fatal(err)
		}
	}
	digest := sha256.Sum256([]byte("a"))
	want := fmt.Sprintf("%x/%x", digest[:1], digest)
	if info, err := os.Stat(filepath.Join(s.dir, want)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("file %s: %v, mode %v", want, err, info)
	}
	for range 2 {
		if err := s.Remove(digest); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := s.Has(digest); has || err != nil {
		t.Fatalf("Has after Remove = %v, %v", has, err)
	}
	if err := s.Check(t.Context(), digest); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Check after Remove = %v, want ErrNotFound", err)
	}
}

// A blob that is here is not read again, and counts as received now.
func TestPutPresent(t *testing.T) {
	s := open(t)
	digest := put(t, s, "content")
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(s.path(digest), old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), digest, 7, iotest.ErrReader(errors.New("read"))); err != nil {
		t.Fatalf("Put of a blob that is here = %v", err)
	}
	info, err := os.Stat(s.path(digest))
	if err != nil || !info.ModTime().After(old) {
		t.Fatalf("received at %v, %v, want now", info.ModTime(), err)
	}
	// One of another size is damaged: the right bytes heal it.
	if err := os.Truncate(s.path(digest), 3); err != nil {
		t.Fatal(err)
	}
	put(t, s, "content")
	if err := s.Check(t.Context(), digest); err != nil {
		t.Fatal(err)
	}
}

func TestPutRefuses(t *testing.T) {
	s := open(t)
	content := strings.Repeat("x", 100_000)
	digest := sha256.Sum256([]byte(content))
	broken := errors.New("connection lost")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	reader := func(s string) io.Reader { return strings.NewReader(s) }
	for name, c := range map[string]struct {
		ctx  context.Context
		size int64
		r    io.Reader
		want error
	}{
		"cut":            {t.Context(), 100_000, reader(content[:50_000]), ErrMismatch},
		"one byte short": {t.Context(), 100_000, reader(content[1:]), ErrMismatch},
		"one byte more":  {t.Context(), 100_000, reader(content + "x"), ErrTooLarge},
		"other bytes":    {t.Context(), 100_000, reader(content[1:] + "y"), ErrMismatch},
		"empty":          {t.Context(), 0, reader(""), ErrMismatch},
		"negative size":  {t.Context(), -1, reader(content), ErrMismatch},
		"endless":        {t.Context(), 10, endless{}, ErrTooLarge},
		"broken":         {t.Context(), 100_000, io.MultiReader(reader(content[:50_000]), iotest.ErrReader(broken)), broken},
		"broken at end":  {t.Context(), 100_000, io.MultiReader(reader(content), iotest.ErrReader(broken)), broken},
		"canceled":       {canceled, 100_000, reader(content), broken},
	} {
		if err := s.Put(c.ctx, digest, c.size, c.r); !errors.Is(err, c.want) {
			t.Fatalf("%s: Put = %v, want %v", name, err, c.want)
		}
		if left := files(t, s); len(left) != 0 {
			t.Fatalf("%s: left %v", name, left)
		}
	}
	put(t, s, content)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestPutConcurrent(t *testing.T) {
	s := open(t)
	content := strings.Repeat("shared ", 20_000)
	digest := sha256.Sum256([]byte(content))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := s.Put(t.Context(), digest, int64(len(content)), strings.NewReader(content)); err != nil {
				t.Error(err)
			}
			if err := s.Check(t.Context(), digest); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left := files(t, s); len(left) != 1 {
		t.Fatalf("files %v, want one", left)
	}
}

func TestList(t *testing.T) {
	s := open(t)
	want := map[lease.Digest]int64{}
	for i := range 40 {
		content := strings.Repeat("x", i)
		want[put(t, s, content)] = int64(i)
	}
	digest := put(t, s, "damaged one")
	if err := os.WriteFile(s.path(digest), []byte("changed bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context(), digest); !errors.Is(err, ErrMismatch) {
		t.Fatalf("Check = %v, want ErrMismatch", err)
	}
	for _, name := range []string{"tmp/blob.1", "ab", "README", "aa/README"} { // nothing of Put's
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil && !errors.Is(err, syscall.EISDIR) {
			t.Fatal(err)
		}
	}
	var last lease.Digest
	err := s.List(func(digest lease.Digest, size int64, received time.Time) bool {
		if n, ok := want[digest]; !ok || n != size || received.IsZero() || bytes.Compare(digest[:], last[:]) <= 0 {
			t.Errorf("List yields %x, %d bytes, %v", digest, size, received)
		}
		last = digest
		delete(want, digest)
		return true
	})
	if err != nil || len(want) != 0 {
		t.Fatalf("List = %v, %d not seen", err, len(want))
	}
	n := 0
	if err := s.List(func(lease.Digest, int64, time.Time) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Fatalf("List went on to %d after fn returned false at 3, %v", n, err)
	}
}

func TestCheck(t *testing.T) {
	s := open(t)
	digest := sha256.Sum256([]byte("content"))
	for i := range 3 { // each damaged copy is kept
		put(t, s, "content")
		if err := os.WriteFile(s.path(digest), fmt.Append(nil, "rotten", i), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context(), digest); !errors.Is(err, ErrMismatch) {
			t.Fatalf("Check = %v, want ErrMismatch", err)
		}
		if has, err := s.Has(digest); has || err != nil {
			t.Fatalf("Has after a failed Check = %v, %v", has, err)
		}
		kept, err := filepath.Glob(filepath.Join(s.dir, "damaged", fmt.Sprintf("%x.*", digest)))
		if err != nil || len(kept) != i+1 || len(files(t, s)) != i+1 {
			t.Fatalf("damaged %v, all %v, %v; want %d kept", kept, files(t, s), err, i+1)
		}
	}
	put(t, s, "content")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Check(ctx, digest); !errors.Is(err, context.Canceled) {
		t.Fatalf("Check = %v, want context.Canceled", err)
	}
	if has, err := s.Has(digest); !has || err != nil {
		t.Fatalf("Has after a canceled Check = %v, %v", has, err)
	}
}

// Every step of Put fails, once and from then on: nothing is kept that is not
// whole, and the next Put succeeds.
func TestPutFaults(t *testing.T) {
	content := strings.Repeat("content ", 10_000)
	digest := sha256.Sum256([]byte(content))
	doPut := func(s *Store) error {
		return s.Put(t.Context(), digest, int64(len(content)), strings.NewReader(content))
	}
	steps := 0
	for _, forEver := range []bool{false, true} {
		for n := 1; ; n++ {
			s := open(t)
			count, op := 0, ""
			s.disk.before = func(o string, _ ...string) error {
				if count++; count == n || forEver && count > n {
					if op == "" {
						op = o
					}
					return syscall.ENOSPC
				}
				return nil
			}
			err := doPut(s)
			if count < n {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			steps++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%s failing: Put = %v", op, err)
			}
			s.disk.before = nil
			if !forEver {
				if left, _ := os.ReadDir(filepath.Join(s.dir, "tmp")); len(left) != 0 {
					t.Fatalf("%s failing: tmp left %v", op, left)
				}
			}
			if has, err := s.Has(digest); err != nil {
				t.Fatal(err)
			} else if has && op != "syncfolder" {
				t.Fatalf("%s failing: the blob is there", op)
			} else if has {
				if err := s.Check(t.Context(), digest); err != nil {
					t.Fatalf("%s failing: %v", op, err)
				}
			}
			if err := errors.Join(s.Clean(), doPut(s), s.Check(t.Context(), digest)); err != nil {
				t.Fatalf("after %s failed: %v", op, err)
			}
			if left := files(t, s); len(left) != 1 {
				t.Fatalf("after %s failed: files %v", op, left)
			}
		}
	}
	t.Logf("%d faults", steps)
	if steps < 12 {
		t.Fatalf("only %d faults", steps)
	}
}

// Put does not return nil before the bytes, the name and the folder are synced,
// whoever renamed the file.
func TestPutOrder(t *testing.T) {
	s := open(t)
	first := true
	var syncedBytes, dirtyName, dirtyRoot bool
	s.disk.before = func(op string, paths ...string) error {
		switch op {
		case "sync":
			syncedBytes = true
		case "mkdir":
			dirtyRoot = true
		case "rename":
			if !syncedBytes {
				t.Error("renamed before its bytes were synced")
			}
			dirtyName = true
		case "syncfolder":
			if first && paths[0] != s.dir {
				first = false
				return syscall.EIO
			}
			if paths[0] == s.dir {
				dirtyRoot = false
			} else {
				dirtyName = false
			}
		}
		return nil
	}
	digest := sha256.Sum256([]byte("content"))
	if err := s.Put(t.Context(), digest, 7, strings.NewReader("content")); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Put = %v, want EIO", err)
	}
	// It is here now, but not durable: the second Put may not just say yes.
	if err := s.Put(t.Context(), digest, 7, strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	if dirtyName || dirtyRoot {
		t.Fatalf("Put returned with the name unsynced (%v), its folder unsynced (%v)", dirtyName, dirtyRoot)
	}
	// Once durable, it costs no sync to say so.
	s.disk.before = func(op string, _ ...string) error { return fmt.Errorf("%s again", op) }
	if err := s.Put(t.Context(), digest, 7, nil); err != nil {
		t.Fatal(err)
	}
}

// A full disk is told as such, whichever step met it.
func TestPutFull(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		for _, at := range []string{"create", "mkdir", "rename"} {
			b := fmt.Append(nil, full, at) // each in a folder of its own
			s.disk.before = func(op string, _ ...string) error {
				if op == at {
					return &fs.PathError{Op: op, Path: "x", Err: full}
				}
				return nil
			}
			if err := s.Put(t.Context(), lease.DigestOf(b), int64(len(b)), bytes.NewReader(b)); !errors.Is(err, lease.ErrFull) {
				t.Errorf("Put, %v at %s: %v, want ErrFull", full, at, err)
			}
		}
	}
}
