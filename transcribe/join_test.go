package transcribe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// film makes n words of at least 120 ms with pauses here and there; vocabulary
// words means that repeats are common when it is small.
func film(r *rand.Rand, n, vocabulary int) []Word {
	var ws []Word
	at := int64(200)
	for range n {
		d := 120 + r.Int64N(500)
		ws = append(ws, Word{StartMS: at, EndMS: at + d, Text: fmt.Sprint("w", r.IntN(vocabulary)), Confidence: .5})
		at += d
		if r.IntN(9) == 0 {
			at += r.Int64N(2500)
		}
	}
	return ws
}

// hear is what an engine makes of the words of [from, to): each off by up to
// jitter, in segments of random length, times relative to from. A word cut
// through by the edge is heard when more than half of it is there.
func hear(r *rand.Rand, ws []Word, from, to, jitter int64, words bool) Transcript {
	var t Transcript
	var last int64
	for _, w := range ws {
		if mid := (w.StartMS + w.EndMS) / 2; mid < from || mid >= to {
			continue
		}
		shift := r.Int64N(2*jitter+1) - jitter
		w.StartMS = max(last, w.StartMS-from+shift)
		w.EndMS = max(w.StartMS+20, w.EndMS-from+shift)
		last = w.EndMS
		if k := len(t.Segments) - 1; k >= 0 && r.IntN(8) != 0 && w.StartMS-t.Segments[k].EndMS < 600 {
			t.Segments[k].Words = append(t.Segments[k].Words, w)
			t.Segments[k].Text += " " + w.Text
			t.Segments[k].EndMS = w.EndMS
		} else {
			t.Segments = append(t.Segments, Segment{StartMS: w.StartMS, EndMS: w.EndMS, Text: w.Text, Words: []Word{w}})
		}
	}
	if !words {
		for i := range t.Segments {
			t.Segments[i].Words = nil
		}
	}
	t.DurationMS = max(to-from, last)
	return t
}

// cutUp cuts ws at random places, in a pause with an overlap of 1 s on each
// side, elsewhere with one of 8 s.
func cutUp(r *rand.Rand, ws []Word, jitter int64, words bool) []Part {
	end := ws[len(ws)-1].EndMS + 1000
	var parts []Part
	var from, start int64
	for from < end {
		to := min(end, from+15000+r.Int64N(40000))
		overlap := int64(8000)
		for i := 1; i < len(ws); i++ {
			if gap := ws[i].StartMS - ws[i-1].EndMS; gap > 500 && ws[i].StartMS > max(from+2000, to-5000) && ws[i].StartMS < to {
				to, overlap = ws[i].StartMS-gap/2, 1000
				break
			}
		}
		parts = append(parts, Part{StartMS: start, FromMS: from, ToMS: to,
			Transcript: hear(r, ws, start, min(end, to+overlap), jitter, words)})
		start, from = max(0, to-overlap), to
	}
	return parts
}

func said(t Transcript) string {
	var s []string
	for _, seg := range t.Segments {
		s = append(s, strings.Fields(seg.Text)...)
	}
	return strings.Join(s, " ")
}

func TestJoinLosesAndDoublesNothing(t *testing.T) {
	films, borders := 0, 0
	for _, vocabulary := range []int{5000, 40, 6} {
		for seed := range uint64(150) {
			r := rand.New(rand.NewPCG(seed, uint64(vocabulary)))
			ws := film(r, 300, vocabulary)
			jitter := []int64{0, 10, 60, 100}[r.IntN(4)]
			parts := cutUp(r, ws, jitter, true)
			got, err := Join(parts)
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Validate(got.DurationMS); err != nil {
				t.Fatalf("vocabulary %d seed %d: Join: %v", vocabulary, seed, err)
			}
			if g, w := said(got), textOf(ws); g != w {
				t.Fatalf("vocabulary %d seed %d jitter %d: Join gave\n%s, want\n%s", vocabulary, seed, jitter, g, w)
			}
			var heard []Word
			for _, s := range got.Segments {
				if s.Text != textOf(s.Words) {
					t.Fatalf("seed %d: segment %q has the words %q", seed, s.Text, textOf(s.Words))
				}
				heard = append(heard, s.Words...)
			}
			for i, w := range heard {
				if d := w.StartMS - ws[i].StartMS; d > 2*jitter+50 || d < -2*jitter-50 {
					t.Fatalf("seed %d: word %d at %d ms, want %d", seed, i, w.StartMS, ws[i].StartMS)
				}
			}
			films, borders = films+1, borders+len(parts)-1
		}
	}
	t.Logf("%d films, %d borders", films, borders)
}

func TestJoinWithoutWordTimes(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		ws := film(r, 300, 100000)
		got, err := Join(cutUp(r, ws, 100, false))
		if err != nil {
			t.Fatal(err)
		}
		if g, w := said(got), textOf(ws); g != w {
			t.Fatalf("seed %d: Join gave\n%s, want\n%s", seed, g, w)
		}
		for _, s := range got.Segments {
			if len(s.Words) > 0 {
				t.Fatalf("seed %d: Join invented word times: %+v", seed, s)
			}
		}
	}
}

func seg(text string, times ...int64) Segment {
	s := Segment{Text: text, StartMS: times[0], EndMS: times[len(times)-1]}
	for i, f := range strings.Fields(text) {
		s.Words = append(s.Words, Word{StartMS: times[2*i], EndMS: times[2*i+1], Text: f, Confidence: .5})
	}
	return s
}

func TestJoinAtOneCut(t *testing.T) {
	for _, c := range []struct {
		name        string
		left, right Segment // both on the film's time line, the cut is at 10000
		want        string
	}{
		{"a word just before the cut for one and just after it for the other: kept once",
			seg("one two", 9000, 9400, 9800, 10250), seg("two three", 9700, 10200, 10500, 10900), "one two three"},
		{"… and lost by neither when it is the other way round",
			seg("one two", 9000, 9400, 9950, 10250), seg("two three", 9700, 10100, 10500, 10900), "one two three"},
		{"case and punctuation don't make another word",
			seg("One two,", 9000, 9400, 9950, 10250), seg("Two three.", 9700, 10100, 10500, 10900), "One Two three."},
		{"heard differently, on the wrong sides: one of them",
			seg("one to", 9000, 9400, 9900, 10250), seg("two three", 9700, 10100, 10500, 10900), "one two three"},
		{"heard differently, on the right sides: one of them",
			seg("one to", 9000, 9400, 9700, 10150), seg("two three", 9750, 10300, 10500, 10900), "one two three"},
		{"said twice stays said twice",
			seg("no no no", 9000, 9300, 9500, 9800, 10000, 10300), seg("no no no", 9520, 9820, 10020, 10320, 10500, 10800), "no no no no"},
		{"the same word far away is another word",
			seg("yes one", 8000, 8300, 9500, 9800), seg("two yes", 10100, 10300, 11000, 11300), "yes one two yes"},
	} {
		got, err := Join([]Part{
			{StartMS: 0, FromMS: 0, ToMS: 10000, Transcript: Transcript{Segments: []Segment{c.left}}},
			{StartMS: 5000, FromMS: 10000, ToMS: 20000, Transcript: Transcript{Segments: []Segment{shift(c.right, -5000)}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if g := said(got); g != c.want {
			t.Fatalf("%s: Join = %q, want %q", c.name, g, c.want)
		}
		if err := got.Validate(20000); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
}

func shift(s Segment, by int64) Segment {
	s.StartMS, s.EndMS, s.Words = s.StartMS+by, s.EndMS+by, slices.Clone(s.Words)
	for i := range s.Words {
		s.Words[i].StartMS += by
		s.Words[i].EndMS += by
	}
	return s
}

func TestJoinPutsACutSentenceTogether(t *testing.T) {
	left := seg("so we went to the", 8000, 8300, 8400, 8800, 9000, 9300, 9400, 9700, 9800, 10100)
	right := seg("to the sea", 9410, 9710, 9810, 10110, 10200, 10700)
	got, err := Join([]Part{
		{ToMS: 10000, Transcript: Transcript{Language: "en", Engine: "a", Segments: []Segment{left}}},
		{StartMS: 9000, FromMS: 10000, ToMS: 20000, Transcript: Transcript{Language: "en", Engine: "b", Segments: []Segment{shift(right, -9000)}}},
		{StartMS: 19000, FromMS: 20000, ToMS: 30000, Transcript: Transcript{Engine: "a", Flags: []string{NoSpeech}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Segments) != 1 || got.Segments[0].Text != "so we went to the sea" {
		t.Fatalf("Join = %+v, want one sentence", got.Segments)
	}
	if got.DurationMS != 30000 || got.Language != "en" || got.Has(NoSpeech) || !got.Has(MixedEngines) {
		t.Fatalf("Join head = %+v", got)
	}
}

func TestJoinSilence(t *testing.T) {
	quiet := Transcript{Flags: []string{NoSpeech}}
	got, err := Join([]Part{{ToMS: 5, Transcript: quiet}, {StartMS: 4, FromMS: 5, ToMS: 9, Transcript: quiet}})
	if err != nil || got.Validate(9) != nil || !got.Has(NoSpeech) {
		t.Fatalf("Join(silence) = %+v, %v", got, err)
	}
}

func TestJoinRefusesWhatDoesNotTile(t *testing.T) {
	for _, parts := range [][]Part{nil, {{ToMS: 5}, {FromMS: 6, ToMS: 9}}, {{ToMS: 5}, {FromMS: 4, ToMS: 9}}, {{FromMS: 5, ToMS: 4}}} {
		if _, err := Join(parts); err == nil {
			t.Fatalf("Join(%+v) passed", parts)
		}
	}
}
