package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"macbatch/lease"
	"macbatch/spool"
	"macbatch/transcode/child"
)

// The names inside a worker's folder.
const (
	workerName = "worker.json"
	spoolName  = "spool"
	marksName  = "marks.json" // how far each control plane was seen to be
	childName  = "children"   // which programs it runs
	workName   = "work"
)

// workerFolder is what a worker keeps on disk: who it is, its spool, its work.
type workerFolder struct {
	dir         string
	lock        *os.File
	ID          lease.WorkerID `json:"id"`
	Incarnation uint64         `json:"incarnation"`
	spool       *spool.Spool
	children    *child.Keeper
	awake       *awake
}

// openWorker takes over a worker's folder, and ends what a killed process left
// running. A second process gets an error that names the first.
func (c *command) openWorker(dir, name string) (*workerFolder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make worker folder: %w", err)
	}
	w := &workerFolder{dir: dir}
	var err error
	if w.lock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	if err := w.begin(name); err != nil {
		return nil, errors.Join(err, w.lock.Close())
	}
	var ended int
	w.children, ended, err = child.Keep(filepath.Join(dir, childName))
	if w.children == nil {
		return nil, errors.Join(err, w.lock.Close())
	}
	w.awake = newAwake(w.children)
	if err != nil {
		fmt.Fprintf(c.stderr, "macbatch: %s\n", printable(err.Error()))
	}
	if ended > 0 {
		fmt.Fprintf(c.stderr, "macbatch: ended %s that a killed run had left\n", processes(ended))
	}
	return w, nil
}

func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock worker folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path) // only to be told
		err = fmt.Errorf("worker folder %q is in use by %s", dir, strings.TrimSpace(string(holder)))
		return nil, errors.Join(hint(err, "another worker on this machine needs a folder of its own: --data DIR"), f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(f, "process %d\n", os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock worker folder: %w", err), f.Close())
	}
	return f, nil
}

// begin reads who this worker is, or makes it up at the first start.
func (w *workerFolder) begin(name string) error {
	path := filepath.Join(w.dir, workerName)
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(b, w); err != nil {
			return fmt.Errorf("worker file %q: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("worker file: %w", err)
	}
	if name != "" {
		w.ID = lease.WorkerID(name)
	}
	if w.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name the worker: %w", err)
		}
		host, _, _ = strings.Cut(host, ".")
		w.ID = lease.WorkerID(fmt.Sprintf("%s-%06x", host, rand.Uint32()>>8))
	}
	w.spool, err = spool.Open(filepath.Join(w.dir, spoolName))
	return err
}

// next begins another incarnation: every agent that runs is one of its own.
func (w *workerFolder) next() error {
	// A folder restored from a backup must not fall behind: the clock helps.
	w.Incarnation = max(w.Incarnation+1, uint64(time.Now().UnixMilli()))
	b, err := json.Marshal(w)
	if err == nil {
		err = writeSecret(filepath.Join(w.dir, workerName), string(b)+"\n")
	}
	if err != nil {
		return fmt.Errorf("worker file: %w", err)
	}
	return nil
}

func (w *workerFolder) close() error {
	w.awake.close()
	return w.lock.Close()
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
