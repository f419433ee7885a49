package transcode

import "math/bits"

const (
	frameMS      = 10
	frameSamples = sampleRate / 1000 * frameMS

	pauseFrames = 300 / frameMS
	ampleFrames = 2000 / frameMS // a longer pause is no better place than one of this length
	smoothing   = 100 / frameMS  // frames over which a forced cut seeks the quietest point
	leadMS      = 1000           // sound given beyond a cut in a pause
	overlapMS   = 8000           // and beyond one in running sound
	maxReachMS  = 60_000         // how far a cut may be from its ideal place
)

// A level is a frame's loudness: the logarithm of its mean square, eight steps to
// each doubling, so 0.38 dB a step; 0 is digital silence, 241 full scale. It
// is computed in integers, for all machines to cut alike.
type level uint8

const (
	decibels10       = 27 // in steps
	silence    level = 54 // -70 dB of full scale
	quiet      level = 81 // -60 dB: a pause however little is louder
)

func levelOf(meanSquare uint64) level {
	if meanSquare == 0 {
		return 0
	}
	n := bits.Len64(meanSquare) - 1
	return level(8*n + int(meanSquare<<3>>n&7) + 1)
}

// span is what one chunk answers for, in milliseconds; forced says that its end
// is in running sound.
type span struct {
	from, to int64
	forced   bool
}

// cut divides [0, totalMS) at pauses into spans of about equal length, none much
// longer than chunkMS.
func cut(levels []level, totalMS, chunkMS int64) []span {
	if totalMS <= chunkMS+chunkMS/2 {
		return []span{{from: 0, to: totalMS}}
	}
	n := (totalMS + chunkMS - 1) / chunkMS
	reach := min(maxReachMS, chunkMS/3)
	spans := make([]span, 0, n)
	from := int64(0)
	for i := int64(1); i < n; i++ {
		ideal := totalMS * i / n
		first := (ideal - reach) / frameMS
		window := levels[first:min((ideal+reach)/frameMS, int64(len(levels)))]
		at, forced := cutPoint(window, int((ideal/frameMS)-first))
		to := (first + int64(at)) * frameMS
		spans = append(spans, span{from: from, to: to, forced: forced})
		from = to
	}
	return append(spans, span{from: from, to: totalMS})
}

// cutPoint returns the frame of window to cut before: the middle of its longest
// pause, of several long ones the quietest; without any, the quietest point.
func cutPoint(window []level, ideal int) (at int, forced bool) {
	limit := pauseLimit(window)
	var best struct{ length, loudness, at int }
	sum, run := 0, 0
	for i := 0; i <= len(window); i++ {
		if i < len(window) && window[i] <= limit {
			run, sum = run+1, sum+int(window[i])
			continue
		}
		if run >= pauseFrames {
			length, loudness, middle := min(run, ampleFrames), sum/run, i-run/2
			if length > best.length || length == best.length && (loudness < best.loudness ||
				loudness == best.loudness && distance(middle, ideal) < distance(best.at, ideal)) {
				best.length, best.loudness, best.at = length, loudness, middle
			}
		}
		sum, run = 0, 0
	}
	if best.length > 0 {
		return best.at, false
	}
	return quietest(window, smoothing, ideal).at + smoothing/2, true
}

// pauseLimit is the level up to which a frame of window belongs to a pause. It
// lies a quarter of the way from the quietest 300 ms to the loud parts; where
// they are less than 10 dB apart there is only what is quiet by any measure.
func pauseLimit(window []level) level {
	var count [256]int
	for _, l := range window {
		count[l]++
	}
	loud, above := level(255), len(window)/10
	for above >= count[loud] && loud > 0 {
		above -= count[loud]
		loud--
	}
	floor := level(quietest(window, pauseFrames, 0).sum / pauseFrames)
	if int(loud)-int(floor) < decibels10 {
		return quiet
	}
	return max(quiet, floor+(loud-floor)/4)
}

type stretch struct{ at, sum int }

// quietest finds the n frames of window with the least sum of levels, of equal
// ones those nearest to ideal.
func quietest(window []level, n, ideal int) stretch {
	best, sum := stretch{sum: 1 << 30}, 0
	for i, l := range window {
		sum += int(l)
		if i < n-1 {
			continue
		}
		at := i - n + 1
		if sum < best.sum || sum == best.sum && distance(at+n/2, ideal) < distance(best.at+n/2, ideal) {
			best = stretch{at, sum}
		}
		sum -= int(window[at])
	}
	return best
}

func distance(a, b int) int { return max(a-b, b-a) }

// withSound turns spans into chunks and gives each the sound around it.
func withSound(spans []span, totalMS int64) []Chunk {
	chunks := make([]Chunk, len(spans))
	before := int64(0)
	for i, s := range spans {
		after := int64(leadMS)
		if s.forced {
			after = overlapMS
		}
		start, end := max(s.from-before, 0), min(s.to+after, totalMS)
		chunks[i] = Chunk{Index: i, StartMS: start, DurationMS: end - start, FromMS: s.from, ToMS: s.to, Forced: s.forced}
		before = after
	}
	return chunks
}
