package store

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"macbatch/lease"
)

// fromSubmitter notes who uploaded an input. It is forgotten at a restart, as all
// is that no row refers to. s.mu is held.
func (s *Store) fromSubmitter(k *known, p lease.Project, d lease.Digest) {
	if !slices.Contains(k.inputs, p) {
		k.inputs = append(k.inputs, p)
	}
	s.uploads[d] = true
}

// upload returns an input that a project has. s.mu is held.
func (s *Store) upload(p lease.Project, d lease.Digest) (u lease.Uploaded, ok bool) {
	if !s.knows(p, d) || s.index.lists[d] == 0 && !slices.Contains(s.known[d].inputs, p) {
		return u, false
	}
	return lease.Uploaded{Digest: d, Bytes: s.present[d], At: s.known[d].uploaded.Round(0)}, true
}

// sees tells why an actor has no such role in a project, or nil.
func (s *Store) sees(a lease.Actor, p lease.Project, r lease.Role) error {
	c := control{s, asker{a, s}}
	if err := c.may(r); err != nil {
		return err
	}
	if s.broken.Load() {
		return lease.ErrUnknownOutcome
	}
	if !c.actor.Sees(p) {
		return fmt.Errorf("project %q: %w", p, lease.ErrNotFound)
	}
	return nil
}

// Uploads lists the inputs that were uploaded into a project since the store was
// opened, the newest first.
func (s *Store) Uploads(a lease.Actor, p lease.Project) (list []lease.Uploaded, err error) {
	if err := s.sees(a, p, lease.Reader); err != nil {
		return nil, err
	}
	s.mu.Lock()
	for d := range s.uploads {
		k := s.known[d]
		if k == nil || len(k.inputs) == 0 {
			delete(s.uploads, d)
		} else if u, ok := s.upload(p, d); ok && slices.Contains(k.inputs, p) {
			list = append(list, u)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b lease.Uploaded) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(a.Digest.String(), b.Digest.String())
	})
	return list, nil
}

// OpenUpload opens an input of a project.
func (s *Store) OpenUpload(a lease.Actor, p lease.Project, d lease.Digest) (lease.Uploaded, io.ReadCloser, error) {
	if err := s.sees(a, p, lease.Reader); err != nil {
		return lease.Uploaded{}, nil, err
	}
	s.mu.Lock()
	u, ok := s.upload(p, d)
	s.mu.Unlock()
	if !ok {
		return u, nil, fmt.Errorf("input %v: %w", d, lease.ErrNotFound)
	}
	r, err := s.openAt(d, 0, u.Bytes)
	return u, r, err
}

// DropUpload takes an input from a project, and its bytes from the disk unless
// something else needs them. No job of the project may work on it.
func (s *Store) DropUpload(a lease.Actor, p lease.Project, d lease.Digest) error {
	if err := s.sees(a, p, lease.Submitter); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.upload(p, d); !ok {
		return fmt.Errorf("input %v: %w", d, lease.ErrNotFound)
	}
	k := s.known[d]
	k.inputs = slices.DeleteFunc(k.inputs, func(q lease.Project) bool { return q == p })
	if k.kept || s.index.inputs[d] > 0 {
		return nil
	}
	k.projects = slices.DeleteFunc(k.projects, func(q lease.Project) bool { return q == p })
	if len(k.projects) == 0 {
		k.uploaded = time.Time{}
		if s.unreferredLocked(d, s.now()) {
			s.forget(d)
		}
	}
	return nil
}
