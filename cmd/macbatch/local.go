package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"macbatch/lease"
	"macbatch/lease/blob"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/pipeline"
	"macbatch/lease/search"
	"macbatch/lease/store"
)

// The names inside a control plane's data folder.
const (
	storeName = "store.db"
	blobsName = "blobs"
	wordsName = "words.db" // the index of what was said: a cache
)

// reserveBytes of the disk are kept for what makes room once it is full.
const reserveBytes = 16 << 20

// adminID is the actor whose token a control plane makes at its first start.
const adminID lease.ActorID = "admin"

// localStore is a control store opened by this process, its one writer.
type localStore struct {
	*store.Store
	db    *boltkv.DB
	words *search.Index // nil: it could not be opened
}

// close gives the store back.
func (s *localStore) close() error {
	if s.words != nil {
		return errors.Join(s.words.Close(), s.db.Close())
	}
	return s.db.Close()
}

// indexer reads for the index of words. No actor can be made of its name.
var indexer = lease.Actor{ID: "(index)", Role: lease.Admin}

// index follows the ledger for searches, until ctx ends.
func (s *localStore) index(ctx context.Context) error {
	if s.words == nil {
		return nil
	}
	return s.words.Run(ctx, s.As(indexer), s.Mark)
}

// openLocal opens, or makes, the control store in a folder. A second process on
// the same folder gets an error that names the first.
func openLocal(dir string, log *slog.Logger) (*localStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	db, err := boltkv.Open(filepath.Join(dir, storeName), boltkv.Options{Reserve: reserveBytes, Accept: store.Accept})
	if err != nil {
		return nil, err
	}
	blobs, err := blob.Open(filepath.Join(dir, blobsName))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := blobs.Clean(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	o := store.Options{Engine: db, Blobs: blobs, Planner: pipeline.Planner{}, Log: log}
	words, err := search.Open(filepath.Join(dir, wordsName), log)
	if err != nil { // work goes on without it
		log.Error("nothing can be searched for", "error", err)
		words = nil
	} else {
		o.Words = words
	}
	l := &localStore{db: db, words: words}
	if l.Store, err = store.Open(o); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// admin returns the store's admin. At the first start it makes one, with its
// token in a file that only its owner reads.
func (s *localStore) admin(dir string) (lease.Actor, error) {
	file := filepath.Join(dir, tokenName)
	switch token, err := readToken(file); {
	case err == nil:
		if a, err := s.Authenticate(token); err == nil && a.ID == adminID {
			return a, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return lease.Actor{}, err
	}
	token, hash := store.NewToken(adminID)
	a := lease.Actor{ID: adminID, Role: lease.Admin}
	if err := writeSecret(file, token+"\n"); err != nil {
		return a, fmt.Errorf("admin token: %w", err)
	}
	return a, s.SetActor(a, hash)
}

// writeSecret makes a file that only its owner can read, whole or not at all.
func writeSecret(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // made with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
