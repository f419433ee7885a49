package model

import (
	"strings"
	"unicode"
)

// CheckWhole returns ErrOverflow when a server counted so few tokens that it cannot
// have read all of the texts: some cut what is too long and say nothing. Words are
// tokens at least, but for a few; letters of scripts that need no spaces are a
// quarter of one at least. A count of 0 tells nothing.
func CheckWhole(tokens int, texts ...string) error {
	if tokens <= 0 {
		return nil
	}
	least := 0
	for _, t := range texts {
		least += leastTokens(t)
	}
	if least < minJudged || tokens >= least {
		return nil
	}
	return Errorf(ErrOverflow, "the server counted %d tokens where there must be %d: it cut the text", tokens, least)
}

// minJudged is the fewest tokens from which on a count is doubted.
const minJudged = 64

// leastTokens is a lower bound of a text's tokens, whatever the model.
func leastTokens(s string) int {
	dense := 0
	for _, r := range s {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer) {
			dense++
		}
	}
	return len(strings.Fields(s))/2 + dense/4
}

// promptTexts are the texts of a request's messages.
func promptTexts(q *GenerateRequest) []string {
	texts := make([]string, len(q.Messages))
	for i, m := range q.Messages {
		texts[i] = m.Text
	}
	return texts
}

// CheckPrompt is CheckWhole of all that a request says.
func CheckPrompt(tokens int, q *GenerateRequest) error { return CheckWhole(tokens, promptTexts(q)...) }
