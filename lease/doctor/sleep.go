package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// Sleep reads what pmset -g printed.
func Sleep(text string) (list []Finding) {
	n, err := setting(text, "sleep")
	switch {
	case err != nil:
		list = append(list, bad(Warn, "sleep", "", "", "pmset told no time of sleep: %v", err))
	case n > 0:
		list = append(list, bad(Warn, "sleep", "", "System Settings > Energy: prevent automatic sleeping; or sudo pmset -c sleep 0",
			"this Mac sleeps after %d minutes without work, and then takes none", n))
	default:
		list = append(list, ok("sleep", "", "this Mac does not fall asleep by itself"))
	}
	if n, err := setting(text, "lowpowermode"); err == nil && n > 0 {
		list = append(list, bad(Warn, "sleep", "lowpowermode", "System Settings > Battery: Low Power Mode, never; or sudo pmset -a lowpowermode 0", "Low Power Mode makes this Mac slow"))
	}
	if n, err := setting(text, "disksleep"); err == nil && n > 0 {
		list = append(list, ok("sleep", "disksleep", "disks rest after %d minutes: the first film afterwards waits for them", n))
	}
	return list
}

// setting finds a number among the settings in use: " sleep  1 (sleep prevented by …)".
func setting(text, name string) (int, error) {
	if _, now, ok := strings.Cut(text, "Currently in use:"); ok {
		text = now
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != name {
			continue
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return 0, fmt.Errorf("%s is %q", name, f[1])
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s: %w", name, errNoSetting)
}
