package probe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var images = flag.Int("images", 400, "power losses to play")

// partEnv makes the test program a part of a probe.
const partEnv = "MACBATCH_TEST_PART"

// killedEnv makes the test program a probe of that file that is killed.
const killedEnv = "MACBATCH_TEST_KILLED"

func TestMain(m *testing.M) {
	if store := os.Getenv(killedEnv); store != "" {
		killed(store)
	}
	if os.Getenv(partEnv) != "" {
		if err := Part(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func options(t *testing.T, scenario string) Options {
	t.Setenv(partEnv, "1")
	return Options{Store: filepath.Join(t.TempDir(), "store.db"), Scenario: scenario, Workers: 4, Items: 60, Seed: 7, Command: []string{os.Args[0]}}
}

func pass(t *testing.T, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if !r.Pass {
		t.Fatalf("did not pass: %q %q", r.Faults, r.Problems)
	}
	return r
}

func TestQueue(t *testing.T) {
	o := options(t, Queue)
	pass(t, o)
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrExists) {
		t.Fatalf("a second run on the file = %v, want ErrExists", err)
	}
}

func TestReclaim(t *testing.T) {
	o := options(t, Reclaim)
	if r := pass(t, o); r.Stale != o.Items || r.Kills != o.Workers+2 {
		t.Fatalf("%d stale reports, %d kills", r.Stale, r.Kills)
	}
}

func TestPower(t *testing.T) {
	o := options(t, Power)
	o.Items = *images
	if r := pass(t, o); r.Images != *images || r.Torn < *images/4 {
		t.Fatalf("%d images, %d torn", r.Images, r.Torn)
	}
}

// What a probe is for: an engine that forgets, tears or promises too early is
// found. Each case spoils what was recorded of a good one.
func TestPowerFindings(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(c *commit, l *loss)
		found func(f finding) bool
	}{
		"a data page that was never synced": {func(c *commit, l *loss) {
			for i := range c.writes {
				if i != c.meta() {
					l.parts[i] = []int{} // the meta page is there before it
				}
			}
		}, func(f finding) bool { return f.damaged || f.wrong || f.strange }},
		"an answer before the commit": {func(c *commit, l *loss) {
			delete(l.parts, c.meta())
		}, func(f finding) bool { return f.lost }},
	} {
		t.Run(name, func(t *testing.T) {
			rec, im := record(t)
			found := 0
			for i := range rec.commits {
				cm := &rec.commits[i]
				l := loss{size: cm.size, parts: map[int][]int{}, cut: -1, sector: 512, synced: true, durable: true}
				for i := range cm.writes {
					l.parts[i] = nil
				}
				if i > 0 {
					c.spoil(cm, &l)
				}
				if err := im.apply(cm, l); err != nil {
					t.Fatal(err)
				}
				f, err := im.look(cm, l, false)
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 && c.found(f) {
					found++
				}
				if err := errors.Join(im.undo(cm), im.settle(cm)); err != nil {
					t.Fatal(err)
				}
			}
			if found != len(rec.commits)-1 {
				t.Fatalf("found in %d of %d commits", found, len(rec.commits)-1)
			}
		})
	}
}

// record lets a store live and returns what it wrote, with an image of its beginning.
func record(t *testing.T) (*recorder, *image) {
	t.Helper()
	o := options(t, Power)
	rec, err := lived(t.Context(), o, 12, &Report{})
	if err != nil {
		t.Fatal(err)
	}
	im, err := newImage(o.Store+".image", rec.commits[0].base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := im.close(); err != nil {
			t.Error(err)
		}
	})
	return rec, im
}

// A process that is interrupted leaves neither a file nor a process.
func TestInterrupted(t *testing.T) {
	o := options(t, Queue)
	o.Items = 100_000
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	o.Started = func() { stop(enough) }
	if _, err := Run(ctx, o); !errors.Is(err, enough) {
		t.Fatalf("Run = %v, want the context's cause", err)
	}
	left, err := os.ReadDir(filepath.Dir(o.Store))
	if err != nil || len(left) != 0 {
		t.Fatalf("left %v, %v", left, err)
	}
}
