package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Add puts a result into the spool and returns once it is durable. blobFiles are
// absolute or relative paths of regular files that nobody changes any more; they
// become the entry's blobs and are gone from where they were when Add returns
// nil. When it returns an error they are all still there and nothing was added.
//
// shard must not be empty; at orders the entries. Errors: ErrTooLarge, or that
// of the disk.
func (s *Spool) Add(shard string, fence uint64, at time.Time, body []byte, blobFiles []string) (Entry, error) {
	e, err := s.add(shard, fence, at, body, blobFiles)
	if err != nil {
		return Entry{}, fmt.Errorf("add result of shard %q: %w", shard, err)
	}
	for _, file := range blobFiles {
		// The entry stands; a source that stays is only a leftover of the caller's.
		_ = s.disk.remove(file)
	}
	s.ring()
	return e, nil
}

func (s *Spool) add(shard string, fence uint64, at time.Time, body []byte, blobFiles []string) (e Entry, err error) {
	if shard == "" {
		return Entry{}, errors.New("empty shard")
	}
	if len(body) > MaxBody {
		return Entry{}, fmt.Errorf("%w: body of %d bytes", ErrTooLarge, len(body))
	}
	e = Entry{Shard: shard, Fence: fence, Body: body}
	var taken []string // files in tmp/, one per blob
	defer func() {
		// Moved away by now, or left by an error; or, where the blob was a link
		// to the same file already, left by rename, which does nothing then.
		for _, t := range taken {
			_ = s.disk.remove(t)
		}
	}()
	for _, file := range blobFiles {
		t, blob, err := s.take(file)
		if err != nil {
			return Entry{}, err
		}
		taken = append(taken, t)
		e.Blobs = append(e.Blobs, blob)
	}
	file, digest := encode(e)
	if len(file)-len(body) > maxHead {
		return Entry{}, fmt.Errorf("%w: %d blobs", ErrTooLarge, len(blobFiles))
	}
	e.Name = nameOf(shard, fence, at, digest)
	if len(taken) == 0 {
		return e, s.publish(e.Name, file)
	}

	// From the first blob in its place to the entry that refers to it, nobody
	// may drop what looks unreferenced.
	unlock, err := s.lockBlobs()
	if err != nil {
		return Entry{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := s.place(taken, e.Blobs); err != nil {
		return Entry{}, errors.Join(err, s.drop(e.Blobs))
	}
	if err := s.publish(e.Name, file); err != nil {
		return Entry{}, errors.Join(err, s.drop(e.Blobs))
	}
	return e, nil
}

// take brings a file into tmp/, durable, and returns its path there. It is
// linked where the folders share a disk and copied otherwise: the source stays.
func (s *Spool) take(file string) (tmp string, blob Blob, err error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", Blob{}, err
	}
	if !info.Mode().IsRegular() {
		return "", Blob{}, fmt.Errorf("blob %q is not a regular file", file)
	}
	f, err := s.disk.create(s.path("tmp"), "blob.*")
	if err != nil {
		return "", Blob{}, err
	}
	tmp = f.Name()
	if err = s.bring(f, file); err == nil {
		blob, err = s.seal(tmp)
	}
	if err != nil {
		return "", Blob{}, errors.Join(err, s.disk.remove(tmp))
	}
	return tmp, blob, nil
}

// bring puts the bytes of file where f, a new file in tmp/, is; it closes f.
func (s *Spool) bring(f *os.File, file string) error {
	// The new file reserves a name, which rename can take over and link can't.
	linked := f.Name() + ".link"
	if s.disk.link(file, linked) == nil {
		if err := errors.Join(f.Close(), s.disk.rename(linked, f.Name())); err != nil {
			return errors.Join(err, s.disk.remove(linked))
		}
		return nil
	}
	src, err := os.Open(file)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(s.disk.fill(f, src), src.Close())
}

// seal hashes a file in tmp/ as it lies on the disk and makes it durable.
func (s *Spool) seal(path string) (Blob, error) {
	f, err := os.Open(path)
	if err != nil {
		return Blob{}, err
	}
	h := sha256.New()
	size, err := io.Copy(h, f)
	err = errors.Join(err, f.Chmod(0o600), s.disk.sync(f), f.Close())
	if err != nil {
		return Blob{}, err
	}
	return Blob{hex.EncodeToString(h.Sum(nil)), size}, nil
}

// place moves blobs from tmp/ into blobs/. One that is there already is replaced
// by its equal, which heals a rotten copy.
func (s *Spool) place(taken []string, blobs []Blob) error {
	for i, t := range taken {
		if err := s.disk.rename(t, s.path("blobs", blobs[i].Digest)); err != nil {
			return err
		}
	}
	return s.disk.syncFolder(s.path("blobs"))
}

// publish makes an entry appear, whole and durable, or not at all.
func (s *Spool) publish(n Name, file []byte) error {
	path := s.path("new", string(n))
	if err := s.disk.replace(s.path("tmp"), path, bytes.NewReader(file)); err != nil {
		return err
	}
	if err := s.disk.syncFolder(filepath.Dir(path)); err != nil {
		// Whole, but perhaps not durable: the caller is told it is not there.
		return errors.Join(err, s.disk.remove(path))
	}
	return nil
}
