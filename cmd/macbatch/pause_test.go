package main

import (
	"testing"
	"time"
)

func TestParseUntil(t *testing.T) {
	now := time.Date(2026, 3, 31, 21, 30, 0, 0, time.Local)
	for _, c := range []struct {
		in   string
		want time.Time
	}{
		{"22:00", time.Date(2026, 3, 31, 22, 0, 0, 0, time.Local)},
		{"21:30", time.Date(2026, 4, 1, 21, 30, 0, 0, time.Local)},
		{"2026-05-01T07:00", time.Date(2026, 5, 1, 7, 0, 0, 0, time.Local)},
		{"2026-05-01 07:00", time.Date(2026, 5, 1, 7, 0, 0, 0, time.Local)},
		{"2026-05-01T07:00:00Z", time.Date(2026, 5, 1, 7, 0, 0, 0, time.UTC)},
		{"tomorrow", time.Time{}},
		{"25:00", time.Time{}},
	} {
		got, err := parseUntil(c.in, now)
		if !got.Equal(c.want) || (err != nil) != c.want.IsZero() {
			t.Errorf("parseUntil(%q) = %v, %v, want %v", c.in, got, err, c.want)
		}
	}
}
