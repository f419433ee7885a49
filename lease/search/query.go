package search

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"macbatch/lease"
)

// Bounds of a query.
const (
	maxTerms = 32 // words and phrases
	maxDepth = 16 // parentheses within each other
)

// match translates the words of a query into an expression of FTS5. What the index
// would read as anything but text is quoted. Errors wrap lease.ErrInvalid.
func match(words string) (string, error) {
	p := parser{rest: words}
	expr, err := p.whole()
	if err != nil {
		return "", fmt.Errorf("search for %q: %w: %w", clip(words), err, lease.ErrInvalid)
	}
	return expr, nil
}

func clip(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

// token is a piece of a query.
type token struct {
	kind   rune   // 0 the end, '(' or ')', 'w' a word, 'p' a phrase, 'A' AND, 'O' OR, 'N' NOT
	text   string // of a word or phrase
	prefix bool   // it is followed by *
}

func (t token) String() string {
	switch t.kind {
	case 0:
		return "the end"
	case 'A':
		return "AND"
	case 'O':
		return "OR"
	case 'N':
		return "NOT"
	case '(', ')':
		return fmt.Sprintf("%q", string(t.kind))
	}
	return fmt.Sprintf("%q", t.text)
}

// parser reads: either = both {OR both}; both = but {[AND] but}; but = one {NOT one};
// one = word | phrase | "(" either ")".
type parser struct {
	rest  string
	next  token
	terms int
	depth int
}

func (p *parser) whole() (string, error) {
	switch {
	case len(p.rest) > lease.MaxQuery:
		return "", fmt.Errorf("%d bytes, over %d", len(p.rest), lease.MaxQuery)
	case !utf8.ValidString(p.rest):
		return "", fmt.Errorf("it is no UTF-8")
	case strings.ContainsRune(p.rest, 0):
		return "", fmt.Errorf("it holds a NUL")
	}
	if err := p.advance(); err != nil {
		return "", err
	}
	if p.next.kind == 0 {
		return "", fmt.Errorf("no words")
	}
	expr, err := p.either()
	if err == nil && p.next.kind != 0 {
		err = fmt.Errorf("%v without one that opens", p.next)
	}
	return expr, err
}

func (p *parser) either() (string, error) {
	expr, err := p.both()
	for err == nil && p.next.kind == 'O' {
		expr, err = p.operator(expr, "OR", p.both)
	}
	return expr, err
}

func (p *parser) both() (string, error) {
	expr, err := p.but()
	for err == nil {
		switch p.next.kind {
		case 'A':
			expr, err = p.operator(expr, "AND", p.but)
		case 'w', 'p', '(':
			var right string
			if right, err = p.but(); err == nil {
				expr = "(" + expr + " AND " + right + ")"
			}
		default:
			return expr, nil
		}
	}
	return "", err
}

func (p *parser) but() (string, error) {
	expr, err := p.one()
	for err == nil && p.next.kind == 'N' {
		expr, err = p.operator(expr, "NOT", p.one)
	}
	return expr, err
}

// operator joins what was read with what follows the operator that is next.
func (p *parser) operator(left, name string, side func() (string, error)) (string, error) {
	if err := p.advance(); err != nil {
		return "", err
	}
	switch p.next.kind {
	case 'w', 'p', '(':
	default:
		return "", fmt.Errorf("%s is followed by %v: words must stand on both sides of it", name, p.next)
	}
	right, err := side()
	return "(" + left + " " + name + " " + right + ")", err
}

func (p *parser) one() (string, error) {
	t := p.next
	switch t.kind {
	case 'w', 'p':
		if p.terms++; p.terms > maxTerms {
			return "", fmt.Errorf("more than %d words and phrases", maxTerms)
		}
		if !hasWord(t.text) {
			return "", fmt.Errorf("%v has neither letters nor digits", t)
		}
		expr := `"` + strings.ReplaceAll(t.text, `"`, `""`) + `"`
		if t.prefix {
			expr += " *"
		}
		return expr, p.advance()
	case '(':
		if p.depth++; p.depth > maxDepth {
			return "", fmt.Errorf("parentheses deeper than %d", maxDepth)
		}
		if err := p.advance(); err != nil {
			return "", err
		}
		expr, err := p.either()
		if err != nil {
			return "", err
		}
		if p.next.kind != ')' {
			return "", fmt.Errorf("%q is not closed", "(")
		}
		p.depth--
		return expr, p.advance()
	case 0:
		return "", fmt.Errorf("words are missing at its end")
	}
	return "", fmt.Errorf("%v has no words before it; to look for the word itself, quote it", t)
}

// hasWord reports whether the index finds a word in a text.
func hasWord(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// advance reads the next token.
func (p *parser) advance() error {
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	if p.rest == "" {
		p.next = token{}
		return nil
	}
	switch c := p.rest[0]; c {
	case '(', ')':
		p.next, p.rest = token{kind: rune(c)}, p.rest[1:]
		return nil
	case '"':
		text, rest, closed := strings.Cut(p.rest[1:], `"`)
		if !closed {
			return fmt.Errorf("a quote is not closed")
		}
		p.next, p.rest = token{kind: 'p', text: text}, rest
	default:
		end := strings.IndexFunc(p.rest, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"()*`, r) })
		if end < 0 {
			end = len(p.rest)
		}
		p.next, p.rest = token{kind: 'w', text: p.rest[:end]}, p.rest[end:]
	}
	if rest, ok := strings.CutPrefix(p.rest, "*"); ok {
		if p.next.prefix, p.rest = true, rest; rest != "" && !unicode.IsSpace(first(rest)) && first(rest) != ')' {
			return fmt.Errorf("%q stands for the rest of a word: behind %v something follows it", "*", p.next)
		}
		if utf8.RuneCountInString(p.next.text) < minPrefix {
			return fmt.Errorf("%v is too short a beginning of a word: at least %d letters", p.next, minPrefix)
		}
		return nil
	}
	if p.next.kind == 'w' {
		switch p.next.text {
		case "AND":
			p.next.kind = 'A'
		case "OR":
			p.next.kind = 'O'
		case "NOT":
			p.next.kind = 'N'
		}
	}
	return nil
}

func first(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// minPrefix is how many letters a prefix must have: all words that begin with one
// letter are too many.
const minPrefix = 2
