package summarize

import (
	"strings"
	"unicode"

	"github.com/abadojack/whatlanggo"
)

const (
	detectBytes   = 32 << 10 // as much text as tells the language
	detectLetters = 30       // less text is a guess, whatever the detector says of itself
)

// bibliographic codes of ISO 639-2 differ from the terminological ones, and are
// what media files carry.
var bibliographic = map[string]string{
	"alb": "sq", "arm": "hy", "baq": "eu", "bur": "my", "chi": "zh", "cze": "cs", "dut": "nl", "fre": "fr", "geo": "ka", "ger": "de",
	"gre": "el", "ice": "is", "mac": "mk", "may": "ms", "per": "fa", "rum": "ro", "slo": "sk", "tib": "bo", "wel": "cy",
	"zho": "zh", "nor": "no", "nob": "no", "nno": "no", "nb": "no", "nn": "no", "norwegian": "no", "chinese": "zh",
}

// language settles the language of the text: what was asked for, reduced to a
// two-letter code, or what the text itself shows beyond doubt.
func language(asked string, sentences []Sentence) string {
	base, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(asked)), "_", "-"), "-")
	switch base {
	case "", "auto", "und", "mul", "zxx":
		return detect(sentences)
	}
	if two, ok := bibliographic[base]; ok {
		return two
	}
	for lang, name := range whatlanggo.Langs {
		if base == strings.ToLower(name) || base == lang.Iso6393() {
			return short(lang)
		}
	}
	if len(base) < 2 || len(base) > 8 || strings.IndexFunc(base, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return detect(sentences)
	}
	return base
}

// detect looks at sentences from all over the text, for titles and songs may be in another language.
func detect(sentences []Sentence) string {
	total := 0
	for _, s := range sentences {
		total += len(s.Text)
	}
	step := total/detectBytes + 1
	var b strings.Builder
	letters := 0
	for i := 0; i < len(sentences) && b.Len() < detectBytes; i += step {
		text := sentences[i].Text
		b.WriteString(text[:min(len(text), detectBytes)])
		b.WriteByte(' ')
	}
	text := strings.ToValidUTF8(b.String(), "")
	for _, r := range text {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	info := whatlanggo.Detect(text)
	if letters < detectLetters || !info.IsReliable() {
		return ""
	}
	return short(info.Lang)
}

func short(lang whatlanggo.Lang) string {
	code := lang.Iso6391()
	if code == "" {
		code = lang.Iso6393()
	}
	if two, ok := bibliographic[code]; ok {
		return two
	}
	return code
}
