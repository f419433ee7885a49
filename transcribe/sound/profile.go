package sound

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"macbatch/transcribe"
)

// Profile is what a sound looks like, frame by frame.
type Profile struct {
	DurationMS int64
	Offset     int64 // bytes before the first sample in its file

	level   []float32 // dB of each frame
	crosses []uint8   // sign changes in each frame: few in a vowel, many in an s
}

// Part is what the stretch [fromMS, toMS) of the sound looks like.
func (p Profile) Part(fromMS, toMS int64) Profile {
	toMS = min(toMS, p.DurationMS)
	fromMS = min(max(fromMS, 0), toMS)
	from, to := min(int(fromMS/frameMS), len(p.level)), min(int(toMS/frameMS), len(p.level))
	return Profile{
		DurationMS: toMS - fromMS, Offset: p.Offset + fromMS*Rate/1000*2,
		level: p.level[from:to], crosses: p.crosses[from:to],
	}
}

// Span is a stretch of sound in ms.
type Span struct{ FromMS, ToMS int64 }

func scan(r io.Reader) (Profile, error) {
	var p Profile
	br := bufio.NewReaderSize(r, 1<<16)
	var frame [frameBytes]byte
	var samples int64
	last := int16(0)
	for {
		n, err := io.ReadFull(br, frame[:])
		var sum float64
		crosses := 0
		for i := 0; i+1 < n; i += 2 {
			v := int16(binary.LittleEndian.Uint16(frame[i:]))
			sum += float64(v) * float64(v)
			if (v < 0) != (last < 0) {
				crosses++
			}
			last = v
		}
		samples += int64(n / 2)
		if n == frameBytes {
			p.level = append(p.level, float32(10*math.Log10(max(sum/(frameBytes/2), 1))))
			p.crosses = append(p.crosses, uint8(crosses))
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			p.DurationMS = samples * 1000 / Rate
			return p, nil
		}
		if err != nil {
			return p, err
		}
	}
}

const (
	deadDB  = 20  // below this is digital silence or the hiss of a good recorder
	riseDB  = 8   // a voice rises at least so far over its background
	riseOf  = .25 // … or by this share of the distance from background to voice
	minimum = 8   // frames; shorter than that is a click
)

// active tells for each frame whether it is louder than the background around
// it, judged over eight seconds because backgrounds change.
func (p Profile) active() []bool {
	const block, before, after = 100, 300, 500
	on := make([]bool, len(p.level))
	var around []float32
	for b := 0; b < len(p.level); b += block {
		around = append(around[:0], p.level[max(0, b-before):min(len(p.level), b+after)]...)
		slices.Sort(around)
		lo, hi := around[len(around)/10], around[len(around)*95/100]
		over := max(lo+max(riseDB, riseOf*(hi-lo)), deadDB)
		for i := b; i < min(b+block, len(on)); i++ {
			on[i] = p.level[i] > over
		}
	}
	return on
}

// DropUnheard takes out of t what an engine made up where nobody can be speaking.
func DropUnheard(t *transcribe.Transcript, utterances []Span) {
	kept := t.Segments[:0]
	for _, s := range t.Segments {
		if Quiet(utterances, min(s.StartMS, s.EndMS), max(s.StartMS, s.EndMS)) {
			t.Flag(transcribe.Unheard)
		} else {
			kept = append(kept, s)
		}
	}
	t.Segments = kept
}

// Quiet reports whether no utterance reaches into [fromMS, toMS] or within a
// second of it.
func Quiet(utterances []Span, fromMS, toMS int64) bool {
	const slack = 1000
	return !slices.ContainsFunc(utterances, func(u Span) bool { return u.FromMS < toMS+slack && u.ToMS > fromMS-slack })
}

// run is a half-open range of frames.
type run struct{ from, to int }

// voices are the runs of active frames with no more than pause frames between.
func (p Profile) voices(pause int) []run {
	var out []run
	for i, on := range p.active() {
		switch k := len(out) - 1; {
		case !on:
		case k >= 0 && i-out[k].to < pause:
			out[k].to = i + 1
		default:
			out = append(out, run{i, i + 1})
		}
	}
	return slices.DeleteFunc(out, func(r run) bool { return r.to-r.from < minimum })
}

// Utterances cuts the sound at pauses into what may have been said in one go,
// with some of the silence around it. Silence and plain tones are left out;
// without a pause the cut is at the quietest place. None means that nobody
// speaks; some does not mean that somebody does.
func (p Profile) Utterances() []Span {
	const (
		pause = 30   // frames of quiet that end an utterance
		pad   = 15   // frames kept of the quiet on each side
		most  = 2500 // frames in an utterance
	)
	var runs []run
	all := p.voices(pause)
	if p.tonal(all...) {
		return nil
	}
	for _, r := range all {
		if !p.tonal(r) {
			runs = p.split(runs, r, most)
		}
	}
	out := make([]Span, len(runs))
	for i, r := range runs {
		from, to := max(0, r.from-pad), min(len(p.level), r.to+pad)
		if i > 0 {
			from = max(from, (runs[i-1].to+r.from)/2)
		}
		if i+1 < len(runs) {
			to = min(to, (r.to+runs[i+1].from)/2)
		}
		out[i] = Span{int64(from) * frameMS, int64(to) * frameMS}
	}
	return out
}

// spread returns the standard deviations of level and sign changes over the runs.
func (p Profile) spread(runs ...run) (level, crosses float64) {
	var n, l, ll, c, cc float64
	for _, r := range runs {
		for i := r.from; i < r.to; i++ {
			x, y := float64(p.level[i]), float64(p.crosses[i])
			n, l, ll, c, cc = n+1, l+x, ll+x*x, c+y, cc+y*y
		}
	}
	if n == 0 {
		return 0, 0
	}
	return math.Sqrt(max(0, ll/n-l*l/n/n)), math.Sqrt(max(0, cc/n-c*c/n/n))
}

// tonal reports whether runs are certainly no speech: vowels and hisses
// alternate in speech (within any three seconds of recordings from 1961 to
// today the sign changes spread by 4.9 to 24), not in a melody (2).
func (p Profile) tonal(runs ...run) bool {
	_, crosses := p.spread(runs...)
	return frames(runs) >= 300 && crosses < 3
}

func frames(runs []run) (n int) {
	for _, r := range runs {
		n += r.to - r.from
	}
	return n
}

// Speech reports whether the sound certainly holds speech: three seconds that
// change in loudness and in pitch as a voice does. An empty transcript of it is
// a failure of the engine.
func (p Profile) Speech() bool {
	runs := slices.DeleteFunc(p.voices(minimum), func(r run) bool { return p.tonal(r) })
	level, crosses := p.spread(runs...)
	return frames(runs) >= 300 && level >= 5 && crosses >= 7
}

func (p Profile) split(out []run, r run, most int) []run {
	if r.to-r.from <= most {
		return append(out, r)
	}
	third := (r.to - r.from) / 3
	at := p.quietest(r.from+third, r.to-third)
	return p.split(p.split(out, run{r.from, at}, most), run{at, r.to}, most)
}

// quietest is the middle of the quietest 160 ms within [from, to).
func (p Profile) quietest(from, to int) int {
	const half = 8
	var sum float32
	for _, l := range p.level[from : from+2*half] {
		sum += l
	}
	best, at := sum, from+half
	for i := from + 2*half; i < to; i++ {
		sum += p.level[i] - p.level[i-2*half]
		if sum < best {
			best, at = sum, i-half+1
		}
	}
	return at
}
