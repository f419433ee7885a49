package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text one line that shows what it says: white space runs become a
// space, control, bidi and invisible formatting characters go. The two joiners
// stay: Persian words and emoji need them.
func clean(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.In(r, unicode.Z):
			return ' '
		case r == '\u200c' || r == '\u200d':
			return r
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
