package subtitle

import (
	"strings"
	"unicode/utf8"

	"macbatch/transcribe"
)

// Cue is what is shown at one time; Text has one or two lines.
type Cue struct {
	StartMS, EndMS int64
	Text           string
}

const (
	lineRunes  = 42
	longestMS  = 7000
	shortestMS = 800  // where there is room
	pauseMS    = 1000 // ends a cue
	breathMS   = 400  // ends one that is worth showing, at the end of a segment
	worthRunes = 20
	readRate   = 17 // characters that most people read in a second
)

// piece is a word, or a part of one that no line could hold.
type piece struct {
	transcribe.Word
	glued bool // belongs to the piece before without a space
	opens bool // begins a segment
}

// Cues divides what was said into cues.
func Cues(t transcribe.Transcript) []Cue {
	t = sane(t)
	var cues []Cue
	var cur []piece
	flush := func() {
		if len(cur) > 0 {
			cues = append(cues, Cue{cur[0].StartMS, cur[len(cur)-1].EndMS, strings.Join(balance(cur), "\n")})
		}
		cur = nil
	}
	for _, p := range pieces(t) {
		if len(cur) > 0 && ends(cur, p) {
			flush()
		}
		cur = append(cur, p)
	}
	flush()
	settle(cues, t.DurationMS)
	return cues
}

// sane is t by the rules of its package.
func sane(t transcribe.Transcript) transcribe.Transcript {
	if t.DurationMS <= 0 {
		for _, s := range t.Segments {
			t.DurationMS = max(t.DurationMS, s.EndMS, s.StartMS)
			for _, w := range s.Words {
				t.DurationMS = max(t.DurationMS, w.EndMS, w.StartMS)
			}
		}
	}
	if len(t.Segments) == 0 || t.Validate(t.DurationMS) == nil {
		return t
	}
	return transcribe.Repair(t, t.DurationMS)
}

func pieces(t transcribe.Transcript) []piece {
	var out []piece
	for _, s := range t.Segments {
		opens := true
		for _, w := range s.Spoken() {
			// A word's text may hold spaces and line ends of its own.
			for _, f := range strings.Fields(plain(w.Text)) {
				out = append(out, cutLong(w, f, opens)...)
				opens = false
			}
		}
	}
	return out
}

// cutLong is the word f with the times of w, in pieces that fit a line: scripts
// without spaces come as one word.
func cutLong(w transcribe.Word, f string, opens bool) []piece {
	n := utf8.RuneCountInString(f)
	if n <= lineRunes {
		w.Text = f
		return []piece{{Word: w, opens: opens}}
	}
	var out []piece
	runes := []rune(f)
	for i := 0; i < n; i += lineRunes {
		j := min(i+lineRunes, n)
		d := w.EndMS - w.StartMS
		out = append(out, piece{glued: i > 0, opens: opens && i == 0, Word: transcribe.Word{
			StartMS: w.StartMS + d*int64(i)/int64(n), EndMS: w.StartMS + d*int64(j)/int64(n), Text: string(runes[i:j])}})
	}
	return out
}

// ends reports whether the cue of cur is over before next.
func ends(cur []piece, next piece) bool {
	last := cur[len(cur)-1]
	gap := next.StartMS - last.EndMS
	if gap > pauseMS || next.EndMS-cur[0].StartMS > longestMS {
		return true
	}
	if _, fits := wrap(append(cur[:len(cur):len(cur)], next)); !fits {
		return true
	}
	runes := 0
	for _, p := range cur {
		runes += utf8.RuneCountInString(p.Text) + 1
	}
	if runes < worthRunes {
		return false
	}
	return strings.HasSuffix(last.Text, ".") || strings.HasSuffix(last.Text, "?") || strings.HasSuffix(last.Text, "!") ||
		(next.opens && gap > breathMS)
}

// wrap sets ps in lines; it reports whether two were enough.
func wrap(ps []piece) (lines []string, fits bool) {
	line, length := "", 0
	for _, p := range ps {
		n := utf8.RuneCountInString(p.Text)
		space := ""
		if line != "" && !p.glued {
			space = " "
		}
		if line != "" && length+len(space)+n > lineRunes {
			lines, line, length, space = append(lines, line), "", 0, ""
		}
		line, length = line+space+p.Text, length+len(space)+n
	}
	lines = append(lines, line)
	return lines, len(lines) <= 2
}

// balance sets ps, which fit in two lines, in lines of about equal length, the
// first ending with a clause where one does nearby.
func balance(ps []piece) []string {
	lines, _ := wrap(ps)
	if len(lines) < 2 {
		return lines
	}
	best := lineRunes + 1
	for i := 1; i < len(ps); i++ {
		a, _ := wrap(ps[:i])
		b, _ := wrap(ps[i:])
		if len(a) > 1 || len(b) > 1 || ps[i].glued {
			continue
		}
		cost := utf8.RuneCountInString(a[0]) - utf8.RuneCountInString(b[0])
		if cost = max(cost, -cost); strings.ContainsAny(a[0][len(a[0])-1:], ".,;:!?") {
			cost -= clauseRunes
		}
		if cost < best {
			best, lines = cost, []string{a[0], b[0]}
		}
	}
	return lines
}

// clauseRunes is by how much the lines may differ more to end with a clause.
const clauseRunes = 14

// settle gives each cue a time to be read in, and none another's.
func settle(cues []Cue, durationMS int64) {
	var at int64
	for i := range cues {
		c := &cues[i]
		c.StartMS = max(c.StartMS, at)
		room := max(durationMS, c.StartMS)
		if i+1 < len(cues) {
			room = max(cues[i+1].StartMS, c.StartMS)
		}
		reading := int64(utf8.RuneCountInString(c.Text)) * 1000 / readRate
		c.EndMS = min(max(c.EndMS, c.StartMS+max(reading, shortestMS)), c.StartMS+longestMS, room)
		c.EndMS = max(c.EndMS, c.StartMS+1) // a cue of no length is not shown, or refused
		at = c.EndMS
	}
}
