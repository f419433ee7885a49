package guard

import (
	"context"
	"fmt"
)

// Load is the check that the system's load of the last minute, in processes that
// want to run, is not over a limit. Work of the worker itself counts like any other.
func Load(most float64) (Check, error) {
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("ask for the load: %w", err)
	}
	return func(context.Context) string {
		if now, err := load(); err == nil && now > most {
			return fmt.Sprintf("load %.1f, more than %g", now, most)
		}
		return ""
	}, nil
}

// Memory is the check that so many bytes of memory are there for new work.
func Memory(least uint64) (Check, error) {
	if _, _, err := memory(); err != nil {
		return nil, fmt.Errorf("ask for the memory: %w", err)
	}
	return func(context.Context) string {
		if free, _, err := memory(); err == nil && free < least {
			return fmt.Sprintf("%d MiB of memory available, fewer than %d", free>>20, least>>20)
		}
		return ""
	}, nil
}

// Installed is the machine's memory in bytes; 0: not known.
func Installed() uint64 {
	_, all, err := memory()
	if err != nil {
		return 0
	}
	return all
}
