package transcode

import "slices"

// Chunk is one sound file and its place in the film.
type Chunk struct {
	Index      int    `json:"index"`
	File       string `json:"-"`      // path of the FLAC file, on the machine that made it
	Digest     string `json:"digest"` // SHA-256 of the file, hexadecimal
	Bytes      int64  `json:"bytes"`
	StartMS    int64  `json:"start_ms"`    // where its sound begins
	DurationMS int64  `json:"duration_ms"` // of its sound
	FromMS     int64  `json:"from_ms"`     // the stretch it answers for; these tile the film
	ToMS       int64  `json:"to_ms"`
	Forced     bool   `json:"forced,omitempty"` // its end was cut where there was no pause
}

// DefaultChunkMS is how long chunks are when nothing else is asked for.
const DefaultChunkMS = 10 * 60 * 1000

const (
	searchMS = 60_000 // a cut may lie so far from where it would be best
	pauseMS  = 300    // the shortest pause that is cut at
	leadMS   = 1_000  // sound beyond a cut at a pause
	overlap  = 8_000  // sound beyond a cut where there is no pause
	longMS   = 1_500  // a longer pause is no better than one of this length
)

// cut is a place between two chunks.
type cut struct {
	at     int64
	forced bool
}

// plan divides total ms of sound into chunks of about length ms, given the
// energy of its frames.
func plan(levels []int8, total, length int64) []Chunk {
	if length <= 0 {
		length = DefaultChunkMS
	}
	var cuts []cut
	if total > length+length/2 {
		n := (total + length/2) / length
		for i := int64(1); i < n; i++ {
			cuts = append(cuts, findCut(levels, total*i/n, min(searchMS, length/3)))
		}
	}
	chunks := make([]Chunk, len(cuts)+1)
	from := cut{}
	for i := range chunks {
		to := cut{at: total}
		if i < len(cuts) {
			to = cuts[i]
		}
		start := max(0, from.at-beyond(from))
		end := min(total, to.at+beyond(to))
		chunks[i] = Chunk{
			Index: i, StartMS: start, DurationMS: end - start, FromMS: from.at, ToMS: to.at, Forced: to.forced,
		}
		from = to
	}
	return chunks
}

func beyond(c cut) int64 {
	if c.forced {
		return overlap
	}
	return leadMS
}

// findCut looks within reach ms of where a cut would be best for the longest
// pause, a nearer one before one that is little longer. Where nobody pauses it
// takes the quietest moment.
func findCut(levels []int8, best, reach int64) cut {
	from, to := max(0, (best-reach)/frameMS), min(int64(len(levels)), (best+reach)/frameMS)
	window := levels[from:to]
	limit := threshold(window)
	target := best/frameMS - from
	var found cut
	var score float64
	for i := int64(0); i < int64(len(window)); {
		if window[i] > limit {
			i++
			continue
		}
		end := i
		for end < int64(len(window)) && window[end] <= limit {
			end++
		}
		// A long pause reaches beyond the window or holds the best place itself.
		at := min(max(target, i+pauseMS/2/frameMS), max(end-pauseMS/2/frameMS, i))
		if n := end - i; n*frameMS >= pauseMS {
			if n*frameMS < longMS {
				at = (i + end) / 2
			}
			s := float64(min(n*frameMS, longMS))/longMS - 0.5*float64(abs(at-target))/float64(max(1, reach/frameMS))
			if found.at == 0 || s > score {
				found, score = cut{at: (from + at) * frameMS}, s
			}
		}
		i = end
	}
	if found.at > 0 {
		return found
	}
	return cut{at: (from + quietest(window, target)) * frameMS, forced: true}
}

// threshold is the energy below which a frame is a pause: a little above the
// quietest tenth, but well below the loud parts.
func threshold(window []int8) int8 {
	if len(window) == 0 {
		return silenceFloor
	}
	s := slices.Clone(window)
	slices.Sort(s)
	quiet, loud := int(s[len(s)/10]), int(s[len(s)*9/10])
	if loud-quiet < 6 { // steady noise, or silence throughout
		return silenceFloor
	}
	return int8(max(silenceFloor, min(quiet+max(4, (loud-quiet)/4), loud-6)))
}

// quietest is the middle of the 100 ms of least energy, nearest to target.
func quietest(window []int8, target int64) int64 {
	const span = 10
	best, least := target, 1<<30
	for i := int64(0); i+span <= int64(len(window)); i++ {
		sum := 0
		for _, l := range window[i : i+span] {
			sum += int(l)
		}
		at := i + span/2
		if sum < least || sum == least && abs(at-target) < abs(best-target) {
			best, least = at, sum
		}
	}
	return best
}

func abs(n int64) int64 { return max(n, -n) }
