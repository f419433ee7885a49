package model

import "math"

// CheckVectors returns an ErrBadAnswer unless there are n vectors of one length,
// dims where that is not 0, all of them finite and not all zero.
func CheckVectors(vectors [][]float32, n, dims int) error {
	if len(vectors) != n {
		return Errorf(ErrBadAnswer, "%d vectors for %d inputs", len(vectors), n)
	}
	for i, v := range vectors {
		if dims == 0 {
			dims = len(v)
		}
		if len(v) == 0 || len(v) != dims {
			return Errorf(ErrBadAnswer, "vector %d has %d numbers, want %d", i, len(v), dims)
		}
		zero := true
		for _, x := range v {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return Errorf(ErrBadAnswer, "vector %d is not finite", i)
			}
			zero = zero && x == 0
		}
		if zero {
			return Errorf(ErrBadAnswer, "vector %d is zero", i)
		}
	}
	return nil
}
