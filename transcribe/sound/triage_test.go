package sound

import (
	"math"
	"slices"
	"testing"

	"macbatch/transcribe"
)

// talk alternates between a vowel and a hiss, with pauses.
func talk(seconds float64) []int16 {
	return samples(seconds, func(t float64) float64 {
		switch {
		case math.Mod(t, 3) > 2.5:
			return 0
		case math.Mod(t, .2) > .12:
			return 900 * math.Sin(2*math.Pi*3100*t)
		}
		return 7000 * math.Sin(2*math.Pi*150*t)
	})
}

// TestGaps: speech without words is doubted, silence and a melody without are not.
func TestGaps(t *testing.T) {
	said := func(times ...int64) (segs []transcribe.Segment) {
		for i := 0; i < len(times); i += 2 {
			segs = append(segs, transcribe.Segment{StartMS: times[i], EndMS: times[i+1], Text: "a few words"})
		}
		return segs
	}
	silence := make([]int16, 40*Rate)
	for _, c := range []struct {
		name  string
		sound [][]int16
		segs  []transcribe.Segment
		want  [][2]int64
	}{
		{"words all along", [][]int16{talk(60)}, said(0, 10000, 15000, 25000, 30000, 50000), nil},
		{"in the middle", [][]int16{talk(60)}, said(0, 5000, 50000, 60000), [][2]int64{{5000, 50000}}},
		{"at the end", [][]int16{talk(60)}, said(0, 5000), [][2]int64{{5000, 60000}}},
		{"silence", [][]int16{talk(10), silence, talk(10)}, said(0, 9000, 51000, 59000), nil},
		{"a melody", [][]int16{talk(10), melody(40), talk(10)}, said(0, 9000, 51000, 59000), nil},
		{"within one segment", [][]int16{talk(60)}, said(0, 59000), [][2]int64{{0, 59000}}},
	} {
		p := open(t, c.sound...)
		tr := transcribe.Transcript{DurationMS: p.DurationMS, Segments: c.segs}
		p.Triage(&tr, p.Utterances())
		var got [][2]int64
		for _, d := range tr.Doubts {
			got = append(got, [2]int64{d.FromMS, d.ToMS})
		}
		if !slices.Equal(got, c.want) || tr.Validate(p.DurationMS) != nil {
			t.Errorf("%s: %+v, want %v", c.name, tr.Doubts, c.want)
		}
	}
}

func TestPart(t *testing.T) {
	p := open(t, make([]int16, 2*Rate), talk(10), make([]int16, 2*Rate))
	q := p.Part(2000, 12_000)
	if q.DurationMS != 10_000 || q.Offset != p.Offset+2*2*Rate || !q.Speech() || p.Part(0, 2000).Speech() || p.Part(-5, 99_000).DurationMS != p.DurationMS {
		t.Fatalf("Part = %d ms at byte %d", q.DurationMS, q.Offset)
	}
}
