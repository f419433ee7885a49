package main

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"macbatch/lease"
	"macbatch/lease/kv"
	"macbatch/lease/kv/boltkv"
)

// tree is every file below a folder with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range all { // a lock names whoever had it last
		if strings.HasSuffix(path, ".lock") {
			all[path] = text[:0]
		}
	}
	return all
}

// TestNewerAtRest: every command that opens a store at rest refuses one of a newer
// version, and one that is something else, by name, and changes nothing.
func TestNewerAtRest(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(w kv.Writer) error
		want  string
	}{
		"newer": {func(w kv.Writer) error {
			return w.Put([]byte("m"), append([]byte{99}, w.Get([]byte("m"))[1:]...))
		}, "newer version of macbatch: its schema is 99"},
		"foreign": {func(w kv.Writer) error { return w.Delete([]byte("m")) }, "not a macbatch store"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			s, err := openLocal(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			db, err := boltkv.Open(filepath.Join(dir, storeName), boltkv.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Update(tt.spoil); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, storeName+".reserve")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, blobsName, "incoming"), []byte("?"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, filepath.Dir(dir))
			for _, args := range [][]string{
				{"compact", "--data", dir}, {"verify", "--data", dir}, {"backup", filepath.Join(filepath.Dir(dir), "b.tar"), "--data", dir},
				{"control", "--data", dir, "--listen", "127.0.0.1:0"},
			} {
				var stderr strings.Builder
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				code := run(ctx, append([]string{"macbatch"}, args...), strings.NewReader(""), io.Discard, &stderr)
				cancel()
				if code != exitFailed || !strings.Contains(stderr.String(), tt.want) {
					t.Errorf("%s: exit code %d, %s, want %q", args[0], code, &stderr, tt.want)
				}
				if after := tree(t, filepath.Dir(dir)); !maps.Equal(after, before) {
					t.Errorf("%s: the folder changed", args[0])
				}
			}
		})
	}
}

type jobsOnly struct {
	lease.Control
	jobs []lease.Job
}

func (c *jobsOnly) Jobs(_ context.Context, before lease.JobID, _ int) ([]lease.Job, error) {
	if before != 0 {
		return nil, nil
	}
	return c.jobs, nil
}

// TestPrunable: a job's age counts from its end.
func TestPrunable(t *testing.T) {
	now := time.Now()
	ago := func(h int) time.Time { return now.Add(-time.Duration(h) * time.Hour) }
	ctl := &jobsOnly{jobs: []lease.Job{
		{ID: 4, State: lease.JobDone, Submitted: ago(9), Ended: ago(1)},
		{ID: 3, State: lease.JobCanceled, Submitted: ago(9), Ended: ago(6)},
		{ID: 2, State: lease.JobRunning, Submitted: ago(9)},
		{ID: 1, State: lease.JobCanceled, Submitted: ago(9), Ended: ago(7), Shards: lease.Counts{Ready: 1}},
	}}
	jobs, err := prunable(t.Context(), ctl, ago(5))
	if err != nil || len(jobs) != 1 || jobs[0].ID != 3 {
		t.Errorf("prunable = %+v, %v, want job 3 alone", jobs, err)
	}
}
