package wire

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"macbatch/lease"
)

// writer appends fields. Its first fault sticks, and only where it is strict.
type writer struct {
	b      []byte
	strict bool // refuse what a reader would; else replace bad text, and trust JSON
	fault  string
}

func (e *writer) byte(v byte)   { e.b = append(e.b, v) }
func (e *writer) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *writer) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *writer) text(s string) {
	if !utf8.ValidString(s) {
		if e.strict {
			e.fault = "text is not valid UTF-8"
		}
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *writer) json(v json.RawMessage) {
	if e.strict && len(v) > 0 {
		if fault := badJSON(v, 0); fault != "" {
			e.fault = fault
		}
	}
	e.uint(uint64(len(v)))
	e.b = append(e.b, v...)
}

func (e *writer) digest(d lease.Digest) { e.b = append(e.b, d[:]...) }
func (e *writer) job(id lease.JobID)    { e.b = binary.BigEndian.AppendUint64(e.b, uint64(id)) }

func (e *writer) shard(id lease.ShardID) {
	e.job(id.Job)
	e.uint(uint64(id.Seq))
}

func list[T any](e *writer, v []T, one func(T)) {
	e.uint(uint64(len(v)))
	for i := range v {
		one(v[i])
	}
}

// parser reads what writer wrote, and only that: each value has one form. The
// first fault sticks.
type parser struct {
	all   int // bytes at the beginning
	b     []byte
	fault string
	at    int    // offset of the fault
	last  string // newest name
}

func (d *parser) fail(what string) {
	if d.fault == "" {
		d.fault, d.at = what, d.all-len(d.b)
	}
	d.b = nil
}

func (d *parser) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail("bytes missing")
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *parser) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *parser) bool() bool {
	v := d.byte()
	if v > 1 {
		d.fail("neither true nor false")
	}
	return v == 1
}

func (d *parser) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("no number")
		return 0
	}
	if n > 1 && d.b[n-1] == 0 {
		d.fail("number not in its shortest form")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *parser) uint32() uint32 {
	v := d.uint()
	if v > math.MaxUint32 {
		d.fail("number too large")
	}
	return uint32(v)
}

// count reads how many entries follow, of at least size bytes each.
func (d *parser) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.fail("bytes missing")
		return 0
	}
	return int(n)
}

func many[T any](d *parser, size int, one func() T) []T {
	n := d.count(size)
	if n == 0 {
		return nil
	}
	v := make([]T, 0, n)
	for range n {
		if v = append(v, one()); d.fault != "" {
			return nil
		}
	}
	return v
}

func (d *parser) textBytes() []byte {
	v := d.take(d.uint())
	if !utf8.Valid(v) {
		d.fail("text is not valid UTF-8")
	}
	return v
}

func (d *parser) text() string { return string(d.textBytes()) }

// name is text that mostly is the same as the name before it.
func (d *parser) name() string {
	if v := d.textBytes(); string(v) != d.last {
		d.last = string(v)
	}
	return d.last
}

func (d *parser) json(depth int) json.RawMessage {
	v := d.take(d.uint())
	if len(v) == 0 {
		return nil
	}
	if fault := badJSON(v, depth); fault != "" {
		d.fail(fault)
		return nil
	}
	return v
}

func (d *parser) digest() (v lease.Digest) {
	copy(v[:], d.take(uint64(len(v))))
	return v
}

func (d *parser) job() lease.JobID {
	if v := d.take(8); v != nil {
		return lease.JobID(binary.BigEndian.Uint64(v))
	}
	return 0
}

// shard reads the id of a shard: numbers begin with 1.
func (d *parser) shard() lease.ShardID {
	id := lease.ShardID{Job: d.job(), Seq: d.uint32()}
	if id.Seq == 0 {
		d.fail("number of no shard")
	}
	return id
}
