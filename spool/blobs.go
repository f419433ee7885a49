package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// drop removes those of blobs that no entry refers to. The caller holds the
// lock on blobs.
func (s *Spool) drop(blobs []Blob) error {
	used, err := s.references()
	if errors.Is(err, ErrVersion) {
		return nil // what it refers to can't be known: nothing goes
	}
	if err != nil {
		return fmt.Errorf("drop blobs: %w", err)
	}
	for _, b := range blobs {
		if used[b.Digest] {
			continue
		}
		if err := s.disk.remove(s.path("blobs", b.Digest)); err != nil {
			return fmt.Errorf("drop blob: %w", err)
		}
	}
	return nil
}

// references returns the digests that entries, waiting or rejected, refer to.
// Damaged ones don't count: their shards are run again.
func (s *Spool) references() (map[string]bool, error) {
	used := map[string]bool{}
	for _, folder := range []string{"new", "rejected"} {
		names, err := s.list(folder)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			f, err := os.Open(s.path(folder, string(n)))
			if errors.Is(err, fs.ErrNotExist) {
				continue // delivered, or rejected: then the next folder has it
			}
			if err != nil {
				return nil, err
			}
			blobs, err := blobsOf(f)
			if closed := f.Close(); closed != nil {
				return nil, closed
			}
			if err != nil && !errors.Is(err, ErrDamaged) {
				return nil, err
			}
			for _, b := range blobs {
				used[b.Digest] = true
			}
		}
	}
	return used, nil
}

// Clean removes what an interrupted process left behind: everything in tmp/ and
// blobs without an entry. The process that adds calls it once, at its start,
// before its first Add.
func (s *Spool) Clean() error {
	unlock, err := s.lockBlobs()
	if err != nil {
		return fmt.Errorf("clean spool: %w", err)
	}
	return errors.Join(s.clean(), unlock())
}

func (s *Spool) clean() error {
	files, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return fmt.Errorf("clean spool: %w", err)
	}
	for _, f := range files {
		if err := s.disk.remove(s.path("tmp", f.Name())); err != nil {
			return fmt.Errorf("clean spool: %w", err)
		}
	}
	files, err = os.ReadDir(s.path("blobs"))
	if err != nil {
		return fmt.Errorf("clean spool: %w", err)
	}
	var blobs []Blob
	for _, f := range files {
		if isHex(f.Name(), 64) {
			blobs = append(blobs, Blob{Digest: f.Name()})
		}
	}
	return s.drop(blobs)
}
