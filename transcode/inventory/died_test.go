package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mortalProbe is an ffprobe that is killed by a file of size bytes, and by any
// other one as often as times.
func mortalProbe(t *testing.T, size, times int) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
[ "$(wc -c <&3)" -eq %d ] && kill -9 $$
mkdir %q/$(ls %[2]q | wc -l) 2>/dev/null && [ "$(ls %[2]q | wc -l)" -le %d ] && kill -9 $$
exec %q "$@"
`, size, filepath.Join(dir, "n"), times, tool(t, "ffprobe"))
	path := filepath.Join(dir, "ffprobe")
	put(t, path, []byte(script))
	if err := os.Mkdir(filepath.Join(dir, "n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestScanProbeDies: a file that kills ffprobe costs no other; an ffprobe that is
// killed for reasons of its own costs none, and one that always is says nothing of
// the folder.
func TestScanProbeDies(t *testing.T) {
	ok := content(t, film(t, "ok.mp4"))
	root := t.TempDir()
	put(t, filepath.Join(root, "ok.mp4"), ok)
	put(t, filepath.Join(root, "kills.mp4"), append(ok, 0))
	opts := settled(t)
	opts.Parallel = 1
	opts.FFprobe = mortalProbe(t, len(ok)+1, 0)
	r, err := Scan(t.Context(), root, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list(r), "\"kills.mp4\" skipped: unreadable\n\"ok.mp4\" 1 tracks"; strings.TrimSpace(got) != want {
		t.Errorf("Scan beside a file that kills ffprobe:\n%s\nwant:\n%s", got, want)
	}
	if d := r.Skipped[0].Detail; !strings.Contains(d, "signal: killed") {
		t.Errorf("detail %q does not tell what happened", d)
	}

	opts.FFprobe = mortalProbe(t, -1, 2)
	if r, err = Scan(t.Context(), root, opts); err != nil || len(r.Sources) != 2 {
		t.Errorf("Scan by an ffprobe that is killed twice = %+v, %v, want two sources", r, err)
	}

	opts.FFprobe = mortalProbe(t, -1, 100)
	if r, err = Scan(t.Context(), root, opts); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("Scan by an ffprobe that is always killed = %+v, %v, want an error", r, err)
	}
}
