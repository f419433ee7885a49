package boltkv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"macbatch/lease/kv"
)

// reader is a transaction of either kind.
type reader struct {
	pairs   *bbolt.Bucket
	records *bbolt.Bucket
	at      *place
}

// place is where Get was last: it would make a cursor each time, and seek, though
// the keys it is asked for are mostly neighbours.
type place struct {
	*bbolt.Cursor
	key []byte // there; nil: nowhere, or the bucket has changed since
}

func newReader(tx *bbolt.Tx) reader {
	defer found()
	pairs := tx.Bucket(mapBucket)
	return reader{pairs, tx.Bucket(logBucket), &place{Cursor: pairs.Cursor()}}
}

func (r reader) Get(key []byte) []byte { return r.at.get(key) }

func (p *place) get(key []byte) []byte {
	if n := len(key) - 1; n >= 0 && len(p.key) > n && bytes.Equal(p.key[:n], key[:n]) {
		var value []byte
		if p.key, value = next(p.Cursor); p.key != nil && bytes.Equal(p.key, key) {
			return value
		}
	}
	k, value := seek(p.Cursor, key)
	if p.key = k; k == nil || !bytes.Equal(k, key) {
		return nil
	}
	return value
}

func (r reader) Scan(from, to []byte, fn func(key, value []byte) bool) {
	c := r.pairs.Cursor()
	for k, v := seek(c, from); k != nil; k, v = next(c) {
		if to != nil && string(k) >= string(to) || !fn(k, v) {
			return
		}
	}
}

func (r reader) Log(from uint64, fn func(seq uint64, record []byte) bool) {
	c := r.records.Cursor()
	for k, v := seek(c, logKey(from)); k != nil; k, v = next(c) {
		if !fn(seqOf(k), v) {
			return
		}
	}
}

func (r reader) LogBack(from uint64, fn func(seq uint64, record []byte) bool) {
	c := r.records.Cursor()
	k, v := seek(c, logKey(from))
	if k == nil {
		k, v = last(c)
	} else if seqOf(k) > from {
		k, v = prev(c)
	}
	for ; k != nil; k, v = prev(c) {
		if !fn(seqOf(k), v) {
			return
		}
	}
}

func logKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func seqOf(key []byte) uint64 {
	if len(key) != 8 {
		panic(damage{fmt.Sprintf("a key of %d bytes in the log", len(key))})
	}
	return binary.BigEndian.Uint64(key)
}

type writer struct {
	reader
	last  uint64 // the highest sequence ever appended
	wrote bool
}

func newWriter(tx *bbolt.Tx) *writer {
	w := &writer{reader: newReader(tx)}
	w.records.FillPercent, w.pairs.FillPercent = logFill, mapFill
	w.last = w.records.Sequence()
	return w
}

// set stores a pair. bbolt would tell a nil value from an empty one until the
// commit.
func (w *writer) set(b *bbolt.Bucket, key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	w.wrote, w.at.key = true, nil
	defer found()
	return b.Put(key, value)
}

func checkKey(key []byte) error {
	if len(key) == 0 || len(key) > kv.MaxKey {
		return fmt.Errorf("%w: %d bytes", kv.ErrKey, len(key))
	}
	return nil
}

func (w *writer) Put(key, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return w.set(w.pairs, key, value)
}

func (w *writer) Delete(key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	w.wrote, w.at.key = true, nil
	defer found()
	return w.pairs.Delete(key)
}

func (w *writer) Append(seq uint64, record []byte) error {
	if seq <= w.last {
		return fmt.Errorf("%w: %d after %d", kv.ErrOrder, seq, w.last)
	}
	w.last = seq
	return w.set(w.records, logKey(seq), record)
}

func (w *writer) Trim(before uint64) error {
	// First look, then delete: a cursor that deletes may pass over keys.
	var seqs []uint64
	w.Log(0, func(seq uint64, _ []byte) bool {
		if seq >= before {
			return false
		}
		seqs = append(seqs, seq)
		return true
	})
	defer found()
	for _, seq := range seqs {
		w.wrote = true
		if err := w.records.Delete(logKey(seq)); err != nil {
			return err
		}
	}
	return nil
}
