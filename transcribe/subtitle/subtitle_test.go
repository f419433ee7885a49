package subtitle

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"macbatch/transcribe"
)

func one(start, end int64, text string) transcribe.Transcript {
	return transcribe.Transcript{DurationMS: end, Segments: []transcribe.Segment{{StartMS: start, EndMS: end, Text: text}}}
}

func srt(t *testing.T, tr transcribe.Transcript) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSRT(&b, tr); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func vtt(t *testing.T, tr transcribe.Transcript) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteVTT(&b, tr); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTimesCarry(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    string
	}{
		{0, "00:00:00,000"}, {0.0004, "00:00:00,000"}, {0.9995, "00:00:01,000"}, {59.9996, "00:01:00,000"},
		{3599.9999, "01:00:00,000"}, {3600.0, "01:00:00,000"}, {35999.9996, "10:00:00,000"}, {359999.9999, "100:00:00,000"},
		{3661.001, "01:01:01,001"}, {4.035, "00:00:04,035"},
	} {
		ms := transcribe.MS(c.seconds)
		got := srt(t, one(ms, ms+2000, "x"))
		if !strings.HasPrefix(got, "1\n"+c.want+" --> ") {
			t.Fatalf("%v s: SRT = %q, want it to start at %s", c.seconds, got, c.want)
		}
		if got := vtt(t, one(ms, ms+2000, "x")); !strings.HasPrefix(got, "WEBVTT\n\n"+strings.Replace(c.want, ",", ".", 1)+" --> ") {
			t.Fatalf("%v s: VTT = %q, want it to start at %s", c.seconds, got, c.want)
		}
	}
}

func TestFilesByTheByte(t *testing.T) {
	tr := transcribe.Transcript{DurationMS: 100000, Segments: []transcribe.Segment{
		{StartMS: 1000, EndMS: 1200, Text: "Hi."},
		{StartMS: 5000, EndMS: 9000, Text: "if a < b & c then <i>go</i> --> done"},
		{StartMS: 9600, EndMS: 9700, Text: "bad \xff\x00 bytes\n\nand {\\an8} lines"},
	}}
	if got, want := srt(t, tr), "1\n00:00:01,000 --> 00:00:01,800\nHi.\n\n"+
		"2\n00:00:05,000 --> 00:00:09,000\nif a < b & c then <\u2060i>go<\u2060/i> --\u2060> done\n\n"+
		"3\n00:00:09,600 --> 00:00:11,247\nbad \uFFFD bytes and {\u2060\\an8} lines\n\n"; got != want {
		t.Fatalf("SRT = %q, want %q", got, want)
	}
	if got, want := vtt(t, tr), "WEBVTT\n\n00:00:01.000 --> 00:00:01.800\nHi.\n\n"+
		"00:00:05.000 --> 00:00:09.000\nif a &lt; b &amp; c then &lt;i&gt;go&lt;/i&gt; --&gt; done\n\n"+
		"00:00:09.600 --> 00:00:11.247\nbad \uFFFD bytes and {\u2060\\an8} lines\n"; got != want {
		t.Fatalf("VTT = %q, want %q", got, want)
	}
	var b bytes.Buffer
	if err := WriteText(&b, tr); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "Hi.\n\nif a < b & c then <i>go</i> --> done bad \uFFFD bytes and {\\an8} lines\n"; got != want {
		t.Fatalf("text = %q, want %q", got, want)
	}
}

func TestTableAndMarkdown(t *testing.T) {
	tr := transcribe.Transcript{DurationMS: 400_000_000, Segments: []transcribe.Segment{
		{StartMS: 1000, EndMS: 1200, Text: "Hi\tyou.\nThere."},
		{StartMS: 5000, EndMS: 9000, Text: "# *a* [b](c) <i>d</i> & 1_2 \\ `e`"},
		{StartMS: 360_000_001, EndMS: 360_000_002, Text: "bad \xff\x00 bytes"},
	}}
	for _, c := range []struct {
		write func(*bytes.Buffer, transcribe.Transcript) error
		want  string
		none  string
	}{
		{func(b *bytes.Buffer, t transcribe.Transcript) error { return WriteTSV(b, t) },
			"start\tend\ttext\n1000\t1200\tHi you. There.\n5000\t9000\t# *a* [b](c) <i>d</i> & 1_2 \\ `e`\n360000001\t360000002\tbad \uFFFD bytes\n",
			"start\tend\ttext\n"},
		{func(b *bytes.Buffer, t transcribe.Transcript) error { return WriteMarkdown(b, "A *film*\nof #1", t) },
			"# A \\*film\\* of \\#1\n\n**00:00:01** Hi you. There.\n\n" +
				"**00:00:05** \\# \\*a\\* \\[b\\](c) \\<i\\>d\\</i\\> \\& 1\\_2 \\\\ \\`e\\`\n\n**100:00:00** bad \uFFFD bytes\n",
			"# A \\*film\\* of \\#1\n\nNobody speaks in it.\n"},
	} {
		var b bytes.Buffer
		if err := c.write(&b, tr); err != nil || b.String() != c.want {
			t.Fatalf("wrote %q, %v, want %q", b.String(), err, c.want)
		}
		b.Reset()
		if err := c.write(&b, transcribe.Transcript{DurationMS: 9, Flags: []string{transcribe.NoSpeech}}); err != nil || b.String() != c.none {
			t.Fatalf("wrote of silence %q, %v, want %q", b.String(), err, c.none)
		}
	}
}

func TestSilence(t *testing.T) {
	tr := transcribe.Transcript{DurationMS: 9, Flags: []string{transcribe.NoSpeech}}
	var b bytes.Buffer
	if err := WriteText(&b, tr); err != nil || b.Len() != 0 {
		t.Fatalf("text = %q, %v", b.String(), err)
	}
	if got := srt(t, tr); got != "" {
		t.Fatalf("SRT = %q", got)
	}
	if got := vtt(t, tr); got != "WEBVTT\n" {
		t.Fatalf("VTT = %q", got)
	}
}

// TestBrokenTimesAreNeverWritten gives what real engines gave: ends before
// starts, disorder, times beyond the end.
func TestBrokenTimesAreNeverWritten(t *testing.T) {
	tr := transcribe.Transcript{DurationMS: 10000, Segments: []transcribe.Segment{
		{StartMS: 8000, EndMS: 7000, Text: "three"}, {StartMS: 2000, EndMS: 5000, Text: "one"},
		{StartMS: 4000, EndMS: 4000, Text: "two"}, {StartMS: 9900, EndMS: 60000, Text: "four"},
	}}
	cues := Cues(tr)
	checkCues(t, cues)
	if len(cues) == 0 || !strings.HasPrefix(cues[0].Text, "one") || !strings.HasSuffix(cues[len(cues)-1].Text, "four") {
		t.Fatalf("Cues = %+v", cues)
	}
}

func checkCues(t *testing.T, cues []Cue) {
	t.Helper()
	var at int64
	for i, c := range cues {
		lines := strings.Split(c.Text, "\n")
		if c.StartMS < at || c.EndMS <= c.StartMS || c.EndMS-c.StartMS > longestMS || len(lines) > 2 {
			t.Fatalf("cue %d: %+v after %d ms", i, c, at)
		}
		for _, l := range lines {
			if n := utf8.RuneCountInString(l); n == 0 || n > lineRunes {
				t.Fatalf("cue %d: line %q has %d characters", i, l, n)
			}
		}
		// Time to read it, unless the next one comes.
		need := min(int64(utf8.RuneCountInString(c.Text))*1000/readRate, longestMS)
		if i+1 < len(cues) && c.EndMS-c.StartMS < need && c.EndMS < cues[i+1].StartMS {
			t.Fatalf("cue %d: %+v of %d ms, want %d, and there is room", i, c, c.EndMS-c.StartMS, need)
		}
		at = c.EndMS
	}
}

// speech is a random transcript, with and without words, with words longer
// than a line.
func speech(r *rand.Rand) (tr transcribe.Transcript, words []string) {
	texts := []string{"a", "to", "lease", "<b>", "&amp;", "-->", "{\\an8}", "end.", "Why?", "Donaudampfschiff", "日本", "1", strings.Repeat("長", 100)}
	at := int64(r.IntN(3000))
	for range 1 + r.IntN(12) {
		s := transcribe.Segment{StartMS: at}
		for range 1 + r.IntN(30) {
			w := transcribe.Word{StartMS: at, EndMS: at + int64(r.IntN(900)), Text: texts[r.IntN(len(texts))]}
			at = w.EndMS + int64(r.IntN(2)*r.IntN(1500))
			s.EndMS = w.EndMS
			s.Words = append(s.Words, w)
			words = append(words, w.Text)
		}
		s.Text = strings.Join(words[len(words)-len(s.Words):], " ")
		if r.IntN(3) == 0 {
			s.Words = nil
		}
		tr.Segments = append(tr.Segments, s)
	}
	tr.DurationMS = at + 1000
	return tr, words
}

func TestCuesHoldEveryWordAndReadBack(t *testing.T) {
	strip := strings.NewReplacer(" ", "", "\n", "")
	for seed := range uint64(300) {
		tr, words := speech(rand.New(rand.NewPCG(seed, 1)))
		cues := Cues(tr)
		checkCues(t, cues)
		all := ""
		for _, c := range cues {
			all += strip.Replace(c.Text)
		}
		if want := strings.Join(words, ""); all != want {
			t.Fatalf("seed %d: cues hold %q, want %q", seed, all, want)
		}
		back, err := ParseSRT(strings.NewReader(srt(t, tr)))
		if err != nil || !slices.Equal(back, cues) {
			t.Fatalf("seed %d: ParseSRT = %+v, %v, want %+v", seed, back, err, cues)
		}
		back, err = ParseVTT(strings.NewReader(vtt(t, tr)))
		if err != nil || !slices.Equal(back, cues) {
			t.Fatalf("seed %d: ParseVTT = %+v, %v, want %+v", seed, back, err, cues)
		}
	}
}

func TestLinesAreBalanced(t *testing.T) {
	for text, want := range map[string]string{
		"He was not an ill disposed young man, unless to be rather cold":         "He was not an ill disposed young man,\nunless to be rather cold",
		"had he married a more amiable woman he might have been made still more": "had he married a more amiable woman\nhe might have been made still more",
		"one line that fits within the forty-two ch":                             "one line that fits within the forty-two ch",
	} {
		if cues := Cues(one(0, 6000, text)); len(cues) != 1 || cues[0].Text != want {
			t.Errorf("Cues(%q) = %+v, want %q", text, cues, want)
		}
	}
}

func TestShortCuesGetTimeWhereThereIsRoom(t *testing.T) {
	cues := Cues(transcribe.Transcript{DurationMS: 20000, Segments: []transcribe.Segment{
		{StartMS: 1000, EndMS: 1100, Text: "One."}, {StartMS: 2500, EndMS: 2600, Text: "Two."},
		{StartMS: 10000, EndMS: 19000, Text: "Slow."}, {StartMS: 19950, EndMS: 20000, Text: "Last."},
	}})
	want := []Cue{{1000, 1800, "One."}, {2500, 3300, "Two."}, {10000, 17000, "Slow."}, {19950, 20000, "Last."}}
	if !slices.Equal(cues, want) {
		t.Fatalf("Cues = %+v, want %+v", cues, want)
	}
}

func TestParagraphs(t *testing.T) {
	w := func(s, e int64, x string) transcribe.Word { return transcribe.Word{StartMS: s, EndMS: e, Text: x} }
	var b bytes.Buffer
	err := WriteText(&b, transcribe.Transcript{DurationMS: 99000, Segments: []transcribe.Segment{
		{StartMS: 0, EndMS: 9000, Text: "one two three", Words: []transcribe.Word{w(0, 500, "one"), w(2500, 3000, "two"), w(5001, 9000, "three")}},
		{StartMS: 11000, EndMS: 12000, Text: "four"},
		{StartMS: 14001, EndMS: 15000, Text: "five"},
	}})
	if want := "one two\n\nthree four\n\nfive\n"; err != nil || b.String() != want {
		t.Fatalf("text = %q, %v, want %q", b.String(), err, want)
	}
}

func TestParseTellsTheLine(t *testing.T) {
	for in, want := range map[string]string{
		"1\n00:00:01,000 -> 2\n":                  `line 2: "00:00:01,000 -> 2" is no cue number`,
		"1\n00:00:01,1000 --> 00:00:02,000\nx\n":  "line 2: not a line of times",
		"1\n00:60:01,100 --> 00:00:02,000\nx\n":   "line 2: not a line of times",
		"1\n\n00:00:03,100 --> 00:00:02,000\nx\n": "line 3: ends at 2000 ms, before its start 3100 ms",
		"hello\n": `line 1: "hello" is no cue number`,
	} {
		if _, err := ParseSRT(strings.NewReader(in)); err == nil || err.Error() != "parse SRT: "+want {
			t.Fatalf("ParseSRT(%q) = %v, want %s", in, err, want)
		}
	}
	for _, in := range []string{"", "hello", "WEBVTTX\n"} {
		if _, err := ParseVTT(strings.NewReader(in)); err == nil {
			t.Fatalf("ParseVTT(%q) passed", in)
		}
	}
	got, err := ParseVTT(strings.NewReader("\ufeffWEBVTT - title\r\nX: y\r\n\r\nNOTE a\r\nb --> c\r\n\r\nname\r\n01:02.003 --> 100:00:00.000 align:left\r\na &lt; b\r\nc\r\n"))
	if want := []Cue{{62003, 360000000, "a < b\nc"}}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("ParseVTT = %+v, %v, want %+v", got, err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1\n00:00:01,000 --> 00:00:02,000\na\nb\n\n2\n00:00:02,000 --> 99:00:02,000 X1:0\nc\n")
	f.Add("WEBVTT\n\n00:01.000 --> 00:02.000\na &lt; b\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, parse := range []func(string) ([]Cue, error){
			func(s string) ([]Cue, error) { return ParseSRT(strings.NewReader(s)) },
			func(s string) ([]Cue, error) { return ParseVTT(strings.NewReader(s)) },
		} {
			cues, err := parse(s)
			for _, c := range cues {
				if err == nil && (c.StartMS < 0 || c.EndMS < c.StartMS) {
					t.Fatalf("parse(%q) = %+v", s, c)
				}
			}
		}
	})
}

func FuzzWrite(f *testing.F) {
	f.Add("a <b> & --> c\n\n\xff", int64(999), int64(5))
	f.Fuzz(func(t *testing.T, text string, start, end int64) {
		if start < 0 || start > 1<<40 || end > 1<<40 {
			return
		}
		tr := transcribe.Transcript{DurationMS: 1 << 41, Segments: []transcribe.Segment{{StartMS: start, EndMS: end, Text: text}, {StartMS: start, EndMS: start + 5, Text: "x"}}}
		cues := Cues(tr)
		checkCues(t, cues)
		for i, parse := range []func() ([]Cue, error){
			func() ([]Cue, error) { return ParseSRT(strings.NewReader(srt(t, tr))) },
			func() ([]Cue, error) { return ParseVTT(strings.NewReader(vtt(t, tr))) },
		} {
			back, err := parse()
			if err != nil || !slices.Equal(back, cues) {
				t.Fatalf("format %d: %q reads back as %+v, %v, want %+v", i, text, back, err, cues)
			}
		}
	})
}

// TestFFmpegReadsThem has the files read by somebody else's code.
func TestFFmpegReadsThem(t *testing.T) {
	bin, err := exec.LookPath("ffmpeg")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	tr := transcribe.Transcript{DurationMS: 400000000, Segments: []transcribe.Segment{
		{StartMS: 999, EndMS: 3000, Text: "plain words"},
		{StartMS: 5000, EndMS: 7000, Text: "if a < b & c then <i>go</i> --> done"},
		{StartMS: 3599999, EndMS: 3602000, Text: "12"},
		{StartMS: 35999000, EndMS: 36001000, Text: "{\\an8} late"},
		{StartMS: 359999999, EndMS: 362000001, Text: "after a hundred hours"},
	}}
	var want []string
	for _, c := range Cues(tr) {
		want = append(want, fmt.Sprintf("%d-%d %s", c.StartMS, c.EndMS, strings.ReplaceAll(c.Text, "\n", " ")))
	}
	unescape := strings.NewReplacer("\n", " ", `\{`, "{", `\}`, "}") // its WebVTT writer leaves its inner escapes
	for ext, text := range map[string]string{"srt": srt(t, tr), "vtt": vtt(t, tr)} {
		name := filepath.Join(t.TempDir(), "a."+ext)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(bin, "-nostdin", "-v", "warning", "-i", "file:"+name, "-f", "webvtt", "-").Output()
		if err != nil {
			t.Fatalf("ffmpeg %s: %v\n%s", ext, err, out)
		}
		back, err := ParseVTT(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("ffmpeg made of %s:\n%s\n%v", ext, out, err)
		}
		var got []string
		for _, c := range back {
			got = append(got, fmt.Sprintf("%d-%d %s", c.StartMS, c.EndMS, unescape.Replace(c.Text)))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("ffmpeg read in %s:\n%q, want\n%q\n%s", ext, got, want, out)
		}
	}
}
