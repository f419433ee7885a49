package probe

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// ErrHeld is returned when another probe is at work on the same file.
var ErrHeld = errors.New("another probe is at work on it")

// markText begins a mark: what else is beside it was made by a probe.
const markText = "macbatch probe\n"

// markWait is how long the processes of a probe that was killed may take to notice.
const markWait = 5 * time.Second

// mark is a file beside a probe's store, locked by all of its processes from before
// they make anything until all is over. One that nobody holds is of a probe that was
// killed, as is all that it stands beside.
type mark struct{ file *os.File }

// takeMark makes the mark of a store's file, and removes what a dead one stands beside.
func takeMark(store string) (*mark, error) {
	for {
		f, err := os.OpenFile(store+".probe", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockMark(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		there, err := os.Lstat(f.Name())
		open, err2 := f.Stat()
		if errors.Is(err, fs.ErrNotExist) || err == nil && err2 == nil && !os.SameFile(there, open) {
			if err := f.Close(); err != nil {
				return nil, err
			}
			continue // its holder took it away as it ended
		}
		if err = errors.Join(err, err2); err == nil {
			err = sweep(f, store)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &mark{f}, nil
	}
}

// sweep removes what the mark stands beside, or writes it when it is new.
func sweep(f *os.File, store string) error {
	b, err := io.ReadAll(io.LimitReader(f, int64(len(markText))+1))
	switch {
	case err != nil:
		return err
	case string(b) == markText:
		discard(store)
		return nil
	case !strings.HasPrefix(markText, string(b)):
		return fmt.Errorf("%q: %w", f.Name(), ErrExists)
	}
	if _, err := f.WriteAt([]byte(markText), 0); err != nil {
		return err
	}
	return f.Sync()
}

func lockMark(f *os.File) error {
	limit := time.NewTimer(markWait)
	defer limit.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return err
		}
		select {
		case <-limit.C:
			return ErrHeld
		case <-again.C:
		}
	}
}

// drop removes the mark: nothing is left that is not meant to be.
func (m *mark) drop() error { return errors.Join(os.Remove(m.file.Name()), m.file.Close()) }
