package guard

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDischarging(t *testing.T) {
	for name, c := range map[string]struct {
		supplies map[string]map[string]string
		want     bool
	}{
		"desktop":                 {nil, false},
		"laptop, plugged in":      {map[string]map[string]string{"AC": {"type": "Mains", "online": "1"}, "BAT0": {"type": "Battery", "status": "Charging"}}, false},
		"laptop, on battery":      {map[string]map[string]string{"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Discharging"}}, true},
		"by USB, not charging":    {map[string]map[string]string{"BAT0": {"type": "Battery", "status": "Not charging"}, "ucsi": {"type": "USB", "online": "1"}}, false},
		"desktop with a mouse":    {map[string]map[string]string{"hid": {"type": "Battery", "scope": "Device", "status": "Discharging"}}, false},
		"battery alone, charging": {map[string]map[string]string{"BAT0": {"type": "Battery", "status": "Charging"}}, false},
	} {
		dir := t.TempDir()
		for supply, files := range c.supplies {
			if err := os.Mkdir(filepath.Join(dir, supply), 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, supply, file), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := discharging(dir); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	if got, err := discharging(filepath.Join(t.TempDir(), "none")); err != nil || got {
		t.Errorf("no supplies at all: %v, %v", got, err)
	}
}

func TestParseMeminfo(t *testing.T) {
	free, all, err := parseMeminfo("MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n")
	if err != nil || free != 8<<20 || all != 16<<20 {
		t.Fatalf("parseMeminfo = %d, %d, %v", free, all, err)
	}
	for _, text := range []string{"", "MemTotal: 1 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n"} {
		if _, _, err := parseMeminfo(text); err == nil {
			t.Errorf("parseMeminfo(%q) is no error", text)
		}
	}
}
