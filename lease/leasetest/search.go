package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"macbatch/lease"
)

// Said is an index of words that was told what is in it.
type Said struct {
	mu   sync.Mutex
	hits []lease.Hit
}

// Add puts a hit in.
func (s *Said) Add(h lease.Hit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits = append(s.hits, h)
}

// Find implements store.Words: a hit is a text with the query's words in it.
func (s *Said) Find(_ context.Context, q lease.Query, projects []lease.Project) (lease.Found, error) {
	if q.Words == "" {
		return lease.Found{}, fmt.Errorf("no words: %w", lease.ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := lease.Found{Hits: []lease.Hit{}}
	for _, h := range s.hits {
		if strings.Contains(h.Text, q.Words) && (projects == nil || slices.Contains(projects, h.Project)) {
			out.Hits = append(out.Hits, h)
		}
	}
	out.Looked = len(out.Hits)
	return out, nil
}

// testSearch: of what an index names an actor is told what is there, and its own.
func testSearch(t *testing.T, ctl lease.Control, f *Fixture) {
	if err := ctl.CreateProject(t.Context(), "hidden"); err != nil {
		t.Fatal(err)
	}
	done := map[string]lease.ShardID{}
	w := NewWorker(t, ctl, "w1")
	for _, name := range []string{"seen", "hidden", "canceled", "pruned"} {
		sub := lease.Submission{Kind: "test", Params: []byte(`{"items":1,"distinct":"` + name + `"}`)}
		if name == "hidden" {
			sub.Project = "hidden"
		}
		id, err := ctl.Submit(t.Context(), sub)
		if err != nil {
			t.Fatal(err)
		}
		w.Request++
		g := w.Exchange(lease.Exchange{Max: 1, Job: id}).Grants
		if name == "seen" { // and a shard that is not done
			f.Said.Add(lease.Hit{Project: lease.DefaultProject, Path: "open", Shard: g[0].Shard, Text: "too early"})
			if got := searched(t, ctl, lease.Query{Words: "early"}); got != "" {
				t.Fatalf("search finds %q in what is not accepted", got)
			}
		}
		wantVerdict(t, name, w.Report(Done(g[0], name)), lease.Accepted)
		done[name] = g[0].Shard
		p := sub.Project
		if p == "" {
			p = lease.DefaultProject
		}
		f.Said.Add(lease.Hit{Project: p, Path: name, Shard: g[0].Shard, Text: "a word of " + name})
	}
	f.Said.Add(lease.Hit{Project: lease.DefaultProject, Path: "stray", Shard: done["hidden"], Text: "a word out of place"})
	reader := f.As(lease.Actor{ID: "r", Role: lease.Reader, Projects: []lease.Project{lease.DefaultProject}})
	if got := searched(t, ctl, lease.Query{Words: "word"}); got != "seen hidden canceled pruned stray" {
		t.Fatalf("an admin finds %q", got)
	}
	if got := searched(t, reader, lease.Query{Words: "word"}); got != "seen canceled pruned" {
		t.Fatalf("a reader finds %q, want what is of its project", got)
	}
	if got := searched(t, ctl, lease.Query{Words: "word", Project: "hidden"}); got != "hidden" {
		t.Fatalf("in one project an admin finds %q", got)
	}
	if err := ctl.Cancel(t.Context(), done["canceled"].Job, ""); err != nil && !errors.Is(err, lease.ErrNotAllowed) {
		t.Fatal(err)
	}
	if err := ctl.Prune(t.Context(), []lease.JobID{done["pruned"].Job}); err != nil {
		t.Fatal(err)
	}
	want := "seen"
	if j, err := ctl.Job(t.Context(), done["canceled"].Job); err != nil || !j.Canceled {
		want = "seen canceled" // it had ended: there was nothing to cancel
	}
	if got := searched(t, reader, lease.Query{Words: "word"}); got != want {
		t.Fatalf("a reader finds %q after a cancel and a prune, want %q", got, want)
	}
	for _, p := range []lease.Project{"hidden", "gone"} {
		if _, err := reader.Search(t.Context(), lease.Query{Words: "word", Project: p}); !errors.Is(err, lease.ErrNotFound) {
			t.Fatalf("a reader searches project %q: %v, want %v", p, err, lease.ErrNotFound)
		}
	}
	if _, err := ctl.Search(t.Context(), lease.Query{}); !errors.Is(err, lease.ErrInvalid) {
		t.Fatalf("search for nothing: %v, want %v", err, lease.ErrInvalid)
	}
}

// searched is the paths that a search finds.
func searched(t *testing.T, ctl lease.Control, q lease.Query) string {
	t.Helper()
	out, err := ctl.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search %+v: %v", q, err)
	}
	var paths []string
	for _, h := range out.Hits {
		paths = append(paths, h.Path)
	}
	return strings.Join(paths, " ")
}
