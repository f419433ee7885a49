package summarize

import (
	"cmp"
	"math"
	"slices"
)

// term is a stem and the words that were reduced to it.
type term struct {
	forms map[string]int // as written
	in    int            // sentences that hold it
	name  bool           // may stand as a keyword
}

// vectors turns each sentence into its row and lists the terms by column.
func vectors(sentences []Sentence, lex *lexicon) (*matrix, []term) {
	m := &matrix{start: []int{0}}
	var terms []term
	columns := map[string]int32{}
	counts := map[int32]float64{}
	var row []int32
	for _, s := range sentences {
		clear(counts)
		row = row[:0]
		words := 0
		for w := range lex.words(s.Text) {
			words++
			if w.stem == "" {
				continue
			}
			c, ok := columns[w.stem]
			if !ok {
				c = int32(len(terms))
				columns[w.stem] = c
				terms = append(terms, term{forms: map[string]int{}, name: w.name})
			}
			if counts[c] == 0 {
				row = append(row, c)
				terms[c].in++
			}
			counts[c]++
			terms[c].forms[w.text]++
		}
		slices.Sort(row)
		for _, c := range row {
			m.term = append(m.term, c)
			m.weight = append(m.weight, counts[c])
		}
		m.start = append(m.start, len(m.term))
		m.words = append(m.words, words)
	}
	m.terms = len(terms)
	m.weigh(terms)
	return m, terms
}

// weigh turns counts into TF-IDF weights of unit length. A term that is in every
// sentence keeps a little weight, else a text of one sentence would have none.
func (m *matrix) weigh(terms []term) {
	n := float64(len(m.words))
	for i := range m.words {
		square := 0.0
		for k := m.start[i]; k < m.start[i+1]; k++ {
			m.weight[k] *= math.Log((n + 1) / float64(terms[m.term[k]].in))
			square += float64(m.weight[k] * m.weight[k])
		}
		for k := m.start[i]; k < m.start[i+1]; k++ {
			m.weight[k] /= math.Sqrt(square)
		}
	}
}

// keywords are the terms that weigh most in the sentences that rank high, each in
// the form that was written most often.
func keywords(m *matrix, scores []float64, terms []term) []string {
	weights := make([]float64, len(terms))
	m.gather(scores, weights)
	var order []int
	repeated := 0
	for c, t := range terms {
		if t.name {
			order = append(order, c)
			if t.in > 1 {
				repeated++
			}
		}
	}
	if repeated >= maxKeywords { // what was said once is no theme of a long text
		order = slices.DeleteFunc(order, func(c int) bool { return terms[c].in < 2 })
	}
	slices.SortFunc(order, func(a, b int) int { // columns ascend with the first appearance
		return cmp.Or(cmp.Compare(grain(weights[b], m), grain(weights[a], m)), cmp.Compare(a, b))
	})
	out := []string{}
	for _, c := range order[:min(len(order), maxKeywords)] {
		out = append(out, commonest(terms[c].forms))
	}
	return out
}

// commonest is the form seen most often; among equals the small-lettered one.
func commonest(forms map[string]int) string {
	best, seen := "", 0
	for f, n := range forms {
		if n > seen || n == seen && f > best { // small letters sort after capitals
			best, seen = f, n
		}
	}
	return best
}
