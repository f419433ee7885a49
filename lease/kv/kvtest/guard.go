package kvtest

import (
	"bytes"
	"hash/maphash"
	"testing"

	"macbatch/lease/kv"
)

// Guard returns e, watched: a caller that breaks its side of the contract fails
// the test. It must not write a key twice in a transaction, write inside a scan,
// change what it gave before the transaction ended, or use or change what it was
// handed after (it gets copies, overwritten at the end).
func Guard(t testing.TB, e kv.Engine) kv.Engine { return guard{t, e} }

type guard struct {
	t testing.TB
	kv.Engine
}

func (g guard) View(fn func(kv.Reader) error) error {
	return g.Engine.View(func(r kv.Reader) error {
		w := &watch{t: g.t, r: r}
		defer w.end()
		return fn(w)
	})
}

func (g guard) Update(fn func(kv.Writer) error) error {
	return g.Engine.Update(func(r kv.Writer) error {
		w := &watch{t: g.t, r: r, keys: map[string]bool{}}
		defer w.end()
		return fn(watchWriter{w, r})
	})
}

// watch is one transaction.
type watch struct {
	t        testing.TB
	r        kv.Reader
	scanning int
	keys     map[string]bool
	given    []sum
	handed   [][]byte
}

type sum struct {
	slice []byte
	hash  uint64
}

var seed = maphash.MakeSeed()

func (w *watch) end() {
	w.t.Helper()
	for _, s := range w.given {
		if maphash.Bytes(seed, s.slice) != s.hash {
			w.t.Errorf("a slice given to the transaction was changed before it ended: now %.40q", s.slice)
		}
	}
	for _, b := range w.handed {
		for i := range b {
			b[i] = 0xDB
		}
	}
}

func (w *watch) hand(b []byte) []byte {
	if b == nil {
		return nil
	}
	b = bytes.Clone(b)
	w.handed = append(w.handed, b)
	return b
}

func (w *watch) keep(b []byte) { w.given = append(w.given, sum{b, maphash.Bytes(seed, b)}) }

func (w *watch) write(key []byte) {
	w.t.Helper()
	if w.scanning > 0 {
		w.t.Errorf("write of %.40q inside a scan", key)
	}
}

func (w *watch) Get(key []byte) []byte { return w.hand(w.r.Get(key)) }

func (w *watch) Scan(from, to []byte, fn func(key, value []byte) bool) {
	w.scanning++
	defer func() { w.scanning-- }()
	w.r.Scan(from, to, func(k, v []byte) bool { return fn(w.hand(k), w.hand(v)) })
}

func (w *watch) Log(from uint64, fn func(seq uint64, record []byte) bool) {
	w.scanning++
	defer func() { w.scanning-- }()
	w.r.Log(from, func(seq uint64, r []byte) bool { return fn(seq, w.hand(r)) })
}

func (w *watch) LogBack(from uint64, fn func(seq uint64, record []byte) bool) {
	w.scanning++
	defer func() { w.scanning-- }()
	w.r.LogBack(from, func(seq uint64, r []byte) bool { return fn(seq, w.hand(r)) })
}

type watchWriter struct {
	*watch
	w kv.Writer
}

// once notes that key was written.
func (w watchWriter) once(key []byte) {
	w.t.Helper()
	if w.keys[string(key)] {
		w.t.Errorf("key %.40q is written twice in one transaction", key)
	}
	w.keys[string(key)] = true
	w.keep(key)
}

func (w watchWriter) Put(key, value []byte) error {
	w.t.Helper()
	w.write(key)
	err := w.w.Put(key, value)
	if err == nil {
		w.once(key)
		w.keep(value)
	}
	return err
}

func (w watchWriter) Delete(key []byte) error {
	w.t.Helper()
	w.write(key)
	err := w.w.Delete(key)
	if err == nil {
		w.once(key)
	}
	return err
}

func (w watchWriter) Append(seq uint64, record []byte) error {
	w.t.Helper()
	w.write(record)
	w.keep(record)
	return w.w.Append(seq, record)
}

func (w watchWriter) Trim(before uint64) error {
	w.t.Helper()
	w.write(nil)
	return w.w.Trim(before)
}
