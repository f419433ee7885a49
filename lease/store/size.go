package store

import "math/bits"

// size is about how much work a shard is, in one byte: what a place in the queue
// has room for. 0 is none; each step is an eighth of a power of two.
type size uint8

// sizeOf rounds down.
func sizeOf(work uint64) size {
	if work == 0 {
		return 0
	}
	exp := bits.Len64(work) - 1
	if exp >= 31 {
		return 1 + 31*8
	}
	return size(1 + exp*8 + int(work<<3>>exp&7))
}

// work is the least that has the size.
func (s size) work() uint64 {
	if s == 0 {
		return 0
	}
	s--
	return (8 + uint64(s&7)) << (s >> 3) >> 3
}
