package doctor

import (
	"context"
	"fmt"
	"time"
)

// Level is how bad a finding is.
type Level string

// The levels. Work goes on with a warning, and not, or not all of it, with a failure.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check string  `json:"check"`           // what kind of thing, such as "root"
	Of    string  `json:"of,omitempty"`    // which one, such as the root's name
	Level Level   `json:"level"`           //
	Text  string  `json:"text"`            // one sentence
	Fix   string  `json:"fix,omitempty"`   // what to do about it
	Rate  float64 `json:"rate,omitempty"`  // of what is measured, a second; more is better
	About string  `json:"about,omitempty"` // "service": as it is within one
}

func ok(check, of, format string, args ...any) Finding {
	return Finding{Check: check, Of: of, Level: OK, Text: fmt.Sprintf(format, args...)}
}

func bad(level Level, check, of, fix, format string, args ...any) Finding {
	return Finding{Check: check, Of: of, Level: level, Fix: fix, Text: fmt.Sprintf(format, args...)}
}

// Check is something to look at.
type Check struct {
	Name string
	Of   string
	Run  func(ctx context.Context) []Finding
}

// Limit bounds each check.
const Limit = 2 * time.Minute

// Run does the checks one after the other, and tells of each finding as it comes. One
// that does not end within its limit, as on a share whose server is gone, is left.
func Run(ctx context.Context, limit time.Duration, checks []Check, tell func(Finding)) error {
	for _, c := range checks {
		limited, cancel := context.WithTimeout(ctx, limit)
		found := make(chan []Finding, 1)
		go func() { found <- c.Run(limited) }()
		select {
		case list := <-found:
			for _, f := range list {
				tell(f)
			}
		case <-limited.Done():
			select {
			case list := <-found: // it heeded the limit
				for _, f := range list {
					tell(f)
				}
			case <-time.After(grace):
				if ctx.Err() == nil {
					tell(bad(Fail, c.Name, c.Of, "see whether its disk or its server still answers", "no answer within %v", limit))
				}
			}
		}
		cancel()
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// grace is how long a check may take to notice that its time is over.
const grace = 3 * time.Second

// Worst is the worst level of findings.
func Worst(list []Finding) Level {
	worst := OK
	for _, f := range list {
		if f.Level == Fail || f.Level == Warn && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

// slower is how much slower a service may be before that is a finding.
const slower = 3

// Compare tells how the findings within a service differ from those here: what is
// worse there, and what is much slower.
func Compare(here, inside []Finding) (list []Finding) {
	type key struct{ check, of string }
	known := map[key]Finding{}
	for _, f := range here {
		known[key{f.Check, f.Of}] = f
	}
	rank := map[Level]int{OK: 0, Warn: 1, Fail: 2}
	for _, f := range inside {
		h, there := known[key{f.Check, f.Of}]
		switch {
		case !there:
		case rank[f.Level] > rank[h.Level]:
			list = append(list, bad(f.Level, f.Check, f.Of, f.Fix, "within the service: %s; here: %s", f.Text, h.Text))
		case rank[f.Level] < rank[h.Level]:
			list = append(list, ok(f.Check, f.Of, "within the service: %s; here: %s", f.Text, h.Text))
		case f.Rate > 0 && f.Rate*slower < h.Rate:
			list = append(list, bad(Warn, f.Check, f.Of, "on a Mac its ProcessType must not be Background: macbatch service install writes the right one; elsewhere see what else runs",
				"the service is slowed down: %s; here: %s", f.Text, h.Text))
		}
	}
	return list
}
