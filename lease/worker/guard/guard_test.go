package guard

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestParseHoursRefuses(t *testing.T) {
	for _, text := range []string{
		"", ";", "Mon", "Mon-Fri", "22:00", "22:00-", "-07:00", "22:00-22:00", "24:00-07:00", "00:00-24:01", "25:00-07:00",
		"1:00-2:00", "+1:00-02:00", "Mon-Foo 01:00-02:00", "Mon- 01:00-02:00", "Mon Tue 01:00-02:00", "01:00-02:60",
		"Mon 01:00-02:00;", "Mon 01:00 - 02:00", "Monday 01:00-02:00", "01:00-02:00,",
	} {
		if h, err := ParseHours(text); err == nil {
			t.Errorf("ParseHours(%q) = %v, want an error", text, h)
		}
	}
}

func TestHours(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("Mon 2006-01-02 15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		hours, at string
		want      bool
	}{
		{"Mon-Fri 22:00-07:00", "Mon 2026-03-02 21:59", false},
		{"Mon-Fri 22:00-07:00", "Mon 2026-03-02 22:00", true},
		{"Mon-Fri 22:00-07:00", "Tue 2026-03-03 06:59", true},
		{"Mon-Fri 22:00-07:00", "Tue 2026-03-03 07:00", false},
		{"Mon-Fri 22:00-07:00", "Sat 2026-03-07 06:59", true}, // Friday's night
		{"Mon-Fri 22:00-07:00", "Sat 2026-03-07 23:00", false},
		{"Mon-Fri 22:00-07:00", "Mon 2026-03-02 06:00", false}, // Sunday's night is not
		{"mon-fri 22:00-07:00; SAT,SUN 00:00-24:00", "Sat 2026-03-07 23:59", true},
		{"mon-fri 22:00-07:00; SAT,SUN 00:00-24:00", "Mon 2026-03-02 00:00", false},
		{"Fri-Mon 10:00-11:00", "Sun 2026-03-01 10:30", true},
		{"Fri-Mon 10:00-11:00", "Tue 2026-03-03 10:30", false},
		{"10:00-11:00,12:00-13:00", "Wed 2026-03-04 12:30", true},
		{"10:00-11:00,12:00-13:00", "Wed 2026-03-04 11:30", false},
		{"23:00-00:00", "Wed 2026-03-04 23:30", true},
		{"23:00-00:00", "Wed 2026-03-04 00:00", false},
		{"23:00-24:00", "Wed 2026-03-04 23:59", true},
	} {
		h, err := ParseHours(c.hours)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Hold(at(c.at)); got != c.want {
			t.Errorf("%q at %s = %v, want %v", c.hours, c.at, got, c.want)
		}
	}
}

// When the clocks change the hours are those on the wall.
func TestHoursOverClockChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	h, err := ParseHours("02:30-03:30")
	if err != nil {
		t.Fatal(err)
	}
	minutes := func(day time.Time) (n int) {
		for at := day; at.Before(day.Add(24 * time.Hour)); at = at.Add(time.Minute) {
			if h.Hold(at.In(berlin)) {
				n++
			}
		}
		return n
	}
	for day, want := range map[string]int{
		"2026-03-28T12:00:00Z": 30, // 2:00 becomes 3:00
		"2026-10-24T12:00:00Z": 90, // 3:00 becomes 2:00
		"2026-06-01T12:00:00Z": 60,
	} {
		at, err := time.Parse(time.RFC3339, day)
		if err != nil {
			t.Fatal(err)
		}
		if got := minutes(at); got != want {
			t.Errorf("from %s on: %d minutes, want %d", day, got, want)
		}
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.Local)
	if why := h.Check(func() time.Time { return now })(t.Context()); why != "outside its hours, 02:30-03:30" {
		t.Errorf("Check = %q", why)
	}
}

func FuzzParseHours(f *testing.F) {
	f.Add("Mon-Fri 22:00-07:00; Sat,Sun 00:00-24:00")
	f.Add("23:00-00:00")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHours(text)
		if err != nil {
			return
		}
		if len(h.spans) == 0 {
			t.Fatalf("ParseHours(%q) holds nothing", text)
		}
		again, err := ParseHours(h.text)
		if err != nil || len(again.spans) != len(h.spans) {
			t.Fatalf("ParseHours(%q) = %v, %v after %v", h.text, again, err, h)
		}
	})
}

// Recorded from macOS 10.15 to 15.
func TestParsePmset(t *testing.T) {
	for text, want := range map[string]bool{
		"Now drawing from 'AC Power'\n -InternalBattery-0 (id=4653155)\t100%; charged; 0:00 remaining present: true\n":          false,
		"Now drawing from 'Battery Power'\n -InternalBattery-0 (id=22085731)\t83%; discharging; 5:12 remaining present: true\n": true,
		"Now drawing from 'AC Power'\n":                                  false, // a Mac mini
		"Now drawing from 'UPS Power'\n -UPS (id=1)\t90%; discharging\n": true,
	} {
		if got, err := parsePmset(text); err != nil || got != want {
			t.Errorf("parsePmset(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Now drawing from 'AC", "pmset: error"} {
		if _, err := parsePmset(text); err == nil {
			t.Errorf("parsePmset(%q) is no error", text)
		}
	}
}

func TestLoadAndMemory(t *testing.T) {
	for name, made := range map[string]func() (Check, error){
		"load":   func() (Check, error) { return Load(-1) },
		"memory": func() (Check, error) { return Memory(1 << 62) },
	} {
		check, err := made()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if why := check(context.Background()); !strings.Contains(why, name) {
			t.Errorf("%s: %q, want a reason", name, why)
		}
	}
	for name, made := range map[string]func() (Check, error){
		"load":   func() (Check, error) { return Load(1e9) },
		"memory": func() (Check, error) { return Memory(1) },
	} {
		check, err := made()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if why := check(context.Background()); why != "" {
			t.Errorf("%s: %q, want none", name, why)
		}
	}
	if Installed() < 64<<20 {
		t.Errorf("Installed = %d bytes", Installed())
	}
	if _, err := Mains(t.Context()); err != nil {
		t.Errorf("Mains: %v", err)
	}
}
