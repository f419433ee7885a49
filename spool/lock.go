package spool

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Lock makes the caller the one that delivers this spool, among all processes
// and goroutines, until unlock or the end of the process. While another one is,
// it returns ErrBusy at once, with that process's id in the text.
func (s *Spool) Lock() (unlock func() error, err error) {
	f, err := os.OpenFile(s.path("uploader"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock spool: %w", err)
	}
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: held by process %s", ErrBusy, holder(f))
		return nil, errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("lock spool: %w", errors.Join(err, f.Close()))
	}
	// The pid is a courtesy to whoever finds it locked: on a full disk the lock
	// holds without it.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return sync.OnceValue(func() error {
		return errors.Join(f.Truncate(0), f.Close())
	}), nil
}

func holder(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid := strings.TrimSpace(string(b[:n]))
	if _, err := strconv.Atoi(pid); err != nil {
		return "unknown"
	}
	return pid
}

// lockBlobs waits for the lock under which references to blobs change.
func (s *Spool) lockBlobs() (unlock func() error, err error) {
	f, err := os.OpenFile(s.path("blobs.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}
