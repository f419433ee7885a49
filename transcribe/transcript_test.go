package transcribe

import (
	"encoding/json"
	"math"
	"testing"
)

func TestValidateNamesTheBrokenRule(t *testing.T) {
	word := func(s, e int64, text string) Segment {
		return Segment{StartMS: 0, EndMS: 1000, Text: "x", Words: []Word{{StartMS: s, EndMS: e, Text: text}}}
	}
	for _, c := range []struct {
		name string
		segs []Segment
		want string
	}{
		{"good", []Segment{{StartMS: 0, EndMS: 500, Text: "a"}, {StartMS: 500, EndMS: 1000, Text: "b"}}, ""},
		{"backwards", []Segment{{StartMS: 500, EndMS: 400, Text: "a"}}, "segment 0: ends at 400 ms, before its start 500 ms"},
		{"negative", []Segment{{StartMS: -1, EndMS: 400, Text: "a"}}, "segment 0: starts at -1 ms, before 0 ms"},
		{"out of order", []Segment{{StartMS: 500, EndMS: 900, Text: "a"}, {StartMS: 100, EndMS: 200, Text: "b"}}, "segment 1: starts at 100 ms, before 900 ms"},
		{"beyond the end", []Segment{{StartMS: 500, EndMS: 1001, Text: "a"}}, "segment 0: ends at 1001 ms, after 1000 ms"},
		{"blank", []Segment{{StartMS: 500, EndMS: 600, Text: " \n"}}, "segment 0: text is blank"},
		{"bytes", []Segment{{StartMS: 500, EndMS: 600, Text: "\xff"}}, `segment 0: text "\xff" is not UTF-8`},
		{"confidence", []Segment{{EndMS: 600, Text: "a", Confidence: math.NaN()}}, "segment 0: confidence NaN is not between 0 and 1"},
		{"word outside", []Segment{word(900, 1100, "x")}, "segment 0: word 0: ends at 1100 ms, after 1000 ms"},
		{"word blank", []Segment{word(0, 10, "")}, "segment 0: word 0: text is blank"},
		{"silent without saying so", nil, "no segments, and not flagged no_speech"},
	} {
		got := ""
		if err := (Transcript{Segments: c.segs}).Validate(1000); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Fatalf("%s: Validate = %q, want %q", c.name, got, c.want)
		}
	}
	if err := (Transcript{Flags: []string{NoSpeech}}).Validate(1000); err != nil {
		t.Fatalf("Validate(silence) = %v", err)
	}
	if err := (Transcript{Flags: []string{NoSpeech}, Segments: []Segment{{EndMS: 1, Text: "a"}}}).Validate(1000); err == nil {
		t.Fatal("text under the flag no_speech passed")
	}
}

func TestRepair(t *testing.T) {
	in := Transcript{Segments: []Segment{
		{StartMS: 3000, EndMS: 2000, Text: "back\x00wards"},
		{StartMS: 500, EndMS: 1500, Text: "first", Words: []Word{{StartMS: 700, EndMS: 600, Text: "fi\xffrst", Confidence: 1.2}}},
		{StartMS: 1200, EndMS: 1800, Text: "overlaps"},
		{StartMS: 1900, EndMS: 1950, Text: " "},
		{StartMS: 9500, EndMS: 12000, Text: "long"},
		{StartMS: 14000, EndMS: 15000, Text: "beyond"},
	}}
	got := Repair(in, 10000)
	if err := got.Validate(10000); err != nil {
		t.Fatalf("Repair left: %v", err)
	}
	var texts string
	for _, s := range got.Segments {
		texts += s.Text + "|"
	}
	if want := "first|overlaps|back wards|long|"; texts != want {
		t.Fatalf("Repair kept %q, want %q", texts, want)
	}
	if w := got.Segments[0].Words[0]; w != (Word{700, 700, "fi\uFFFDrst", 1}) {
		t.Fatalf("Repair made the word %+v", w)
	}
	if got.Segments[0].EndMS != 1200 || got.Segments[3].EndMS != 10000 || got.Segments[2].EndMS != 3000 {
		t.Fatalf("Repair times: %+v", got.Segments)
	}
	if !got.Has(Repaired) || !got.Has(BeyondEnd) {
		t.Fatalf("Repair flags = %q", got.Flags)
	}
	if in.Segments[0].EndMS != 2000 || in.Segments[1].Words[0].Confidence != 1.2 {
		t.Fatal("Repair changed what it was given")
	}
	again := Repair(got, 10000)
	again.Flags = got.Flags
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(again)
	if string(a) != string(b) {
		t.Fatalf("Repair twice:\n%s\n%s", a, b)
	}
	clean := Transcript{Segments: []Segment{{StartMS: 1, EndMS: 2, Text: "a"}}}
	if got := Repair(clean, 10); len(got.Flags) != 0 {
		t.Fatalf("Repair flagged a good transcript: %q", got.Flags)
	}
}

func FuzzRepair(f *testing.F) {
	f.Add([]byte(`{"segments":[{"start_ms":5,"end_ms":1,"text":"a","words":[{"start_ms":9,"end_ms":-4,"text":"a"}]}]}`), int64(7))
	f.Add([]byte(`{"segments":[{"text":"a"}],"flags":["suspicious"],"doubts":[{"kind":"gap","from_ms":9,"to_ms":-4}]}`), int64(7))
	f.Add([]byte(`{"segments":[{"start_ms":9000000000000000000,"text":"a"},{"start_ms":-1,"text":" "}]}`), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, duration int64) {
		var in Transcript
		if json.Unmarshal(data, &in) != nil || duration < 0 || duration > 1<<50 {
			return
		}
		got := Repair(in, duration)
		if len(got.Segments) == 0 {
			got.Flag(NoSpeech)
		}
		if err := got.Validate(duration); err != nil {
			t.Fatalf("Repair(%s) left: %v", data, err)
		}
	})
}

func TestJSONOmitsTheUnknown(t *testing.T) {
	b, err := json.Marshal(Transcript{Segments: []Segment{{EndMS: 5, Text: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"duration_ms":0,"segments":[{"start_ms":0,"end_ms":5,"text":"a"}]}`; string(b) != want {
		t.Fatalf("JSON = %s, want %s", b, want)
	}
}
