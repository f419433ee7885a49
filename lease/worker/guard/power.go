package guard

import (
	"context"
	"fmt"
	"strings"
)

// Mains is the check that the machine does not run on its battery.
func Mains(ctx context.Context) (Check, error) {
	if _, err := onBattery(ctx); err != nil {
		return nil, fmt.Errorf("ask for the power supply: %w", err)
	}
	return func(ctx context.Context) string {
		if is, err := onBattery(ctx); err == nil && is {
			return "on battery"
		}
		return ""
	}, nil
}

// parsePmset reads what macOS's pmset -g batt says. A UPS that powers the machine
// is a battery.
func parsePmset(text string) (battery bool, err error) {
	_, rest, ok := strings.Cut(text, "Now drawing from '")
	source, _, ended := strings.Cut(rest, "'")
	if !ok || !ended {
		return false, fmt.Errorf("pmset says %.80q, which is not understood", text)
	}
	return source != "AC Power", nil
}
