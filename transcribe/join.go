package transcribe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Part is the transcript of one chunk of a film. The chunk's sound begins at
// StartMS of the film and may reach into its neighbours; it answers for
// [FromMS, ToMS) alone.
type Part struct {
	StartMS    int64
	FromMS     int64
	ToMS       int64
	Transcript Transcript
}

// Join makes one transcript on the film's time line out of parts in order,
// whose intervals must follow each other without gap or overlap.
//
// A word belongs to the side of a cut on which its middle lies. Two
// recognitions put the same word some 10–200 ms apart, so the hand-over is made
// at a word near the cut that both heard, when there is one: up to it the
// left side is taken, after it the right.
func Join(parts []Part) (Transcript, error) {
	if len(parts) == 0 {
		return Transcript{}, errors.New("join transcripts: no parts")
	}
	for i, p := range parts {
		if p.FromMS < 0 || p.ToMS < p.FromMS || (i > 0 && p.FromMS != parts[i-1].ToMS) {
			return Transcript{}, fmt.Errorf("join transcripts: part %d answers for %d to %d ms, which does not follow on", i, p.FromMS, p.ToMS)
		}
	}
	all := unitsOf(parts, 0)
	for i := 1; i < len(parts); i++ {
		all = handOver(all, unitsOf(parts, i), parts[i].FromMS)
	}
	out := head(parts)
	out.Segments = regroup(parts, all)
	settle(out.Segments, out.DurationMS)
	if len(out.Segments) == 0 {
		out.Segments = []Segment{}
		out.Flag(NoSpeech)
	}
	return out, nil
}

// head is the joined transcript without its segments.
func head(parts []Part) Transcript {
	first := parts[0].Transcript
	out := Transcript{
		DurationMS: parts[len(parts)-1].ToMS, Params: first.Params,
		Engine: first.Engine, EngineVersion: first.EngineVersion, Model: first.Model, ModelDigest: first.ModelDigest,
	}
	said := map[string]int{} // bytes of text by language
	for _, p := range parts {
		t := p.Transcript
		for _, f := range t.Flags {
			if f != NoSpeech && f != Suspicious {
				out.Flag(f)
			}
		}
		for _, d := range t.Doubts {
			d.FromMS, d.ToMS = max(d.FromMS+p.StartMS, p.FromMS), min(d.ToMS+p.StartMS, p.ToMS)
			if d.FromMS <= d.ToMS {
				out.Doubt(d)
			}
		}
		if t.Engine != out.Engine || t.EngineVersion != out.EngineVersion || t.Model != out.Model || t.ModelDigest != out.ModelDigest {
			out.Flag(MixedEngines)
		}
		for _, s := range t.Segments {
			said[t.Language] += len(s.Text)
		}
	}
	out.Language = first.Language
	for _, p := range parts {
		if said[p.Transcript.Language] > said[out.Language] {
			out.Language = p.Transcript.Language
		}
	}
	return out
}

// unit is a word on the film's time line and where it came from. For a segment
// without word times its words are laid out evenly: good enough to find them
// again on the other side of a cut.
type unit struct {
	Word
	key       string // what is compared
	part, seg int
	guessed   bool
}

func (u unit) mid() int64 { return (u.StartMS + u.EndMS) / 2 }

func unitsOf(parts []Part, part int) []unit {
	var us []unit
	p := parts[part]
	for i, s := range p.Transcript.Segments {
		guessed := len(s.Words) == 0
		for _, w := range s.Spoken() {
			w.StartMS += p.StartMS
			w.EndMS += p.StartMS
			us = append(us, unit{Word: w, key: keyOf(w.Text), part: part, seg: i, guessed: guessed})
		}
	}
	return us
}

// keyOf is what of a word's text counts as the word: not its case, not its punctuation.
func keyOf(text string) string {
	if k := strings.Trim(text, ".,;:!?…\"'“”‘’()[]{}-–—¿¡。、！？「」"); k != "" {
		text = k
	}
	return strings.ToLower(text)
}

// regroup builds segments out of units. A segment that lost words at a border
// is put together again with its continuation on the other side.
func regroup(parts []Part, us []unit) []Segment {
	var out []Segment
	var cut bool // whether the last segment of out lost words at its end
	for len(us) > 0 {
		n := 1
		for n < len(us) && us[n].part == us[0].part && us[n].seg == us[0].seg {
			n++
		}
		src := parts[us[0].part].Transcript.Segments[us[0].seg]
		shift := parts[us[0].part].StartMS
		seg := Segment{StartMS: us[0].StartMS, EndMS: us[n-1].EndMS, Confidence: src.Confidence}
		for _, u := range us[:n] {
			seg.Words = append(seg.Words, u.Word)
		}
		whole := len(src.Words)
		if us[0].guessed {
			whole = len(strings.Fields(src.Text))
		}
		if n == whole {
			seg.Text, seg.StartMS, seg.EndMS = src.Text, src.StartMS+shift, src.EndMS+shift
		} else {
			seg.Text = textOf(seg.Words)
		}
		if us[0].guessed {
			seg.Words = nil
		}
		k := len(out) - 1
		if k >= 0 && (cut || n < whole) && continues(out[k], seg) && us[0].part > 0 {
			out[k].EndMS = max(seg.EndMS, out[k].StartMS)
			out[k].Text += " " + seg.Text
			out[k].Words = append(out[k].Words, seg.Words...)
			out[k].Confidence = min(out[k].Confidence, seg.Confidence)
		} else {
			out = append(out, seg)
		}
		cut = n < whole
		us = us[n:]
	}
	return out
}

const (
	joinGapMS = 700   // a longer pause ends a segment even at a border
	joinMaxMS = 30000 // and so does a length that no reader would want
)

func continues(a, b Segment) bool {
	return b.StartMS-a.EndMS <= joinGapMS && b.EndMS-a.StartMS <= joinMaxMS &&
		(len(a.Words) > 0) == (len(b.Words) > 0)
}

const (
	lookMS   = 3000 // around a cut the two sides are compared
	reachMS  = 1500 // and within this handed over
	nearMS   = 500  // two hearings of one word lie closer than this
	guessMS  = 1500 // … when a time is only guessed
	weightMS = 400  // a further word of agreement is worth this much distance from the cut
)

// handOver follows left, which it may overwrite, with right across the cut.
func handOver(left, right []unit, cut int64) []unit {
	// Only what lies near the cut is compared; times rise well enough for a search.
	l0, _ := slices.BinarySearchFunc(left, cut-lookMS, byMid)
	r1, _ := slices.BinarySearchFunc(right, cut+lookMS, byMid)
	a, b := left[l0:], right[:r1]

	pairs := align(a, b)
	best, bestScore := -1, int64(0)
	for i, p := range pairs {
		away := max((a[p.i].mid()+b[p.j].mid())/2-cut, cut-(a[p.i].mid()+b[p.j].mid())/2)
		if away > reachMS {
			continue
		}
		if score := weightMS*int64(agreement(pairs, i)) - away; best < 0 || score > bestScore {
			best, bestScore = i, score
		}
	}
	if best >= 0 {
		i, j := pairs[best].i, pairs[best].j
		word := a[i]
		if word.mid() >= cut {
			word = b[j]
		}
		return append(append(left[:l0+i], word), right[j+1:]...)
	}
	return middles(left, right, cut)
}

func byMid(u unit, ms int64) int { return cmp.Compare(u.mid(), ms) }

// middles hands over by the middles alone, and sees to the word at the cut that
// the two sides heard differently and placed on different sides of it.
func middles(left, right []unit, cut int64) []unit {
	i := len(left)
	for i > 0 && left[i-1].mid() >= cut {
		i--
	}
	j := 0
	for j < len(right) && right[j].mid() < cut {
		j++
	}
	switch {
	case i > 0 && j < len(right) && sameSpan(left[i-1], right[j]): // both would be kept
		if left[i-1].Confidence > right[j].Confidence {
			j++
		} else {
			i--
		}
	case i < len(left) && j > 0 && sameSpan(left[i], right[j-1]): // both would be lost
		if left[i].Confidence > right[j-1].Confidence {
			i++
		} else {
			j--
		}
	}
	return append(left[:i], right[j:]...)
}

// sameSpan reports whether a and b share more than half of the shorter one's time.
func sameSpan(a, b unit) bool {
	shared := min(a.EndMS, b.EndMS) - max(a.StartMS, b.StartMS)
	return shared > 0 && 2*shared > min(a.EndMS-a.StartMS, b.EndMS-b.StartMS)
}

type pair struct{ i, j int }

// align pairs equal words of a and b that lie near in time, in order, so that
// the number of pairs and then their nearness is greatest.
func align(a, b []unit) []pair {
	w := len(b) + 1
	best := make([]int64, (len(a)+1)*w) // best[i*w+j]: value of a[i:] against b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			v := max(best[(i+1)*w+j], best[i*w+j+1])
			if worth := match(a[i], b[j]); worth > 0 {
				v = max(v, best[(i+1)*w+j+1]+worth)
			}
			best[i*w+j] = v
		}
	}
	var pairs []pair
	for i, j := 0, 0; i < len(a) && j < len(b); {
		worth := match(a[i], b[j])
		switch {
		case worth > 0 && best[i*w+j] == best[(i+1)*w+j+1]+worth:
			pairs = append(pairs, pair{i, j})
			i, j = i+1, j+1
		case best[i*w+j] == best[(i+1)*w+j]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// match is what it is worth to take a and b for the same word; 0 when they can't be.
func match(a, b unit) int64 {
	tol := int64(nearMS)
	if a.guessed || b.guessed {
		tol = guessMS
	}
	d := max(a.mid()-b.mid(), b.mid()-a.mid())
	if d >= tol || a.key != b.key {
		return 0
	}
	return 2*tol - d
}

// agreement counts the pairs around pairs[k] without a word of either side
// between them, up to four on each side.
func agreement(pairs []pair, k int) int {
	n := 0
	for i := k; i > 0 && k-i < 4 && pairs[i-1].i == pairs[i].i-1 && pairs[i-1].j == pairs[i].j-1; i-- {
		n++
	}
	for i := k; i+1 < len(pairs) && i-k < 4 && pairs[i+1].i == pairs[i].i+1 && pairs[i+1].j == pairs[i].j+1; i++ {
		n++
	}
	return n
}
