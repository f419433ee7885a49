package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Split cuts punctuated text into sentences. Nothing is lost but white space at
// the cuts; runs of it inside a sentence become one space. A blank line always
// ends a sentence, a single line break never does.
func Split(text string) []string {
	var out []string
	for _, sp := range spans(text) {
		if s := strings.Join(strings.Fields(text[sp.from:sp.to]), " "); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// span is a sentence's place in a text, in bytes.
type span struct {
	from, to int
	ended    bool // by a full stop, not by the end of the text
}

func spans(text string) []span {
	var out []span
	from := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n' && blankLine(text[i:]):
			if strings.TrimSpace(text[from:i]) != "" {
				out = append(out, span{from, i, false})
			}
			i += n
			from = i
		case isStop(r):
			end := i + len(text[i:]) - len(strings.TrimLeftFunc(text[i:], isStop))
			last, _ := utf8.DecodeLastRuneInString(text[:end])
			end += len(text[end:]) - len(strings.TrimLeftFunc(text[end:], isCloser))
			if endsSentence(text[from:i], text[i:end], text[end:], last) {
				out = append(out, span{from, end, true})
				from = end
			}
			i = end
		default:
			i += n
		}
	}
	if strings.TrimSpace(text[from:]) != "" {
		out = append(out, span{from, len(text), false})
	}
	return out
}

// blankLine reports whether the line break that rest begins with is followed by another.
func blankLine(rest string) bool {
	return strings.HasPrefix(strings.TrimLeft(rest[1:], " \t\r"), "\n")
}

const (
	spacedStops = ".!?…؟۔።፧։᙮" // a space must follow
	wideStops   = "。！？｡．।॥။៕"  // no space is needed
	closers     = `"'”’“‘»«›‹)]}」』）】〉》］`
	openers     = `"'“‘„‚”’«»‹›([{「『（【〈《［¿¡-–—`
)

func isStop(r rune) bool   { return r != 0 && strings.ContainsRune(spacedStops+wideStops, r) }
func isCloser(r rune) bool { return strings.ContainsRune(closers, r) }

// endsSentence judges a stop (with the closing quotes after it) by what stands
// before and after it; last is the last mark of the stop itself.
func endsSentence(before, stop, after string, last rune) bool {
	if strings.ContainsRune(wideStops, last) {
		return true
	}
	if after == "" {
		return true
	}
	if r, _ := utf8.DecodeRuneInString(after); !unicode.IsSpace(r) {
		return false // 3.14, example.org, "what?!no"
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(after, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(openers, r)
	}))
	if unicode.IsLower(next) {
		return false // "Stop!" he said.
	}
	if stop != "." {
		return true
	}
	return !abbreviated(before, unicode.IsDigit(next))
}

// abbreviated reports whether a full stop after text belongs to its last word and
// not to a sentence; digit says that a number comes next.
func abbreviated(text string, digit bool) bool {
	fields := strings.Fields(text[max(0, len(text)-128):])
	if len(fields) == 0 {
		return false
	}
	w := strings.TrimLeft(fields[len(fields)-1], openers)
	low := strings.ToLower(w)
	if titles[low] || digit && numbered[low] {
		return true
	}
	if utf8.RuneCountInString(w) == 1 && w != "I" && strings.IndexFunc(w, unicode.IsUpper) == 0 {
		return true // an initial
	}
	if strings.Contains(w, ".") && dotted(w) {
		return true // U.S. Army
	}
	if len(w) <= 2 && w != "" && strings.Trim(w, "0123456789") == "" {
		if len(fields) == 1 {
			return len(text) <= 128 // "1." numbers a list
		}
		return ordinals[strings.ToLower(fields[len(fields)-2])] // "am 3. Oktober"
	}
	return false
}

// dotted reports whether w is capitals with full stops between them.
func dotted(w string) bool {
	for part := range strings.SplitSeq(w, ".") {
		if utf8.RuneCountInString(part) != 1 || strings.IndexFunc(part, unicode.IsUpper) != 0 {
			return false
		}
	}
	return true
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// titles are abbreviations that more of the sentence follows. Those that often end
// one ("etc.", "Inc.", "p.m.") are left out: there a small letter after them tells.
var titles = set(`mr mrs ms mx dr prof st sr mt gen capt lt sgt cmdr maj rev hon sen supt insp messrs mme mlle m.m vs viz approx
	e.g i.e resp bzw z.b d.h u.a s.o s.u vgl hr dott sig sig.ra srta ул им т.е т.к`)

// numbered are abbreviations only before a number; else they may be words ("No.").
var numbered = set(`no nos nr n vol vols fig figs p pp ch chap sec art ed bd abs abb tel tab eq pág p.g núm cap jan feb mar apr jun jul
	aug sep sept oct okt nov dec dez ca c г`)

// ordinals stand before a number whose full stop makes it an ordinal, in German.
var ordinals = set("am der den dem die das des vom zum im seit bis ab beim")
