package store

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// overlay is what is to be written: the newest value of each key. Most keys are
// those of shards, all of one length: they are kept as two numbers, which cost
// less to find and to sort than strings.
type overlay struct {
	rows map[rowKey]int // where in list
	list []rowWrite
	rest map[string][]byte // by any other key; nil: delete
}

// rowKey is a key of shardKeyBytes, in an order of its own that is theirs too.
type rowKey struct{ high, low uint64 }

type rowWrite struct {
	key   rowKey
	value []byte // nil: delete
}

func newOverlay() *overlay {
	return &overlay{rows: map[rowKey]int{}, rest: map[string][]byte{}}
}

func rowKeyOf(k []byte) rowKey {
	return rowKey{binary.BigEndian.Uint64(k), uint64(k[8])<<32 | uint64(binary.BigEndian.Uint32(k[9:]))}
}

// appendTo appends the key's bytes.
func (k rowKey) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, k.high)
	return binary.BigEndian.AppendUint32(append(b, byte(k.low>>32)), uint32(k.low))
}

func (k rowKey) compare(o rowKey) int {
	if k.high != o.high {
		return cmp.Compare(k.high, o.high)
	}
	return cmp.Compare(k.low, o.low)
}

func (o *overlay) len() int { return len(o.list) + len(o.rest) }

// get tells whether a key is written, and its value.
func (o *overlay) get(key []byte) (value []byte, ok bool) {
	if len(key) != shardKeyBytes {
		value, ok = o.rest[string(key)]
		return value, ok
	}
	if len(o.list) == 0 {
		return nil, false
	}
	i, ok := o.rows[rowKeyOf(key)]
	if !ok {
		return nil, false
	}
	return o.list[i].value, true
}

// put keeps value, but not key. A nil value deletes.
func (o *overlay) put(key, value []byte) {
	if len(key) == shardKeyBytes {
		o.putRow(rowKeyOf(key), value)
	} else {
		o.rest[string(key)] = value
	}
}

func (o *overlay) putRow(key rowKey, value []byte) {
	if i, ok := o.rows[key]; ok {
		o.list[i].value = value
		return
	}
	o.rows[key] = len(o.list)
	o.list = append(o.list, rowWrite{key, value})
}

// add takes in what another one holds.
func (o *overlay) add(other *overlay) {
	for i := range other.list {
		o.putRow(other.list[i].key, other.list[i].value)
	}
	maps.Copy(o.rest, other.rest)
}

// each calls fn for all pairs, those of shards first, in the order of their keys;
// the bytes of the keys are in keys. Afterwards nothing is found any more: clear
// comes next.
func (o *overlay) each(keys *arena, fn func(key, value []byte) error) error {
	slices.SortFunc(o.list, func(a, b rowWrite) int { return a.key.compare(b.key) })
	for i := range o.list {
		key := keys.take(o.list[i].key.appendTo(keys.room(shardKeyBytes)))
		if err := fn(key, o.list[i].value); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(o.rest)) {
		if err := fn([]byte(k), o.rest[k]); err != nil {
			return err
		}
	}
	return nil
}

// clear forgets everything, keeping the room.
func (o *overlay) clear() {
	clear(o.rows)
	clear(o.list)
	clear(o.rest)
	o.list = o.list[:0]
}

// Of an arena that begins anew so much is kept.
const (
	chunkBytes = 256 << 10
	maxChunks  = 8
)

// arena is memory for many small values that end together.
type arena struct {
	chunks [][]byte
	used   int // chunks that are full
}

// room returns a slice without elements to append up to n bytes to. What was
// appended is kept by take.
func (a *arena) room(n int) []byte {
	for {
		if a.used == len(a.chunks) {
			a.chunks = append(a.chunks, make([]byte, 0, max(n, chunkBytes)))
		}
		if b := a.chunks[a.used]; cap(b)-len(b) >= n {
			return b[len(b):len(b):cap(b)]
		}
		a.used++
	}
}

// take keeps b, which was made of the newest room.
func (a *arena) take(b []byte) []byte {
	c := a.chunks[a.used]
	if len(b) <= cap(c)-len(c) { // else it outgrew the room, and is no part of the arena
		a.chunks[a.used] = c[:len(c)+len(b)]
	}
	return b[:len(b):len(b)]
}

// clear ends all values.
func (a *arena) clear() {
	for i := range a.chunks {
		a.chunks[i] = a.chunks[i][:0]
	}
	clear(a.chunks[min(len(a.chunks), maxChunks):])
	a.chunks, a.used = a.chunks[:min(len(a.chunks), maxChunks)], 0
}
