package inventory

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestBenchWalk compares the walk with find, which looks at the size of every file,
// in turns on the same tree of files that are all called films.
func TestBenchWalk(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("MACBATCH_BENCH_WALK"))
	if err != nil {
		t.Skip("scripts/bench walk")
	}
	find, err := exec.LookPath("find")
	if err != nil {
		t.Fatal(err)
	}
	const folders, files = 500, 200
	root := t.TempDir()
	for i := range folders {
		dir := filepath.Join(root, fmt.Sprintf("year %d", 1990+i/25), fmt.Sprintf("tape %d", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			put(t, filepath.Join(dir, fmt.Sprintf("film %d.mp4", j)), []byte("x"))
		}
	}
	var ours, theirs []time.Duration
	for range rounds {
		start := time.Now()
		out, err := exec.CommandContext(t.Context(), find, root, "-type", "f", "-printf", "%s\n").Output()
		theirs = append(theirs, time.Since(start))
		if n := bytes.Count(out, []byte("\n")); err != nil || n != folders*files {
			t.Fatalf("find: %d files, %v", n, err)
		}
		start = time.Now()
		r, err := OpenRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		w := walk{ctx: t.Context(), root: r}
		err = w.from("")
		ours = append(ours, time.Since(start))
		if len(w.candidates) != folders*files || err != nil || r.Close() != nil {
			t.Fatalf("walk: %d files, %v", len(w.candidates), err)
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	mine, find50 := ours[rounds/2], theirs[rounds/2]
	ratio := find50.Seconds() / mine.Seconds()
	fmt.Printf("%d files: walk %v, find %v, %.0f %% of its speed\n", folders*files, mine.Round(time.Millisecond), find50.Round(time.Millisecond), 100*ratio)
	if ratio < 0.8 {
		t.Fatalf("the walk has %.0f %% of the speed of find, want 80", 100*ratio)
	}
}
