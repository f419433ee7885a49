package load

import "testing"

// TestLoad is a small run: real processes, the whole API, a real disk.
func TestLoad(t *testing.T) {
	p := control(t, t.TempDir(), 0)
	if ph := fleet(t, p, role{Name: "submit", Batch: 50, Quota: 100, Classes: 3}, 2); ph.n != 200 {
		t.Fatalf("submitted %d shards, want 200", ph.n)
	}
	before := p.figures(t).Commits
	if ph := fleet(t, p, role{Name: "work", Batch: 100, Quota: 100, Classes: 3}, 1); ph.n != 100 {
		t.Fatalf("a batch finished %d shards, want 100", ph.n)
	}
	if got := p.figures(t).Commits - before; got != 2 {
		t.Errorf("100 shards claimed and reported in %d commits, want 2", got)
	}
	if n := p.beats(t, 3, 20); n != 0 {
		t.Errorf("20 heartbeats made %d commits, want none", n)
	}
	if ph := fleet(t, p, role{Name: "work", Batch: 7, Classes: 3}, 3); ph.n != 100 {
		t.Errorf("the rest was %d shards, want 100", ph.n)
	}
	p.verify(t)
	p.end(t)
}
