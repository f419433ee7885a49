package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/worker/guard"
	"macbatch/lease/worker/kinds"
)

// guardFlags say when a worker may claim work.
func guardFlags() []cli.Flag {
	return under("When to work:", []cli.Flag{
		&cli.StringFlag{Name: "hours", Usage: "claim work at these `TIMES` only, such as \"Mon-Fri 22:00-07:00; Sat,Sun 00:00-24:00\"", EnvVars: []string{"MACBATCH_HOURS"}},
		&cli.BoolFlag{Name: "on-ac-only", Usage: "claim no work on battery", EnvVars: []string{"MACBATCH_ON_AC_ONLY"}},
		&cli.Float64Flag{Name: "max-load", Usage: "claim no work while the system's load of a minute is over `LOAD`"},
		&cli.IntFlag{Name: "min-memory", Usage: "claim no work while fewer `MIB` of memory are available"},
	})
}

// guards makes the checks that flags ask for.
func guards(x *cli.Context) (checks []func(context.Context) string, err error) {
	if text := x.String("hours"); text != "" || x.IsSet("hours") {
		h, err := guard.ParseHours(text)
		if err != nil {
			return nil, usagef("--%v", err)
		}
		checks = append(checks, h.Check(time.Now))
	}
	if x.IsSet("max-load") {
		most := x.Float64("max-load")
		if !(most > 0) { // NaN is not, either
			return nil, usagef("--max-load %v: must be above 0", most)
		}
		c, err := guard.Load(most)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	}
	if least := x.Int("min-memory"); least > 0 {
		c, err := guard.Memory(uint64(least) << 20)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	} else if least < 0 {
		return nil, usagef("--min-memory %d: must be above 0", least)
	}
	if x.Bool("on-ac-only") {
		c, err := guard.Mains(x.Context)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	}
	return checks, nil
}

// facts is what this machine tells of itself.
func facts(t *kinds.Tools) lease.Facts {
	return lease.Facts{
		System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Memory: guard.Installed(), Tools: t.Names(),
	}
}

// describeFacts is a worker's machine in one cell of a table.
func describeFacts(f *lease.Facts) string {
	parts := []string{f.System}
	if f.CPUs > 0 {
		parts = append(parts, plural(uint64(f.CPUs), "CPU"))
	}
	if f.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%d GiB", (f.Memory+1<<29)>>30))
	}
	return strings.TrimSpace(strings.Join(append(parts, f.Tools...), ", "))
}

// describeRest is why a worker does not do all that it could; "-": it does.
func describeRest(f *lease.Facts) string {
	parts := f.Lacks
	if f.Rests != "" {
		parts = append([]string{"claims nothing: " + f.Rests}, f.Lacks...)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, "; ")
}
