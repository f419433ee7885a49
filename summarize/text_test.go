package summarize

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestRegroup(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want []Sentence
	}{
		{"untimed stay", []Sentence{{0, 0, "A heading"}, {0, 0, "Text. More."}}, []Sentence{{0, 0, "A heading"}, {0, 0, "Text. More."}}},
		{"joined at full stops", []Sentence{{0, 1000, "I met Mr."}, {1000, 3000, "Jones. He was"}, {3000, 4000, "well."}},
			[]Sentence{{0, 1923, "I met Mr. Jones."}, {2076, 4000, "He was well."}}},
		{"a long pause ends", []Sentence{{0, 1000, "Chapter one"}, {4000, 5000, "It rained."}},
			[]Sentence{{0, 1000, "Chapter one"}, {4000, 5000, "It rained."}}},
		{"utterances stay", []Sentence{{0, 1000, "he was not an ill disposed young man"}, {1100, 2000, "unless"}, {3000, 4000, "it rained"}},
			[]Sentence{{0, 1000, "he was not an ill disposed young man"}, {1100, 2000, "unless"}, {3000, 4000, "it rained"}}},
		{"fragments join", []Sentence{{0, 1000, "so"}, {1200, 2000, "it rained"}}, []Sentence{{0, 2000, "so it rained"}}},
		{"bad times", []Sentence{{-5, -7, "back"}, {9000, 4000, "wards"}}, []Sentence{{0, 0, "back"}, {9000, 9000, "wards"}}},
	} {
		if got := regroup(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s: regroup(%v) = %v, want %v", c.name, c.in, got, c.want)
		}
	}
}

func TestRegroupCutsEndlessSpeech(t *testing.T) {
	for name, text := range map[string]string{
		"words":    strings.Repeat("word ", 5000),
		"unspaced": strings.Repeat("語", 5000),
		"a blob":   strings.Repeat("x", 50_000),
		"thai":     strings.Repeat("ก", 5000),
	} {
		got := regroup([]Sentence{{0, 1_000_000, text}})
		if len(got) < 10 {
			t.Fatalf("%s: regroup made %d sentences, want many", name, len(got))
		}
		joined := ""
		for i, s := range got {
			if i > 0 && s.StartMS != got[i-1].EndMS || s.Text == "" || len(s.Text) > 4000 {
				t.Fatalf("%s: part %d is %d–%d with %d bytes", name, i, s.StartMS, s.EndMS, len(s.Text))
			}
			joined += s.Text
		}
		if joined != strings.ReplaceAll(text, " ", "") && strings.ReplaceAll(joined, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%s: regroup lost text", name)
		}
		if last := got[len(got)-1]; last.EndMS != 1_000_000 {
			t.Fatalf("%s: the last part ends at %d, want 1000000", name, last.EndMS)
		}
	}
}

func TestLanguage(t *testing.T) {
	german := asSentences("Der Leuchtturm wurde nach einem schweren Winter gebaut, in dem elf Schiffe untergingen. Der Wärter lebte dort allein mit seinem Hund.")
	for _, c := range []struct {
		asked string
		text  []Sentence
		want  string
	}{
		{"en", german, "en"}, {"EN-us", german, "en"}, {"eng", nil, "en"}, {"English", nil, "en"}, {"ger", nil, "de"}, {"deu", nil, "de"},
		{"pt_BR", nil, "pt"}, {"nob", nil, "no"}, {"haw", nil, "haw"}, {"chi", nil, "zh"},
		{"", german, "de"}, {"auto", german, "de"}, {"und", german, "de"}, {"../x\x00", german, "de"},
		{"", nil, ""}, {"auto", []Sentence{{0, 0, "hello"}}, ""}, {"auto", asSentences(lighthouse), "en"},
		{"", []Sentence{{0, 0, strings.Repeat("今日は晴れです。", 8)}}, "ja"},
	} {
		if got := language(c.asked, c.text); got != c.want {
			t.Errorf("language(%q, %d sentences) = %q, want %q", c.asked, len(c.text), got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		lang, text string
		want       string // stems, a dot for a stop word
	}{
		{"en", "The keepers kept John's lamps; don't they'll rain 5 of 42", ". keeper kept john lamp . . rain . . 42"},
		{"fr", "L'homme n'est qu'un roseau", ". homm . . . . roseau"},
		{"de", "Die Wärter waren müde", ". wärter . müde"},
		{"xx", "Ubi est don't", "ubi est don't"},
		{"ja", "東京タワー", "東京 タワー"},
		{"ja", "猫が好き", "猫が が好 好き"},
		{"th", "กขค x", "กข ขค x"},
		{"zh", "我 A", "我 a"},
		{"hi", "हिन्दी भाषा", "हिन्दी भाषा"},
	} {
		var got []string
		for w := range lexiconFor(c.lang).words(c.text) {
			if w.stem == "" {
				w.stem = "."
			}
			got = append(got, w.stem)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("words(%s, %q) = %q, want %q", c.lang, c.text, s, c.want)
		}
	}
}

func TestKeywordsAreWrittenAsInTheText(t *testing.T) {
	got := Summarize(asSentences("We visited Elinor in Barton and saw walls. Elinor walks, and Barton walled gardens please ELINOR. Later Elinor saw Barton's wall and the wall."), Options{Language: "en"})
	for _, w := range []string{"Elinor", "Barton", "wall"} {
		if !slices.Contains(got.Keywords, w) {
			t.Errorf("Keywords = %q, want %q among them", got.Keywords, w)
		}
	}
}

func TestWriteMarkdownEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"plain, text!":                "plain, text!",
		"# not a heading":             `\# not a heading`,
		"1. no list":                  `1\. no list`,
		"12) no list":                 `12\) no list`,
		"- no item":                   `\- no item`,
		"in 1841. Then":               "in 1841. Then",
		"<script>alert(1)</script>":   `\<script\>alert(1)\</script\>`,
		"[x](http://y) ![z](w) `c`":   "\\[x\\](http://y) !\\[z\\](w) \\`c\\`",
		"*a* _b_ ~~c~~ a|b \\ &lt; $": `\*a\* \_b\_ \~\~c\~\~ a\|b \\ \&lt; \$`,
		"a\n\n# b\r\u2028c\x1b[31m":   `a # b c\[31m`,
		"x\u202etxt.exe\u2066\u00ad":  "xtxt.exe",
		"bad \xff utf-8":              "bad \uFFFD utf-8",
		"می\u200cروم 👩\u200d🚀":        "می\u200cروم 👩\u200d🚀",
	} {
		var b strings.Builder
		if err := WriteMarkdown(&b, Summary{Title: "T", Of: 1, Sentences: []Sentence{{0, 0, text}}}); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(b.String(), "\n- ")
		if got != want+"\n" {
			t.Errorf("WriteMarkdown(%q) wrote %q, want %q", text, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	for ms, want := range map[int64]string{-1: "0:00:00", 999: "0:00:00", 59_999: "0:00:59", 3_599_999: "0:59:59", 3_600_000: "1:00:00", 360_000_000: "100:00:00"} {
		if got := clock(ms); got != want {
			t.Errorf("clock(%d) = %q, want %q", ms, got, want)
		}
	}
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWriteMarkdownReportsWriteErrors(t *testing.T) {
	if err := WriteMarkdown(fullDisk{}, Summary{}); !errors.Is(err, errFull) {
		t.Fatalf("WriteMarkdown = %v, want %v", err, errFull)
	}
}
