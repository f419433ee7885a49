package store

import (
	"context"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/kv"
)

// Words finds what was said in the films of some projects. It may be behind the
// store; what it names is looked up.
type Words interface {
	Find(ctx context.Context, q lease.Query, projects []lease.Project) (lease.Found, error)
}

// Search implements lease.Control.
func (c *control) Search(ctx context.Context, q lease.Query) (out lease.Found, err error) {
	if err := c.may(lease.Reader); err != nil {
		return out, err
	}
	projects := []lease.Project{}
	for p := range c.s.scope.Load().projects {
		if c.actor.Sees(p) && (q.Project == "" || p == q.Project) {
			projects = append(projects, p)
		}
	}
	if q.Project != "" && len(projects) == 0 {
		return out, fmt.Errorf("project %q: %w", q.Project, lease.ErrNotFound)
	}
	if c.s.words == nil {
		return out, fmt.Errorf("search: this control plane keeps no index of words: %w", lease.ErrNotAllowed)
	}
	if out, err = c.s.words.Find(ctx, q, projects); err != nil {
		return lease.Found{}, err
	}
	err = c.view(func(r kv.Reader) error {
		hits := out.Hits
		out.Hits = out.Hits[:0]
		for _, h := range hits {
			counts, err := c.counts(r, h.Shard)
			if err != nil {
				return err
			}
			if counts {
				out.Hits = append(out.Hits, h)
			}
		}
		return nil
	})
	if err != nil {
		return lease.Found{}, err
	}
	return out, nil
}

// counts reports whether a shard's result is one that the actor may see, of a job that
// was not canceled.
func (c *control) counts(r kv.Reader, id lease.ShardID) (bool, error) {
	j, row, err := rows(r, id)
	if isNotFound(err) {
		return false, nil
	}
	return err == nil && c.actor.Sees(j.Project) && !j.Canceled && row.State == lease.Done, err
}

// Mark is the newest durable point.
func (s *Store) Mark() lease.Mark { return s.mark() }
