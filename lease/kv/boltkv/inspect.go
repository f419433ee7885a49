package boltkv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// A bbolt page begins with its id (8 bytes), flags (2), count (2) and overflow
// (4). Pages 0 and 1 are meta pages, and go on with magic, version, page size
// and flags (4 bytes each), root page, its sequence, freelist page, high-water
// page, transaction id and an FNV-64a checksum of all that (8 bytes each). All in
// the byte order of the machine that wrote it; every machine this runs on is
// little-endian, and so is the checksum's proof of it.
const (
	pageHead   = 16
	metaSize   = 64
	boltMagic  = 0xED0CDAED
	noFreelist = 1<<64 - 1
	flagBranch = 0x01
	flagLeaf   = 0x02
	flagFree   = 0x10
)

// meta is what a meta page says.
type meta struct {
	pageSize             int64
	root, freelist, high uint64
	txid                 uint64
}

// inspect refuses a file that bbolt could not map without a fault: one that is
// empty, foreign, or shorter than its newest meta page says.
func inspect(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch size := info.Size(); {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: not a regular file", ErrNotStore)
	case size == 0:
		return fmt.Errorf("%w: empty", ErrNotStore)
	}
	m, err := newestMeta(f)
	if err != nil {
		return err
	}
	if need := int64(m.high) * m.pageSize; m.high > 1<<40 || info.Size() < need {
		return fmt.Errorf("%w: cut short: %d bytes, its last page ends at %d", ErrNotStore, info.Size(), need)
	}
	if err := checkPage(f, m, m.root, flagBranch|flagLeaf); err != nil {
		return fmt.Errorf("%w: damaged: root: %w", ErrNotStore, err)
	}
	if m.freelist == noFreelist {
		return nil
	}
	if err := checkPage(f, m, m.freelist, flagFree); err != nil {
		return fmt.Errorf("%w: damaged: freelist: %w", ErrNotStore, err)
	}
	return nil
}

// checkPage tells whether a page that a meta page names is one of its kind.
func checkPage(f io.ReaderAt, m meta, id uint64, flags uint16) error {
	if id < 2 || id >= m.high {
		return fmt.Errorf("page %d of %d", id, m.high)
	}
	var head [pageHead]byte
	if _, err := f.ReadAt(head[:], int64(id)*m.pageSize); err != nil {
		return err
	}
	got := binary.LittleEndian.Uint64(head[:])
	kind := binary.LittleEndian.Uint16(head[8:])
	overflow := uint64(binary.LittleEndian.Uint32(head[12:]))
	if got != id || kind&flags == 0 || kind&^flags != 0 || id+overflow >= m.high {
		return fmt.Errorf("page %d says id %d, kind %#x, %d more pages", id, got, kind, overflow)
	}
	return nil
}

// newestMeta returns the meta page of the last commit. One of the two may be
// torn by a crash; with neither whole the file is no store.
func newestMeta(f io.ReaderAt) (meta, error) {
	first, err0 := metaAt(f, 0)
	var second meta
	var err1 error
	if err0 == nil {
		second, err1 = metaAt(f, first.pageSize)
	} else {
		// The page size is in the page that is torn: try each.
		for size := int64(1 << 10); size <= 1<<16; size <<= 1 {
			if second, err1 = metaAt(f, size); err1 == nil && second.pageSize == size {
				break
			}
			err1 = err0
		}
	}
	switch {
	case err0 != nil && err1 != nil:
		return meta{}, err0
	case err0 != nil || err1 == nil && second.txid > first.txid:
		return second, nil
	}
	return first, nil
}

func metaAt(f io.ReaderAt, offset int64) (meta, error) {
	var page [pageHead + metaSize]byte
	if n, err := f.ReadAt(page[:], offset); err == io.EOF {
		return meta{}, fmt.Errorf("%w: %d bytes only", ErrNotStore, offset+int64(n))
	} else if err != nil {
		return meta{}, err
	}
	b := page[pageHead:]
	if !bytes.Equal(b[:4], binary.LittleEndian.AppendUint32(nil, boltMagic)) {
		return meta{}, fmt.Errorf("%w: not a bbolt file", ErrNotStore)
	}
	h := fnv.New64a()
	h.Write(b[:metaSize-8])
	u64 := binary.LittleEndian.Uint64
	if h.Sum64() != u64(b[metaSize-8:]) {
		return meta{}, fmt.Errorf("%w: damaged: checksum of its first pages", ErrNotStore)
	}
	m := meta{
		pageSize: int64(binary.LittleEndian.Uint32(b[8:])),
		root:     u64(b[16:]),
		freelist: u64(b[32:]),
		high:     u64(b[40:]),
		txid:     u64(b[48:]),
	}
	if m.pageSize < 1<<10 || m.pageSize > 1<<16 || m.pageSize&(m.pageSize-1) != 0 {
		return meta{}, fmt.Errorf("%w: damaged: page size %d", ErrNotStore, m.pageSize)
	}
	return m, nil
}
