package gather

import (
	"strings"
	"testing"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

// TestGenerations: a part that failed and came again goes to its place; what is
// asked for anew leaves the earlier outputs alone until it is better, or as good.
func TestGenerations(t *testing.T) {
	c, out := newControl(), t.TempDir()
	job := library(t, c, jobA, "films", "w", []movie{{path: "a.mp4", says: "one two three"}})
	one := newControl()
	library(t, one, jobA, "films", "again", []movie{{path: "a.mp4", says: "four five six"}})
	c.rows[jobA][4].After = []uint32{3, 4}
	whole := append([]lease.Shard(nil), c.rows[jobA]...)
	fail(c, jobA, "a.mp4", pipeline.Transcribe)
	c.rows[jobA][4].State, c.rows[jobA][4].Class = lease.Failed, lease.Dependency
	g, err := New(c, job, out, usual)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pass := func(what string, want Outcome, text string, written int) {
		t.Helper()
		for range 2 { // the second changes nothing
			r, err := g.Pass(t.Context())
			if err != nil {
				t.Fatalf("%s: Pass = %v", what, err)
			}
			if want == "" && r.Pending != 1 || want != "" && r.ByOutcome[want] != 1 || r.Written != written {
				t.Fatalf("%s: %+v, want %q, and %d written", what, r, want, written)
			}
		}
		if got := strings.Join(strings.Fields(tree(t, out)["a.txt"]), " "); got != text {
			t.Fatalf("%s: text %q, want %q", what, got, text)
		}
		fresh := t.TempDir()
		r := gathered(t, c, job, fresh)
		if got := strings.Join(strings.Fields(tree(t, fresh)["a.txt"]), " "); got != text || want != "" && r.ByOutcome[want] != 1 {
			t.Fatalf("%s, gathered anew: text %q, %+v, want %q and %q", what, got, r, text, want)
		}
	}
	// again adds a copy of a row of an undisturbed job.
	again := func(of int, generation uint32, supersedes ...uint32) *lease.Shard {
		s := whole[of-1]
		s.ID.Seq, s.Generation, s.Supersedes = uint32(len(c.rows[jobA])+1), generation, supersedes
		c.rows[jobA] = append(c.rows[jobA], s)
		return &c.rows[jobA][len(c.rows[jobA])-1]
	}
	pass("a part failed", Failed, "", 0)

	again(4, 1, 4).State = lease.Ready
	sum := again(5, 1, 5)
	sum.State, sum.After = lease.Blocked, []uint32{3, 6}
	gathered(t, c, job, t.TempDir()) // nothing to show yet
	c.rows[jobA][5].State, c.rows[jobA][6].State = lease.Done, lease.Done
	pass("it came again", Done, "one two three", 1)

	again(3, 2, 3).State = lease.Ready // and then the first part, which was done
	sum = again(5, 2, 7)
	sum.State, sum.After = lease.Blocked, []uint32{8, 6}
	pass("another part is asked for", Done, "one two three", 1)
	c.rows[jobA][7].State, c.rows[jobA][8].State = lease.Failed, lease.Failed
	pass("it failed", Done, "one two three", 1)

	first := one.rows[jobA][2]
	c.values[first.Result.Digest] = one.values[first.Result.Digest]
	s := again(3, 3, 8)
	s.Result = first.Result
	again(5, 3, 9).After = []uint32{10, 6}
	pass("it came again with other words", Done, "four five three", 2)
}
