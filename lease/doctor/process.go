package doctor

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
)

// fewFiles is how few free descriptors are too few for a worker's children, their
// pipes and the connections.
const fewFiles = 512

// Descriptors looks how many more files this process may open.
func Descriptors() Check {
	return Check{"descriptors", "", func(context.Context) []Finding {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return []Finding{bad(Warn, "descriptors", "", "", "limit of open files: %v", err)}
		}
		used, err := os.ReadDir("/dev/fd")
		if err != nil {
			return []Finding{bad(Warn, "descriptors", "", "", "open files: %v", err)}
		}
		if free := int64(min(limit.Cur, 1<<40)) - int64(len(used)); free < fewFiles {
			return []Finding{bad(Fail, "descriptors", "", "raise the limit: ulimit -n 65536; macbatch service does so by itself", "only %d more files may be opened", max(0, free))}
		}
		return []Finding{ok("descriptors", "", "%d files may be open, %d are", limit.Cur, len(used))}
	}}
}

// speedFor is how long the processor's speed is measured.
const speedFor = 500 * time.Millisecond

// Speed measures the processor on one core: a service may be kept to the slow ones.
func Speed() Check {
	return Check{"speed", "", func(ctx context.Context) []Finding {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		block := make([]byte, 1<<20)
		rate, err := best(ctx, speedFor, func() error {
			sha256.Sum256(block)
			return nil
		})
		if err != nil {
			return nil // who gave up wants no measurement
		}
		f := ok("speed", "", "one core hashes %s a second", size(uint64(rate)<<20))
		f.Rate = rate
		return []Finding{f}
	}}
}

// Awake looks at a Mac's settings for sleep, as pmset tells them.
func Awake(pmset func(ctx context.Context) (string, error)) Check {
	return Check{"sleep", "", func(ctx context.Context) []Finding {
		text, err := pmset(ctx)
		if err != nil {
			return []Finding{bad(Warn, "sleep", "", "", "settings for sleep: %v", err)}
		}
		return Sleep(text)
	}}
}

// errNoSetting is returned when pmset told no such setting.
var errNoSetting = errors.New("no such setting")
