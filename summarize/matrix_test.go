package summarize

import (
	"math"
	"math/rand/v2"
	"testing"
)

// denseRank is LexRank written as in the paper: a full matrix, rows normalised.
func denseRank(m *matrix) []float64 {
	n := len(m.words)
	p := make([]float64, n)
	walk := make([][]float64, n)
	for i := range walk {
		p[i] = 1 / float64(n)
		walk[i] = make([]float64, n)
		sum := 0.0
		for j := range walk[i] {
			if i != j {
				walk[i][j] = m.cosine(i, j)
				sum += walk[i][j]
			}
		}
		for j := range walk[i] {
			if sum > related {
				walk[i][j] /= sum
			} else {
				walk[i][j] = 1 / float64(n)
			}
		}
	}
	for range 400 {
		next := make([]float64, n)
		for j := range next {
			for i := range p {
				next[j] += p[i] * walk[i][j]
			}
			next[j] = (1-damping)/float64(n) + damping*next[j]
		}
		p = next
	}
	return p
}

func TestRankEqualsDenseLexRank(t *testing.T) {
	for seed := range uint64(20) {
		m, _ := vectors(chatter(seed, 3+int(seed)*7), lexiconFor("en"))
		got, want := m.rank(), denseRank(m)
		sum := 0.0
		for i := range got {
			sum += got[i]
			if math.Abs(got[i]-want[i]) > 1e-7 {
				t.Fatalf("seed %d: rank()[%d] = %v, want %v", seed, i, got[i], want[i])
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("seed %d: ranks sum to %v, want 1", seed, sum)
		}
	}
}

// chatter is n sentences of made-up words with a natural spread of frequencies.
func chatter(seed uint64, n int) []Sentence {
	r := rand.New(rand.NewPCG(seed, 1))
	zipf := rand.NewZipf(r, 1.1, 4, 4000)
	syllables := []string{"ka", "lo", "mi", "tar", "ven", "dos", "pli", "gra", "su", "ne"}
	out := make([]Sentence, n)
	for i := range out {
		text := ""
		for range 4 + r.IntN(20) {
			for w := zipf.Uint64() + 10; w > 0; w /= 10 {
				text += syllables[w%10]
			}
			text += " "
		}
		out[i] = Sentence{StartMS: int64(i) * 4000, EndMS: int64(i)*4000 + 3500, Text: text}
	}
	return out
}
