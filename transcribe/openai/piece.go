package openai

import (
	"os"

	"macbatch/transcribe"
	"macbatch/transcribe/sound"
)

// clip is a stretch of a WAV file, as its profile says.
type clip struct {
	file    *os.File
	profile sound.Profile
}

// part is what one request answers for, of the sound [StartMS, endMS).
type part struct {
	transcribe.Part
	endMS int64
}

const (
	leadMS    = 1000 // sound given beyond a cut in a pause
	overlapMS = 8000 // and beyond one in running sound
)

// split divides [0, totalMS) into parts whose sound, with what they share at the
// cuts, is at most limitMS long: at the longest pause near where parts of equal
// length would end, else there.
func split(utterances []sound.Span, totalMS, limitMS int64) []part {
	var out []part
	var from, start int64
	for totalMS-start > limitMS {
		net := limitMS - 2*overlapMS // what a part surely gets ahead by
		n := (totalMS - from + net - 1) / net
		ideal := from + (totalMS-from)/n
		to, beyond := ideal, int64(overlapMS)
		longest := int64(0)
		for i := 1; i < len(utterances); i++ {
			pause := utterances[i].FromMS - utterances[i-1].ToMS
			at := utterances[i-1].ToMS + pause/2
			if pause > longest && at >= ideal-net/4 && at <= min(ideal+net/4, start+limitMS-leadMS, totalMS-1) {
				to, beyond, longest = at, leadMS, pause
			}
		}
		end := min(to+beyond, totalMS)
		out = append(out, part{transcribe.Part{StartMS: start, FromMS: from, ToMS: to}, end})
		from, start = to, max(to-beyond, 0)
	}
	return append(out, part{transcribe.Part{StartMS: start, FromMS: from, ToMS: totalMS}, totalMS})
}

// within are the utterances of [fromMS, toMS), from its beginning.
func within(utterances []sound.Span, fromMS, toMS int64) []sound.Span {
	var out []sound.Span
	for _, u := range utterances {
		u.FromMS, u.ToMS = max(u.FromMS, fromMS)-fromMS, min(u.ToMS, toMS)-fromMS
		if u.FromMS < u.ToMS {
			out = append(out, u)
		}
	}
	return out
}
