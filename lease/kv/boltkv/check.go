package boltkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"macbatch/lease/kv"
)

// The heads of what a page holds: of a leaf its flags, position, key's and value's
// length (4 bytes each), of a branch position, key's length and the child's page (8
// bytes). Positions are counted from the element. The value of a bucket is its root
// page, its sequence (8 bytes each) and, where the root is 0, a leaf page.
const (
	elementSize = 16
	bucketSize  = 16
	bucketFlag  = 1
	manyFree    = 0xFFFF // as a freelist's count: it is in the first 8 bytes behind
)

// Check reads the whole file and returns ErrDamaged for the first thing that is
// wrong with its structure. It trusts no page, so that nothing else has to be tried
// on a damaged file. On a store open for writing, writers wait meanwhile.
func (db *DB) Check() error {
	db.write.Lock()
	defer db.write.Unlock()
	if db.broken.Load() {
		return kv.ErrUnknownOutcome
	}
	tx, err := db.bolt.Begin(false) // so that it is not closed meanwhile
	if err != nil {
		return closed(err)
	}
	defer func() { _ = tx.Rollback() }() // of a read: it can't fail
	f, err := os.Open(db.path)
	if err != nil {
		return fmt.Errorf("check store: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	m, err := newestMeta(f)
	if err == nil {
		w := &walk{f: f, meta: m, used: make([]uint64, m.high/64+1)}
		err = w.all()
	}
	if err != nil {
		return fmt.Errorf("check store %q: %w", db.path, err)
	}
	return nil
}

// walk visits each page of a file once.
type walk struct {
	meta
	f    io.ReaderAt
	used []uint64 // a bit for each page that was met
}

func (w *walk) all() error {
	w.used[0] = 3 // the meta pages
	if err := w.page(w.root, nil, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if w.freelist == noFreelist {
		return nil
	}
	if err := w.free(); err != nil {
		return fmt.Errorf("%w: freelist: %w", ErrDamaged, err)
	}
	for id := range w.high {
		if w.take(id) == nil {
			return fmt.Errorf("%w: page %d is neither in use nor free", ErrDamaged, id)
		}
	}
	return nil
}

// take notes that a page was met.
func (w *walk) take(id uint64) error {
	if id >= w.high {
		return fmt.Errorf("page %d of %d", id, w.high)
	}
	if w.used[id/64]&(1<<(id%64)) != 0 {
		return fmt.Errorf("page %d is in two places", id)
	}
	w.used[id/64] |= 1 << (id % 64)
	return nil
}

// read returns a page that is of one of the kinds, with what follows it.
func (w *walk) read(id uint64, kinds uint16) ([]byte, error) {
	if err := checkPage(w.f, w.meta, id, kinds); err != nil {
		return nil, err
	}
	var head [pageHead]byte
	if _, err := w.f.ReadAt(head[:], int64(id)*w.pageSize); err != nil {
		return nil, err
	}
	n := uint64(binary.LittleEndian.Uint32(head[12:])) + 1
	for i := range n {
		if err := w.take(id + i); err != nil {
			return nil, err
		}
	}
	b := make([]byte, n*uint64(w.pageSize))
	_, err := w.f.ReadAt(b, int64(id)*w.pageSize)
	return b, err
}

// page visits a page of a tree and all below it. Its keys are from <= key < to; a
// nil to is no bound.
func (w *walk) page(id uint64, from, to []byte) error {
	b, err := w.read(id, flagBranch|flagLeaf)
	if err == nil {
		err = w.elements(b, from, to)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (w *walk) elements(b, from, to []byte) error {
	u32 := binary.LittleEndian.Uint32
	leaf := binary.LittleEndian.Uint16(b[8:]) == flagLeaf
	n := int(binary.LittleEndian.Uint16(b[10:]))
	if pageHead+n*elementSize > len(b) || !leaf && n == 0 {
		return fmt.Errorf("%d elements", n)
	}
	keys, rest := make([][]byte, n), make([][]byte, n)
	for i := range n {
		e := b[pageHead+i*elementSize:]
		pos, size, more := u32(e), u32(e[4:]), uint32(0)
		if leaf {
			pos, size, more = u32(e[4:]), u32(e[8:]), u32(e[12:])
		}
		if int(pos) < (n-i)*elementSize || uint64(pos)+uint64(size)+uint64(more) > uint64(len(e)) {
			return fmt.Errorf("element %d leads out of it", i)
		}
		keys[i], rest[i] = e[pos:pos+size], e[pos+size:pos+size+more]
		if i == 0 && bytes.Compare(keys[0], from) < 0 || i > 0 && bytes.Compare(keys[i], keys[i-1]) <= 0 || to != nil && bytes.Compare(keys[i], to) >= 0 {
			return fmt.Errorf("the key of element %d is out of order", i)
		}
	}
	for i := range n {
		e := b[pageHead+i*elementSize:]
		var err error
		switch {
		case !leaf:
			below := to
			if i+1 < n {
				below = keys[i+1]
			}
			err = w.page(binary.LittleEndian.Uint64(e[8:]), keys[i], below)
		case u32(e) == bucketFlag:
			err = w.bucket(rest[i])
		case u32(e) != 0:
			err = fmt.Errorf("element %d has flags %#x", i, u32(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) bucket(b []byte) error {
	if len(b) < bucketSize {
		return fmt.Errorf("a bucket of %d bytes", len(b))
	}
	if root := binary.LittleEndian.Uint64(b); root != 0 {
		return w.page(root, nil, nil)
	}
	if b = b[bucketSize:]; len(b) < pageHead || binary.LittleEndian.Uint16(b[8:]) != flagLeaf {
		return errors.New("a bucket without a root")
	}
	return w.elements(b, nil, nil)
}

// free visits the pages that hold nothing.
func (w *walk) free() error {
	b, err := w.read(w.freelist, flagFree)
	if err != nil {
		return err
	}
	n := uint64(binary.LittleEndian.Uint16(b[10:]))
	if b = b[pageHead:]; n == manyFree {
		n, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	if n > uint64(len(b)/8) {
		return fmt.Errorf("%d pages", n)
	}
	for i := range n {
		if err := w.take(binary.LittleEndian.Uint64(b[8*i:])); err != nil {
			return err
		}
	}
	return nil
}
