package boltkv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

var errLocked = errors.New("locked")

// lockWriter makes this process the one writer of the store at path.
func lockWriter(path string, timeout time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flockWait(f, true, timeout); err != nil {
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("%w by %s", ErrHeld, holder(path))
		}
		return nil, errors.Join(err, f.Close())
	}
	// Who holds it is a courtesy to others: on a full disk the lock does without.
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "pid %d on %s\n", os.Getpid(), host), 0)
	}
	return f, nil
}

// holder says who wrote itself into the lock file; ask only while it is locked.
func holder(path string) string {
	f, err := os.Open(path + ".lock")
	if err != nil {
		return "another process"
	}
	defer func() { _ = f.Close() }() // only read
	b := make([]byte, 300)
	n, _ := f.ReadAt(b, 0)
	if s := strings.TrimSpace(string(b[:n])); s != "" {
		return s
	}
	return "another process"
}

// flockWait waits up to timeout for a lock on f.
func flockWait(f *os.File, exclusive bool, timeout time.Duration) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch err {
		case nil:
			return nil
		case syscall.EINTR:
			continue
		case syscall.EWOULDBLOCK:
		default:
			return err
		}
		select {
		case <-limit.C:
			return errLocked
		case <-again.C:
		}
	}
}
