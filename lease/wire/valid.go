package wire

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// badJSON says what is wrong with a JSON value that stands depth levels deep in a
// body, as the strict decoder would; "" when it is good and compact.
func badJSON(v []byte, depth int) string {
	switch {
	case plain(v, MaxDepth-depth):
		return ""
	case tooDeep(v, MaxDepth-depth) >= 0:
		return "JSON nested too deep"
	case !jsontext.Value(v).IsValid():
		return "JSON not valid"
	case !Compact(v):
		return "white space in JSON"
	}
	return ""
}

// What plain keeps in view. More makes it give up.
const (
	plainDepth = 16
	plainNames = 32
)

// plain reports whether v is good JSON of the usual sort. It answers no for what
// is bad, and for what it leaves to the whole decoder: names with escapes, escapes
// of code points, large objects and deep nesting.
func plain(v []byte, limit int) bool {
	var names [plainNames][]byte // of the objects that are open
	var first [plainDepth]int    // where those of each begin; -1 for an array
	depth, known := 0, 0
	i := 0
	for {
		// A value begins at i.
		if i >= len(v) {
			return false
		}
		open := false
		switch c := v[i]; {
		case c == '{' || c == '[':
			if depth == plainDepth || depth >= limit {
				return false
			}
			first[depth] = known
			if c == '[' {
				first[depth] = -1
			}
			depth++
			i++
			if i < len(v) && v[i] == c+2 { // empty
				depth--
				i++
			} else {
				open = true
			}
		case c == '"':
			if i = plainString(v, i, true); i < 0 {
				return false
			}
		default:
			n := literal(v[i:])
			if n == 0 {
				return false
			}
			i += n
		}
		// Behind a value, or within what has just opened.
		for !open {
			if depth == 0 {
				return i == len(v)
			}
			if i >= len(v) {
				return false
			}
			object := first[depth-1] >= 0
			c := v[i]
			i++
			if c == ',' {
				break
			}
			if object && c != '}' || !object && c != ']' {
				return false
			}
			if depth--; object {
				known = first[depth]
			}
		}
		if first[depth-1] < 0 {
			continue
		}
		at := i
		if i = plainString(v, i, false); i < 0 || i >= len(v) || v[i] != ':' || known == plainNames {
			return false
		}
		name := v[at:i]
		for _, n := range names[first[depth-1]:known] {
			if bytes.Equal(n, name) {
				return false
			}
		}
		names[known] = name
		known++
		i++
	}
}

// plainString returns the offset behind the string that begins at i, or -1 when
// it is none, or none that is plain.
func plainString(v []byte, i int, escapes bool) int {
	if i >= len(v) || v[i] != '"' {
		return -1
	}
	begin, ascii := i+1, true
	for i++; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			if !ascii && !utf8.Valid(v[begin:i]) {
				return -1
			}
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i++; !escapes || i >= len(v) || bytes.IndexByte([]byte(`"\/bfnrt`), v[i]) < 0 {
				return -1
			}
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return -1
}

// literal is the length of the number or word at the beginning of v; 0 when it
// begins with neither.
func literal(v []byte) int {
	for _, w := range []string{"true", "false", "null"} {
		if len(v) >= len(w) && string(v[:len(w)]) == w {
			return len(w)
		}
	}
	digits := func(i int) int {
		for i < len(v) && v[i] >= '0' && v[i] <= '9' {
			i++
		}
		return i
	}
	i := 0
	if i < len(v) && v[i] == '-' {
		i++
	}
	end := digits(i)
	if end == i || v[i] == '0' && end > i+1 {
		return 0
	}
	if i = end; i < len(v) && v[i] == '.' {
		if end = digits(i + 1); end == i+1 {
			return 0
		}
		i = end
	}
	if i < len(v) && (v[i] == 'e' || v[i] == 'E') {
		if i++; i < len(v) && (v[i] == '+' || v[i] == '-') {
			i++
		}
		if end = digits(i); end == i {
			return 0
		}
		i = end
	}
	return i
}
