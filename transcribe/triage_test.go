package transcribe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// says makes a transcript of segments "from-to text".
func says(ms int64, confidence float64, segs ...string) Transcript {
	t := Transcript{DurationMS: ms}
	for _, line := range segs {
		s := Segment{Confidence: confidence}
		times, text, _ := strings.Cut(line, " ")
		if _, err := fmt.Sscanf(times, "%d-%d", &s.StartMS, &s.EndMS); err != nil {
			panic(err)
		}
		s.Text = text
		t.Segments = append(t.Segments, s)
	}
	return t
}

func kindsOf(t Transcript) (kinds []string) {
	for _, d := range t.Doubts {
		kinds = append(kinds, d.Kind)
	}
	return slices.Compact(kinds)
}

func TestTriage(t *testing.T) {
	for _, c := range []struct {
		name     string
		in       Transcript
		want     string // kinds
		evidence string // in the first
	}{
		{"plain", says(20000, .8, "0-4000 and mister john dashwood had then leisure to consider", "4000-9000 how much there might be prudently in his power"), "", ""},
		{"a loop of a phrase", says(20000, .8, "0-9000 so I said I don't know I don't know I don't know, I don't know. and left"), Repeats, `4 times "i don't know"`},
		{"a loop over segments", says(20000, .8, "0-2000 we are here", "2000-4000 We are here.", "4000-6000 we are here", "6000-8000 we are here"), Repeats, `4 times "we are here"`},
		{"a word is said three times", says(20000, .8, "0-4000 no no no no no said the man"), "", ""},
		{"a loop of a word", says(20000, .8, "0-9000 the the the the the the the the the"), Repeats, `9 times "the"`},
		{"too fast", says(20000, .8, "0-1000 one two three four five six seven eight nine"), Fast, "9 words in 1.0 s"},
		{"too fast without spaces", says(20000, .8, "0-1000 "+strings.Repeat("日本語", 12)), Fast, "36 characters in 1.0 s"},
		{"a quick exclamation", says(20000, .8, "0-300 oh no not again"), "", ""},
		{"a credit", says(90000, .8, "0-4000 and that was it", "5000-9000 Untertitel im Auftrag des ZDF für funk, 2017"), Stock, "Untertitel im Auftrag"},
		{"a credit without spaces", says(90000, .8, "0-4000 谢谢大家", "5000-9000 字幕由Amara.org社区提供"), Stock, "字幕由Amara"},
		{"thanks at the end of a film", says(90000, .8, "0-4000 and that was it", "5000-9000 Thank you for watching!"), "", ""},
		{"thanks and nothing else", says(90000, .8, "5000-9000 Thank you for watching!"), Stock, "Thank you for watching!"},
		{"thanks again and again", says(90000, .8, "0-2000 a word", "5000-7000 Thanks for watching!", "20000-22000 Thanks for watching.", "40000-42000 thanks for watching"), Stock, "Thanks for watching!"},
		{"unsure", says(90000, .1, "0-4000 had he married a more amiable woman he might", "5000-7000 have been made"), Unsure, "12 words of a mean confidence of 0.10"},
		{"unsure for a moment", says(90000, .1, "0-4000 had he married"), "", ""},
		{"of no known confidence", says(90000, 0, "0-4000 had he married a more amiable woman he might have been made"), "", ""},
		{"silent", Transcript{DurationMS: 9, Flags: []string{NoSpeech}}, "", ""},
	} {
		got := c.in
		got.Triage()
		if k := strings.Join(kindsOf(got), " "); k != c.want || c.want != "" && !strings.Contains(got.Doubts[0].Evidence, c.evidence) {
			t.Errorf("%s: %+v, want %q, %q", c.name, got.Doubts, c.want, c.evidence)
		}
		if got.Has(Suspicious) != (c.want != "") || (got.Score() < 1) != (c.want != "") {
			t.Errorf("%s: flags %q, score %v", c.name, got.Flags, got.Score())
		}
		if err := got.Validate(got.DurationMS); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		n := len(got.Doubts)
		if got.Triage(); len(got.Doubts) != n {
			t.Errorf("%s: a second look made %d doubts of %d", c.name, len(got.Doubts), n)
		}
	}
}

func TestScore(t *testing.T) {
	tr := says(100_000, .8, "0-10000 a", "20000-30000 b")
	tr.Doubt(Doubt{Kind: Gap, FromMS: 5000, ToMS: 25000}, Doubt{Kind: Unsure, FromMS: 24000, ToMS: 25000})
	if got := tr.Score(); got < .332 || got > .334 { // 20 of 30 s
		t.Fatalf("Score = %v, want a third", got)
	}
	if (Transcript{}).Score() != 1 {
		t.Fatal("an empty transcript is in doubt")
	}
}

// TestJoinKeepsDoubts shifts them to the film's time line, each on its side of a cut.
func TestJoinKeepsDoubts(t *testing.T) {
	left := says(12000, .8, "0-9000 one two")
	left.Doubt(Doubt{Kind: Repeats, FromMS: 8000, ToMS: 11000, Evidence: "x"}, Doubt{Kind: Gap, FromMS: 10500, ToMS: 11000, Evidence: "next door"})
	right := says(12000, .8, "2000-9000 three four")
	right.Doubt(Doubt{Kind: Fast, FromMS: 3000, ToMS: 4000, Evidence: "y"})
	got, err := Join([]Part{{0, 0, 10000, left}, {9000, 10000, 20000, right}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Doubt{{Repeats, 8000, 10000, "x"}, {Fast, 12000, 13000, "y"}}
	if !slices.Equal(got.Doubts, want) || !got.Has(Suspicious) || got.Validate(20000) != nil {
		t.Fatalf("Join = %+v %q, want %+v", got.Doubts, got.Flags, want)
	}
}

func TestDoubtsAreBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tr := Transcript{DurationMS: 1000, Segments: []Segment{{EndMS: 1, Text: "a"}}}
	for range 500 {
		tr.Doubt(Doubt{Kind: Gap, FromMS: r.Int64N(5000) - 2000, ToMS: r.Int64N(5000) - 2000, Evidence: strings.Repeat("é\x00\xff", r.IntN(200))})
	}
	if err := tr.Validate(1000); err != nil || len(tr.Doubts) != maxDoubts {
		t.Fatalf("%d doubts: %v", len(tr.Doubts), err)
	}
	for name, bad := range map[string][]Doubt{
		"backwards": {{Kind: Gap, FromMS: 5, ToMS: 4}}, "beyond": {{Kind: Gap, FromMS: 5, ToMS: 1001}}, "nameless": {{FromMS: 5, ToMS: 6}},
		"disorder": {{Kind: Gap, FromMS: 5, ToMS: 6}, {Kind: Gap, FromMS: 4, ToMS: 6}}, "long": {{Kind: Gap, Evidence: strings.Repeat("x", 300)}}, "none": {},
	} {
		tr.Doubts = bad
		if tr.Validate(1000) == nil {
			t.Errorf("%s: Validate passed %+v", name, bad)
		}
	}
}
