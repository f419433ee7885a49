package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// startsName is the file of starts in a data folder, keepStarts how many it tells.
const (
	startsName = "starts"
	keepStarts = 20
)

// Started notes that the process of a data folder starts.
func Started(dir string, now time.Time) error {
	list, err := starts(dir)
	if err != nil {
		return err
	}
	list = append(list[max(0, len(list)-keepStarts+1):], now)
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.UTC().Format(time.RFC3339) + "\n")
	}
	path := filepath.Join(dir, startsName)
	err = os.WriteFile(path+".new", []byte(b.String()), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("note the start: %w", err)
	}
	return nil
}

// starts reads when the process of a folder started; one that never did has none.
func starts(dir string) (list []time.Time, err error) {
	b, err := os.ReadFile(filepath.Join(dir, startsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("starts: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if t, err := time.Parse(time.RFC3339, strings.TrimSpace(line)); err == nil {
			list = append(list, t)
		}
	}
	return list, nil
}

// What makes restarts a finding: so many in a row, each within a lease's term of the
// one before, the last of them lately.
const (
	manyStarts = 3
	lately     = time.Hour
)

// Restarts looks whether the process of a folder starts more often than a lease's
// term: a control plane that does takes back no lease.
func Restarts(of, dir string, term time.Duration, now time.Time, effect string) Check {
	return Check{"restarts", of, func(context.Context) []Finding {
		list, err := starts(dir)
		if err != nil {
			return []Finding{bad(Warn, "restarts", of, Explain("", dir, err), "%v", err)}
		}
		if len(list) == 0 {
			return []Finding{ok("restarts", of, "%s never started here", of)}
		}
		quick, since := 0, now
		for i := len(list) - 1; i > 0; i-- {
			if now.Sub(list[i]) > lately || list[i].Sub(list[i-1]) >= term {
				break
			}
			quick, since = quick+1, list[i-1]
		}
		if quick >= manyStarts {
			return []Finding{bad(Fail, "restarts", of, "macbatch service logs "+of+" tells what ends it", "%s started %d times since %s, each time within %v of the last: %s",
				of, quick+1, since.Local().Format(time.TimeOnly), term, effect)}
		}
		return []Finding{ok("restarts", of, "%s started last at %s", of, list[len(list)-1].Local().Format(time.DateTime))}
	}}
}
