package guard

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hours are the times of a week in which work is welcome, by the clock on the wall.
type Hours struct {
	text  string
	spans []span
}

// span is a time of some days. One that ends before it begins ends the day after;
// the day is that of its beginning.
type span struct {
	days     [7]bool // by time.Weekday
	from, to int     // minutes of the day; to is up to 24:00
}

var dayNames = [7]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseHours reads "Mon-Fri 22:00-07:00; Sat,Sun 00:00-24:00": parts separated by
// semicolons, each of days, which may be left out for all of them, and of one or
// more times separated by commas. Days and times may run over their end: Fri-Mon,
// 22:00-07:00.
func ParseHours(text string) (Hours, error) {
	h := Hours{text: strings.Join(strings.Fields(text), " ")}
	for part := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(part)
		if len(fields) == 0 || len(fields) > 2 {
			return Hours{}, fmt.Errorf("hours %q: %q is not DAYS TIMES, such as Mon-Fri 22:00-07:00", text, strings.TrimSpace(part))
		}
		days := [7]bool{true, true, true, true, true, true, true}
		if len(fields) == 2 {
			var err error
			if days, err = parseDays(fields[0]); err != nil {
				return Hours{}, fmt.Errorf("hours %q: %w", text, err)
			}
		}
		for times := range strings.SplitSeq(fields[len(fields)-1], ",") {
			from, to, err := parseTimes(times)
			if err != nil {
				return Hours{}, fmt.Errorf("hours %q: %w", text, err)
			}
			h.spans = append(h.spans, span{days, from, to})
		}
	}
	return h, nil
}

func parseDays(text string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err := parseDay(first)
		if err != nil {
			return days, err
		}
		to, err := parseDay(last)
		if err != nil {
			return days, err
		}
		for d := from; ; d = (d + 1) % 7 {
			days[d] = true
			if d == to {
				break
			}
		}
	}
	return days, nil
}

func parseDay(name string) (int, error) {
	for i, n := range dayNames {
		if strings.EqualFold(name, n) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("day %q is none of Mon, Tue, Wed, Thu, Fri, Sat, Sun", name)
}

func parseTimes(text string) (from, to int, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, fmt.Errorf("times %q are not FROM-TO, such as 22:00-07:00", text)
	}
	if from, err = parseTime(a); err != nil {
		return 0, 0, err
	}
	if to, err = parseTime(b); err != nil {
		return 0, 0, err
	}
	if from == 24*60 || from == to {
		return 0, 0, fmt.Errorf("times %q hold nothing; all day is 00:00-24:00", text)
	}
	return from, to, nil
}

func parseTime(text string) (minutes int, err error) {
	h, m, ok := strings.Cut(text, ":")
	if ok && len(h) == 2 && len(m) == 2 {
		hour, err := strconv.ParseUint(h, 10, 8)
		minute, err2 := strconv.ParseUint(m, 10, 8)
		if err == nil && err2 == nil && minute < 60 && (hour < 24 || hour == 24 && minute == 0) {
			return int(hour*60 + minute), nil
		}
	}
	return 0, fmt.Errorf("time %q is not HH:MM", text)
}

// Hold reports whether an instant is within the hours, by the clock of its
// location: an hour that a change of the clock repeats counts twice, one that it
// skips not at all.
func (h Hours) Hold(at time.Time) bool {
	minute, day := at.Hour()*60+at.Minute(), int(at.Weekday())
	for _, s := range h.spans {
		if s.from < s.to {
			if s.days[day] && minute >= s.from && minute < s.to {
				return true
			}
		} else if s.days[day] && minute >= s.from || s.days[(day+6)%7] && minute < s.to {
			return true
		}
	}
	return false
}

// Check makes the hours a check of the local clock.
func (h Hours) Check(now func() time.Time) Check {
	return func(context.Context) string {
		if h.Hold(now().Local()) {
			return ""
		}
		return "outside its hours, " + h.text
	}
}
