// Package memkv is a storage engine in memory, for models and tests. Like a file's
// engine it keeps the slices it is given and hands out its own.
package memkv

import (
	"bytes"
	"sync"

	"github.com/tidwall/btree"

	"macbatch/lease/kv"
)

// pair is a key of the map, or a number of the log, with its value.
type pair struct {
	k []byte
	n uint64
	v []byte
}

// DB is an engine. Trees are copied on write: a view keeps the ones it began with.
type DB struct {
	mu   sync.Mutex
	m, l *btree.BTreeG[pair]
}

var _ kv.Engine = (*DB)(nil)

// New returns an empty engine.
func New() *DB {
	return &DB{m: btree.NewBTreeG(func(a, b pair) bool { return bytes.Compare(a.k, b.k) < 0 }), l: btree.NewBTreeG(func(a, b pair) bool { return a.n < b.n })}
}

type tx struct{ m, l *btree.BTreeG[pair] }

func (t *tx) Get(k []byte) []byte {
	p, ok := t.m.Get(pair{k: k})
	if !ok {
		return nil
	}
	if p.v == nil {
		return []byte{}
	}
	return p.v
}
func (t *tx) Scan(from, to []byte, fn func(k, v []byte) bool) {
	t.m.Ascend(pair{k: from}, func(p pair) bool {
		if to != nil && bytes.Compare(p.k, to) >= 0 {
			return false
		}
		return fn(p.k, p.v)
	})
}
func (t *tx) Log(from uint64, fn func(uint64, []byte) bool) {
	t.l.Ascend(pair{n: from}, func(p pair) bool { return fn(p.n, p.v) })
}
func (t *tx) LogBack(from uint64, fn func(uint64, []byte) bool) {
	t.l.Descend(pair{n: from}, func(p pair) bool { return fn(p.n, p.v) })
}
func (t *tx) Put(k, v []byte) error           { t.m.Set(pair{k: k, v: v}); return nil }
func (t *tx) Delete(k []byte) error           { t.m.Delete(pair{k: k}); return nil }
func (t *tx) Append(n uint64, v []byte) error { t.l.Set(pair{n: n, v: v}); return nil }
func (t *tx) Trim(n uint64) error             { return nil }
func (d *DB) View(fn func(kv.Reader) error) error {
	d.mu.Lock()
	t := &tx{d.m.Copy(), d.l.Copy()}
	d.mu.Unlock()
	return fn(t)
}
func (d *DB) Update(fn func(kv.Writer) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &tx{d.m.Copy(), d.l.Copy()}
	if err := fn(t); err != nil {
		return err
	}
	d.m, d.l = t.m, t.l
	return nil
}
func (d *DB) Close() error { return nil }
