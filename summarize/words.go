package summarize

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is one word of a text.
type word struct {
	text string // as written
	stem string // empty for stop words: they count, but tell nothing
	name bool   // may stand as a keyword
}

const maxWordBytes = 64 // a longer word is noise: not stemmed, no keyword

// words yields the words of a text. In scripts written without spaces each two
// neighbouring letters stand for a word.
func (l *lexicon) words(text string) iter.Seq[word] {
	return func(yield func(word) bool) {
		for run := range strings.FieldsFuncSeq(text, l.between) {
			for run != "" {
				n := prefix(run, false)
				if n > 0 {
					if w := strings.Trim(run[:n], "'’"); w != "" && !yield(l.word(w)) {
						return
					}
				} else {
					n = prefix(run, true)
					for _, pair := range pairs(run[:n]) {
						if !yield(word{text: pair, stem: pair, name: allHan(pair)}) {
							return
						}
					}
				}
				run = run[n:]
			}
		}
	}
}

// between reports whether r stands between words.
func (l *lexicon) between(r rune) bool {
	if r == '\'' || r == '’' {
		return l.elides
	}
	return !unicode.In(r, unicode.L, unicode.M, unicode.N)
}

// word looks up w, which holds no separators, once for each spelling.
func (l *lexicon) word(w string) word {
	if known, ok := l.seen[w]; ok {
		return known
	}
	bare := l.bare(w)
	low := strings.ToLower(bare)
	out := word{text: bare}
	letters := utf8.RuneCountInString(low)
	if digits := strings.IndexFunc(low, unicode.IsLetter) < 0; !l.stops(low) && (letters > 1 || !digits) {
		out.stem = low
		if l.stem != nil && len(low) <= maxWordBytes {
			out.stem = l.stem(low, false)
		}
		out.name = !digits && letters > 2 && len(low) <= maxWordBytes
	}
	l.seen[w] = out
	return out
}

var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

func isUnspaced(r rune) bool { return r >= 0xe00 && unicode.In(r, unspaced...) }

// prefix is the length of the stretch that s begins with, in an unspaced script or not.
func prefix(s string, un bool) int {
	if i := strings.IndexFunc(s, func(r rune) bool { return isUnspaced(r) != un }); i >= 0 {
		return i
	}
	return len(s)
}

// pairs are the neighbouring letters of s; a letter alone is itself.
func pairs(s string) []string {
	var out []string
	first, second := 0, 0
	for i := range s {
		if second > 0 {
			out = append(out, s[first:i])
			first = second
		}
		second = i
	}
	return append(out, s[first:])
}

func allHan(s string) bool {
	return utf8.RuneCountInString(s) == 2 && strings.IndexFunc(s, func(r rune) bool { return !unicode.Is(unicode.Han, r) }) < 0
}

// wordCount is how many words a reader would count; two letters of an unspaced
// script count as one.
func wordCount(s string) int {
	words, letters, inside := 0, 0, false
	for _, r := range s {
		switch {
		case isUnspaced(r):
			letters++
			inside = false
		case unicode.IsSpace(r):
			inside = false
		case !inside:
			words++
			inside = true
		}
	}
	return words + (letters+1)/2
}
