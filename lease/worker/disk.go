package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"macbatch/lease"
)

const (
	diskRetry = 10 * time.Second // between two attempts to keep a result on a full disk
	diskRest  = time.Minute      // no claims for so long after the disk was found full
	diskCheck = 15 * time.Second // between two looks at the free space while it is too low
)

// freeSpace returns the bytes that an ordinary user may still write at dir.
func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return uint64(st.Bavail) * uint64(st.Bsize), nil
		}
		if err != syscall.EINTR {
			return 0, fmt.Errorf("free space of %q: %w", dir, err)
		}
	}
}

// roomy reports whether there is disk space for more work, and logs each change.
func (a *Agent) roomy() bool {
	var why string
	a.mu.Lock()
	if a.mono() < a.restUntil {
		why = "the disk was full a moment ago"
	}
	a.mu.Unlock()
	for _, dir := range append([]string{a.cfg.Dir}, a.cfg.Disks...) {
		if why != "" || a.cfg.MinFree == 0 {
			break
		}
		free, err := a.cfg.Free(dir)
		switch {
		case err != nil:
			why = err.Error()
		case free < a.cfg.MinFree:
			why = fmt.Sprintf("%d bytes free at %q, fewer than %d", free, dir, a.cfg.MinFree)
		}
	}
	if a.hinder("disk", why, diskCheck) {
		if why != "" {
			a.log.Warn("claiming nothing: "+why, "free_min", a.cfg.MinFree)
		} else {
			a.log.Info("disk space again: claiming")
		}
	}
	return why == ""
}

// room gives a shard back whose work would take the space that must stay free. Others
// of its kind are not offered for a while: they would meet the same.
func (a *Agent) room(kind lease.Kind, bytes uint64) error {
	for _, dir := range append([]string{a.cfg.Dir}, a.cfg.Disks...) {
		free, err := a.cfg.Free(dir)
		if err != nil {
			return err
		}
		if free < a.cfg.MinFree+bytes {
			return &Released{
				Reason: fmt.Sprintf("%d MiB are free at %q: %d for the work and %d that stay free do not fit", free>>20, dir, bytes>>20, a.cfg.MinFree>>20),
				Delay:  diskCheck, Withdraw: lease.Need{Kind: kind}, For: diskRest,
			}
		}
	}
	return nil
}

// hold stops claims for a while after the disk was full.
func (a *Agent) hold(err error) {
	a.mu.Lock()
	a.restUntil = a.mono() + diskRest
	a.mu.Unlock()
	a.log.Warn("disk full", "err", err)
}

var taskFolder = regexp.MustCompile(`^[0-9a-z]+-[0-9]+\.[0-9]+-[0-9]+$`)

func folderName(k key) string {
	return fmt.Sprintf("%v.%d-%v", k.shard.Job, k.shard.Seq, k.fence)
}

// clean makes the work folder and removes what a predecessor left in it. Only
// folders named as tasks are: the caller may have pointed at something precious.
func clean(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make work folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean work folder: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && taskFolder.MatchString(e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("clean work folder: %w", err)
			}
		}
	}
	return nil
}
