package guard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func load() (float64, error) {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), " ")
	return strconv.ParseFloat(first, 64)
}

func memory() (free, all uint64, err error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	return parseMeminfo(string(b))
}

func parseMeminfo(text string) (free, all uint64, err error) {
	for _, want := range []struct {
		key  string
		into *uint64
	}{{"MemAvailable:", &free}, {"MemTotal:", &all}} {
		_, rest, ok := strings.Cut("\n"+text, "\n"+want.key)
		if !ok {
			return 0, 0, fmt.Errorf("no %s in meminfo", want.key)
		}
		line, _, _ := strings.Cut(rest, "\n")
		kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 50)
		if err != nil {
			return 0, 0, fmt.Errorf("meminfo, %s: %w", want.key, err)
		}
		*want.into = kib << 10
	}
	return free, all, nil
}

const supplies = "/sys/class/power_supply"

func onBattery(context.Context) (bool, error) { return discharging(supplies) }

// discharging reads the power supplies of a folder as the kernel shows them. The
// machine runs on battery when it has one, and no supply from outside is online.
func discharging(dir string) (bool, error) {
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return false, nil // no battery to run on
	}
	if err != nil {
		return false, err
	}
	read := func(name, file string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name, file)) // not every supply has all
		return strings.TrimSpace(string(b))
	}
	battery := false
	for _, f := range files {
		switch n := f.Name(); read(n, "type") {
		case "Mains", "USB", "Wireless":
			if read(n, "online") == "1" {
				return false, nil
			}
		case "Battery":
			// That of a mouse or a phone powers no machine.
			if read(n, "scope") != "Device" && read(n, "status") != "Charging" && read(n, "status") != "Full" {
				battery = true
			}
		}
	}
	return battery, nil
}
