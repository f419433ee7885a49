package summarize

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const lighthouse = `The lighthouse on Gull Rock was built in 1841 after eleven ships were lost in one winter. Its keeper lived alone.
Mr. Pell, the last keeper of the lighthouse, kept a diary of every ship that passed the rock. He liked tea.
The diary shows that the keeper lit the lamp of the lighthouse by hand each evening, even in storms.
When the storm of 1903 broke the lamp, the keeper rowed to the harbour for glass. My cousin bought a bicycle yesterday.
Ships had to wait outside the harbour until the lamp of the lighthouse burned again. "Yes," he wrote.
The keeper burned oil in the lamp, and the oil came by ship from the harbour once a month.
In 1961 an electric lamp replaced the oil, and the lighthouse needed no keeper any more.
Pell's diary is now in the museum at the harbour, beside the old lamp of the lighthouse.
Bananas are yellow when they become ripe.`

func asSentences(text string) []Sentence {
	var out []Sentence
	for _, s := range Split(text) {
		out = append(out, Sentence{Text: s})
	}
	return out
}

func texts(in []Sentence) []string {
	var out []string
	for _, s := range in {
		out = append(out, s.Text)
	}
	return out
}

func TestSummarizeChoosesTheTheme(t *testing.T) {
	got := Summarize(asSentences(lighthouse), Options{Title: "Gull Rock"})
	if got.Engine != "lexrank" || got.Language != "en" || got.NoSpeech || got.Title != "Gull Rock" {
		t.Fatalf("Summarize = %+v, want lexrank, en, speech, the title", got)
	}
	if len(got.Sentences) != 3 {
		t.Fatalf("Summarize chose %d sentences, want 3", len(got.Sentences))
	}
	for _, s := range got.Sentences {
		if strings.Contains(s.Text, "bicycle") || strings.Contains(s.Text, "Bananas") || !strings.Contains(s.Text, "l") {
			t.Errorf("Summarize chose %q, which is off the theme", s.Text)
		}
	}
	for _, w := range []string{"lamp", "lighthouse", "keeper", "harbour"} {
		if !slices.Contains(got.Keywords, w) {
			t.Errorf("Keywords = %q, want %q among them", got.Keywords, w)
		}
	}
	if len(got.Keywords) > 10 {
		t.Errorf("%d keywords, want at most 10", len(got.Keywords))
	}
}

func TestSummarizeKeepsOrderAndTimes(t *testing.T) {
	in := chatter(3, 300)
	got := Summarize(in, Options{Language: "xx"})
	if len(got.Sentences) != 9 { // 20 minutes, less the pauses that the regrouping may close
		t.Fatalf("Summarize chose %d of %d, want 9", len(got.Sentences), got.Of)
	}
	for i, s := range got.Sentences {
		if s.EndMS <= s.StartMS || i > 0 && s.StartMS < got.Sentences[i-1].EndMS {
			t.Fatalf("sentence %d is at %d–%d after %+v, want rising times", i, s.StartMS, s.EndMS, got.Sentences[max(i-1, 0)])
		}
	}
}

func TestSummarizeRepeatsNothing(t *testing.T) {
	var in []Sentence
	for range 30 {
		in = append(in, asSentences("The council discussed the new bridge over the river again. The new bridge over the river was discussed by the council.")...)
	}
	in = append(in, asSentences("The bridge will cost nine million and open in spring.")...)
	got := Summarize(in, Options{Language: "en", MaxSentences: 5})
	want := []string{"The council discussed the new bridge over the river again.", "The bridge will cost nine million and open in spring."}
	if !slices.Equal(texts(got.Sentences), want) {
		t.Fatalf("Summarize = %q, want %q", texts(got.Sentences), want)
	}
}

func TestSummarizeIsDeterministic(t *testing.T) {
	in := append(chatter(9, 200), chatter(9, 200)...)
	want := Summarize(in, Options{})
	for range 10 {
		if got := Summarize(in, Options{}); !reflect.DeepEqual(got, want) {
			t.Fatalf("Summarize = %+v, then %+v", want, got)
		}
	}
	same := slices.Repeat(asSentences("Something of five words here."), 4)
	same = append(same, asSentences("Something of five words there.")...)
	if got := Summarize(same, Options{Language: "en", MaxSentences: 1}); got.Sentences[0] != same[0] {
		t.Fatalf("a tie went to %q, want the first", got.Sentences[0].Text)
	}
}

func TestSummarizeWithoutSpeech(t *testing.T) {
	for _, in := range [][]Sentence{nil, {}, {{0, 4000, " \n\u200e\x00"}}} {
		got := Summarize(in, Options{Title: "Silent", Language: "de"})
		want := Summary{Engine: Engine, Title: "Silent", Language: "de", NoSpeech: true, Sentences: []Sentence{}, Keywords: []string{}}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("Summarize(%v) = %+v, want %+v", in, got, want)
		}
		b, _ := json.Marshal(got)
		if want := `{"engine":"lexrank","title":"Silent","language":"de","no_speech":true,"of":0,"sentences":[],"keywords":[]}`; string(b) != want {
			t.Fatalf("JSON = %s, want %s", b, want)
		}
	}
}

func TestSummarizeSmallTexts(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want int
	}{
		{[]string{"yes"}, 1},
		{[]string{"yes", "no"}, 2},
		{[]string{"the of and", "to be or"}, 2},
		{[]string{"12 34 5", "!!!"}, 2},
		{[]string{"one sentence that is long enough to be chosen", "yes"}, 1},
	} {
		var in []Sentence
		for _, s := range c.in {
			in = append(in, Sentence{Text: s})
		}
		if got := Summarize(in, Options{Language: "en"}); len(got.Sentences) != c.want || got.NoSpeech {
			t.Errorf("Summarize(%q) = %+v, want %d sentences", c.in, got, c.want)
		}
	}
}

func TestSummarizeScalesWithTheLength(t *testing.T) {
	for _, c := range []struct{ sentences, want int }{{5, 3}, {60, 3}, {160, 5}, {3000, 12}} {
		in := chatter(5, c.sentences)
		if got := scaled(in); got != c.want {
			t.Errorf("%d sentences over %d s: %d wanted, want %d", c.sentences, in[len(in)-1].EndMS/1000, got, c.want)
		}
	}
}

func TestSummarizeGolden(t *testing.T) {
	for name, c := range map[string]struct {
		in []Sentence
		o  Options
	}{
		"lighthouse": {asSentences(lighthouse), Options{Title: "Gull Rock <1841>"}},
		"utterances": {spoken, Options{Title: "Sense and Sensibility", Language: "en", MaxSentences: 3}},
		"silence":    {nil, Options{}},
	} {
		sum := Summarize(c.in, c.o)
		var b bytes.Buffer
		if err := WriteMarkdown(&b, sum); err != nil {
			t.Fatal(err)
		}
		j, err := json.MarshalIndent(sum, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".md", b.Bytes())
		golden(t, name+".json", append(j, '\n'))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}

// spoken is what a recogniser without punctuation makes of a reading.
var spoken = []Sentence{
	{0, 7100, "and mister john dashwood had then leisure to consider how much there might be prudently in his power to do for them"},
	{7900, 10800, "he was not an ill disposed young man"},
	{11500, 16700, "unless to be rather cold hearted and rather selfish is to be ill disposed"},
	{17400, 23300, "had he married a more amiable woman he might have been made still more respectable than he was"},
	{23900, 27200, "he might even have been made amiable himself"},
}

func TestMemoryStaysSmall(t *testing.T) {
	// A word that every sentence shares would fill a matrix of 10^8 similarities.
	in := chatter(1, 10_000)
	for i := range in {
		in[i].Text += "ubiquitous everywhere always"
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Summarize(in, Options{Language: "xx"})
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 128 {
		t.Fatalf("Summarize allocated %d MB in total for 10,000 sentences, want at most 128", mb)
	}
}

func FuzzSummarize(f *testing.F) {
	f.Add("One. Two!\nthree four five six seven\neight", "en", int64(5))
	f.Add("l'homme n'est qu'un roseau\nle plus faible", "fr", int64(-1))
	f.Add("今日は晴れ\x00\u202e*[x](y)", "", int64(1)<<62)
	f.Add("'' n't 's don't ’s", "en", int64(0))
	f.Fuzz(func(t *testing.T, text, lang string, ms int64) {
		for _, lang := range []string{lang, "en", "es", "fr", "hu", "no", "ru", "sv"} {
			var in []Sentence
			for i, l := range strings.Split(text, "\n") {
				in = append(in, Sentence{int64(i) * ms, int64(i)*ms + ms, l})
			}
			got := Summarize(in, Options{Language: lang, Title: text})
			if got.NoSpeech != (len(got.Sentences) == 0) {
				t.Fatalf("Summarize(%q) = %+v: no sentence though there was speech", text, got)
			}
			for i, s := range got.Sentences {
				if s.EndMS < s.StartMS || s.StartMS < 0 || s.Text != clean(s.Text) || s.Text == "" {
					t.Fatalf("Summarize(%q): sentence %d is %+v", text, i, s)
				}
			}
			var b bytes.Buffer
			if err := WriteMarkdown(&b, got); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), "\n- "); n != len(got.Sentences) {
				t.Fatalf("Markdown %q has %d items, want %d", b.String(), n, len(got.Sentences))
			}
		}
	})
}

func BenchmarkSummarize(b *testing.B) {
	for _, n := range []int{200, 2_000, 10_000} {
		in := chatter(7, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Summarize(in, Options{Language: "en"})
			}
		})
	}
}
