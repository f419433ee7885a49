package summarize

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" \n\n \t", nil},
		{"no stop at all", []string{"no stop at all"}},
		{"One. Two! Three? Four", []string{"One.", "Two!", "Three?", "Four"}},
		{"Mr. Smith met Dr. J. R. Jones at 5 p.m. in St. Ives. They spoke.", []string{"Mr. Smith met Dr. J. R. Jones at 5 p.m. in St. Ives.", "They spoke."}},
		{"Pi is 3.14, not 3. See example.org now.", []string{"Pi is 3.14, not 3.", "See example.org now."}},
		{"It costs 1.000.000 euros. Too much.", []string{"It costs 1.000.000 euros.", "Too much."}},
		{`"Stop!" he said. "Why?" She ran.`, []string{`"Stop!" he said.`, `"Why?"`, "She ran."}},
		{"He said, “Go.” Then he left.", []string{"He said, “Go.”", "Then he left."}},
		{"Er rief: „Halt!“ Dann kam der 3. Oktober. Am 3. Oktober war es kalt, d.h. unter null.", []string{"Er rief: „Halt!“", "Dann kam der 3. Oktober.", "Am 3. Oktober war es kalt, d.h. unter null."}},
		{"»Halt!« Er blieb stehen.", []string{"»Halt!«", "Er blieb stehen."}},
		{"No. I will not. See No. 7.", []string{"No.", "I will not.", "See No. 7."}},
		{"So did I. Then we left.", []string{"So did I.", "Then we left."}},
		{"The U.S. Army came. Plants etc. grew, but not Acme Inc. There it was dry.", []string{"The U.S. Army came.", "Plants etc. grew, but not Acme Inc.", "There it was dry."}},
		{"Well... maybe. Wait… Really?! Yes.", []string{"Well... maybe.", "Wait…", "Really?!", "Yes."}},
		{"1. First point. 2. Second point.", []string{"1. First point.", "2. Second point."}},
		{"¿Qué pasa? ¡Nada! Vale.", []string{"¿Qué pasa?", "¡Nada!", "Vale."}},
		{"今日は晴れです。「行こう。」彼は言った！本当？", []string{"今日は晴れです。", "「行こう。」", "彼は言った！", "本当？"}},
		{"यह एक वाक्य है। यह दूसरा है।", []string{"यह एक वाक्य है।", "यह दूसरा है।"}},
		{"هل أنت هنا؟ نعم.", []string{"هل أنت هنا؟", "نعم."}},
		{"A heading\n\nText that is\nwrapped. More", []string{"A heading", "Text that is wrapped.", "More"}},
		{"A heading\r\n\r\nText", []string{"A heading", "Text"}},
		{"...", []string{"..."}},
	} {
		if got := Split(c.in); !slices.Equal(got, c.want) {
			t.Errorf("Split(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"One. Two.", "a\n\nb", "Mr. X.\xff\x00 3.14", "今日。「はい。」", "..?!\"“ »"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts := Split(text)
		bare := func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsSpace(r) {
					return -1
				}
				return r
			}, s)
		}
		if got, want := bare(strings.Join(parts, "")), bare(text); got != want {
			t.Fatalf("Split(%q) holds %q, want %q", text, got, want)
		}
		for _, p := range parts {
			if p == "" || strings.TrimSpace(p) != p {
				t.Fatalf("Split(%q) has the part %q", text, p)
			}
		}
	})
}
