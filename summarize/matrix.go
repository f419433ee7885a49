package summarize

import "math"

// matrix holds a unit vector of TF-IDF weights for each sentence, in sparse rows.
// The matrix of similarities S is never built: S = X·Xᵀ, so that a product with S
// is two products with X, and ten thousand sentences cost a few megabytes.
type matrix struct {
	start  []int     // row i is [start[i], start[i+1]) of the two below
	term   []int32   // ascending within a row
	weight []float64 // beside term
	words  []int     // words of each sentence, stop words included
	terms  int
}

const (
	damping    = 0.85 // the share of steps that follow a similarity
	converged  = 1e-9 // L1 distance of two iterations
	iterations = 200  // 0.85^200 is far below converged
	related    = 1e-9 // a smaller sum of similarities is rounding noise
)

// rank is continuous LexRank: the stationary distribution of a walk from sentence
// to sentence, by similarity, with random jumps. The result sums to one.
func (m *matrix) rank() []float64 {
	n := len(m.words)
	p, next, share := make([]float64, n), make([]float64, n), make([]float64, n)
	degree, sums := make([]float64, n), make([]float64, m.terms)
	for i := range p {
		p[i], share[i] = 1/float64(n), 1
	}
	m.gather(share, sums)
	for i := range degree {
		degree[i] = m.similarity(i, sums, 1)
	}
	for range iterations {
		loose := 0.0 // mass of sentences that resemble no other
		for i := range p {
			share[i] = 0
			if degree[i] > related {
				share[i] = p[i] / degree[i]
			} else {
				loose += p[i]
			}
		}
		m.gather(share, sums)
		moved := 0.0
		for i := range next {
			next[i] = (1-damping)/float64(n) + float64(damping*(m.similarity(i, sums, share[i])+loose/float64(n)))
			moved += math.Abs(next[i] - p[i])
		}
		p, next = next, p
		if moved < converged {
			break
		}
	}
	return p
}

// gather sets sums to Xᵀ·v.
func (m *matrix) gather(v, sums []float64) {
	clear(sums)
	for i := range m.words {
		for k := m.start[i]; k < m.start[i+1]; k++ {
			sums[m.term[k]] += float64(v[i] * m.weight[k]) // the conversion forbids fusing
		}
	}
}

// similarity is row i of S times the vector behind sums, without what the sentence
// itself, whose share is own, put in.
func (m *matrix) similarity(i int, sums []float64, own float64) float64 {
	if m.start[i] == m.start[i+1] {
		return 0
	}
	dot := 0.0
	for k := m.start[i]; k < m.start[i+1]; k++ {
		dot += float64(m.weight[k] * sums[m.term[k]])
	}
	return max(dot-own, 0)
}

// cosine is the similarity of two sentences, from 0 to 1.
func (m *matrix) cosine(a, b int) float64 {
	i, j, dot := m.start[a], m.start[b], 0.0
	for i < m.start[a+1] && j < m.start[b+1] {
		switch {
		case m.term[i] < m.term[j]:
			i++
		case m.term[i] > m.term[j]:
			j++
		default:
			dot += float64(m.weight[i] * m.weight[j])
			i++
			j++
		}
	}
	return dot
}
