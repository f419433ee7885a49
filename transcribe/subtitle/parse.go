package subtitle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// lineMax bounds a line of a subtitle file.
const lineMax = 1 << 20

// ParseSRT reads SubRip.
func ParseSRT(r io.Reader) ([]Cue, error) {
	return parse(r, "parse SRT", false, func(s string) string { return strings.ReplaceAll(s, joiner, "") })
}

// ParseVTT reads WebVTT; notes, styles, regions, cue names and settings are passed over.
func ParseVTT(r io.Reader) ([]Cue, error) {
	unescape := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "&nbsp;", " ", "&lrm;", "\u200e", "&rlm;", "\u200f", joiner, "")
	return parse(r, "parse WebVTT", true, unescape.Replace)
}

func parse(r io.Reader, what string, vtt bool, text func(string) string) ([]Cue, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, lineMax)
	var cues []Cue
	var lines []string
	open, passed := false, false // within a cue; within a block that is none
	n := 0
	flush := func() {
		if open {
			cues[len(cues)-1].Text = text(strings.Join(lines, "\n"))
		}
		lines, open, passed = nil, false, false
	}
	for sc.Scan() {
		n++
		line := strings.TrimSuffix(sc.Text(), "\r")
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
			if vtt {
				if line != "WEBVTT" && !strings.HasPrefix(line, "WEBVTT ") && !strings.HasPrefix(line, "WEBVTT\t") {
					return nil, fmt.Errorf("%s: line 1: no WEBVTT", what)
				}
				passed = true
				continue
			}
		}
		switch {
		case line == "":
			flush()
		case open:
			lines = append(lines, line)
		case passed:
		case strings.Contains(line, "-->"):
			c, err := times(line)
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", what, n, err)
			}
			cues, open = append(cues, c), true
		case vtt:
			word, _, _ := strings.Cut(line, " ")
			passed = word == "NOTE" || word == "STYLE" || word == "REGION"
		default:
			if _, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
				return nil, fmt.Errorf("%s: line %d: %q is no cue number", what, n, line)
			}
		}
	}
	flush()
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", what, n+1, err)
	}
	if vtt && n == 0 {
		return nil, fmt.Errorf("%s: line 1: no WEBVTT", what)
	}
	return cues, nil
}

var errTimes = errors.New("not a line of times")

func times(line string) (c Cue, err error) {
	from, to, _ := strings.Cut(line, "-->")
	fields := strings.Fields(to)
	if len(fields) == 0 {
		return c, errTimes
	}
	if c.StartMS, err = clock(strings.TrimSpace(from)); err != nil {
		return c, err
	}
	if c.EndMS, err = clock(fields[0]); err != nil {
		return c, err
	}
	if c.EndMS < c.StartMS {
		return c, fmt.Errorf("ends at %d ms, before its start %d ms", c.EndMS, c.StartMS)
	}
	return c, nil
}

// clock reads [hours:]minutes:seconds and ms after a comma or a point.
func clock(s string) (int64, error) {
	head, ms, ok := strings.Cut(strings.Replace(s, ",", ".", 1), ".")
	f := strings.Split(head, ":")
	if len(f) == 2 {
		f = append([]string{"0"}, f...)
	}
	if !ok || len(f) != 3 || len(ms) != 3 {
		return 0, errTimes
	}
	var v [4]int64
	for i, d := range append(f, ms) {
		n, err := strconv.ParseUint(d, 10, 31)
		if err != nil || (i > 0 && i < 3 && n > 59) {
			return 0, errTimes
		}
		v[i] = int64(n)
	}
	return v[0]*3600000 + v[1]*60000 + v[2]*1000 + v[3], nil
}
