package store

import (
	"encoding/binary"
	"errors"

	"macbatch/lease"
)

var errShort = errors.New("bytes missing")

// encoder appends fields to a value. Numbers are unsigned varints, strings and
// lists begin with their length.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)      { e.b = append(e.b, v) }
func (e *encoder) uint(v uint64)    { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) fixed64(v uint64) { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *encoder) string(v string)  { e.uint(uint64(len(v))); e.b = append(e.b, v...) }

// digest spends one byte on a zero digest.
func (e *encoder) digest(d lease.Digest) {
	if d.IsZero() {
		e.byte(0)
		return
	}
	e.byte(1)
	e.b = append(e.b, d[:]...)
}

// span spends one byte on no range.
func (e *encoder) span(r lease.Range) {
	e.bool(r != lease.Range{})
	if r != (lease.Range{}) {
		e.uint(uint64(r.From))
		e.uint(uint64(r.To - r.From))
		e.b = append(e.b, r.Digest[:]...)
	}
}

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) uints(v []uint32) {
	e.uint(uint64(len(v)))
	var last uint32
	for _, n := range v {
		e.uint(uint64(n - last)) // ascending lists are short differences; others wrap and still round-trip
		last = n
	}
}

func (e *encoder) shard(id lease.ShardID) {
	e.uint(uint64(id.Seq))
	if id.Seq != 0 {
		e.fixed64(uint64(id.Job))
	}
}

// decoder reads what encoder wrote. The first fault sticks; done reports it.
type decoder struct {
	b     []byte
	err   error
	names names
}

// names keeps one copy of each of the few strings that very many rows share. A
// nil one keeps nothing.
type names map[string]string

// maxNames bounds how many are kept.
const maxNames = 4096

func (n names) of(b []byte) string {
	if s, ok := n[string(b)]; ok {
		return s
	}
	s := string(b)
	if n != nil {
		if len(n) >= maxNames {
			clear(n)
		}
		n[s] = s
	}
	return s
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail(errors.New("neither true nor false"))
	}
	return v == 1
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	if n > 1 && d.b[n-1] == 0 {
		d.fail(errors.New("number not in its shortest form"))
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uint()
	if v > 1<<32-1 {
		d.fail(errors.New("number too large"))
	}
	return uint32(v)
}

func (d *decoder) uint16() uint16 {
	v := d.uint()
	if v > 1<<16-1 {
		d.fail(errors.New("number too large"))
	}
	return uint16(v)
}

func (d *decoder) fixed64() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// bytes returns a slice of the value; string copies.
func (d *decoder) bytes() []byte  { return d.take(d.uint()) }
func (d *decoder) string() string { return string(d.bytes()) }
func (d *decoder) name() string   { return d.names.of(d.bytes()) }

func (d *decoder) digest() (v lease.Digest) {
	if d.bool() {
		copy(v[:], d.take(uint64(len(v))))
	}
	return v
}

// digests reads a list of them, none of which is short for being zero.
func (d *decoder) digests() []lease.Digest {
	n := d.uint()
	if n > uint64(len(d.b))/32 {
		d.fail(errShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	all := make([]lease.Digest, n)
	for i := range all {
		copy(all[i][:], d.take(32))
	}
	return all
}

func (d *decoder) span() (r lease.Range) {
	if d.bool() {
		r.From = int64(d.uint())
		r.To = r.From + int64(d.uint())
		copy(r.Digest[:], d.take(uint64(len(r.Digest))))
	}
	return r
}

func (d *decoder) uints() []uint32 {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	v := make([]uint32, n)
	var last uint32
	for i := range v {
		last += d.uint32()
		v[i] = last
	}
	return v
}

func (d *decoder) shard() (id lease.ShardID) {
	if id.Seq = d.uint32(); id.Seq != 0 {
		id.Job = lease.JobID(d.fixed64())
	}
	return id
}

// done reports the first fault, or bytes left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.b) > 0 {
		return errors.New("bytes left over")
	}
	return d.err
}
