package ollamatest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"
)

// gguf collects the metadata and tensors of a model file, version 3 of the format:
// magic, version, counts, metadata, tensor infos, and behind them, each aligned,
// the tensors' numbers.
type gguf struct {
	meta, infos, data bytes.Buffer
	keys, tensors     uint64
}

const alignment = 32

// The type codes of the format that are needed here.
const (
	typeUint32, typeInt32, typeFloat32, typeBool, typeString, typeArray = 4, 5, 6, 7, 8, 9
)

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			put(b, uint64(len(s)))
			b.WriteString(s)
			continue
		}
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err) // only for a type that is not written here
		}
	}
}

// set adds a piece of metadata.
func (g *gguf) set(key string, value any) {
	g.keys++
	put(&g.meta, key)
	switch v := value.(type) {
	case int:
		put(&g.meta, uint32(typeUint32), uint32(v))
	case float64:
		put(&g.meta, uint32(typeFloat32), float32(v))
	case bool:
		put(&g.meta, uint32(typeBool), v)
	case string:
		put(&g.meta, uint32(typeString), v)
	case []string:
		put(&g.meta, uint32(typeArray), uint32(typeString), uint64(len(v)))
		for _, s := range v {
			put(&g.meta, s)
		}
	case []float32:
		put(&g.meta, uint32(typeArray), uint32(typeFloat32), uint64(len(v)), v)
	case []int32:
		put(&g.meta, uint32(typeArray), uint32(typeInt32), uint64(len(v)), v)
	default:
		panic(fmt.Sprintf("metadata of type %T", value))
	}
}

// add adds a tensor of 32-bit numbers. The first dimension is the fastest.
func (g *gguf) add(name string, numbers []float32, dims ...int) {
	n := 1
	put(&g.infos, name, uint32(len(dims)))
	for _, d := range dims {
		put(&g.infos, uint64(d))
		n *= d
	}
	if n != len(numbers) {
		panic(fmt.Sprintf("tensor %s: %d numbers for %v", name, len(numbers), dims))
	}
	put(&g.infos, uint32(0), uint64(g.data.Len()))
	put(&g.data, numbers)
	pad(&g.data)
	g.tensors++
}

// zeros adds a tensor of zeros: a layer that changes nothing.
func (g *gguf) zeros(name string, dims ...int) { g.add(name, same(0, dims...), dims...) }

// ones adds a norm that scales by one.
func (g *gguf) ones(name string, n int) { g.add(name, same(1, n), n) }

func (g *gguf) bytes() []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	put(&b, uint32(3), g.tensors, g.keys)
	b.Write(g.meta.Bytes())
	b.Write(g.infos.Bytes())
	pad(&b)
	b.Write(g.data.Bytes())
	return b.Bytes()
}

func pad(b *bytes.Buffer) {
	for b.Len()%alignment != 0 {
		b.WriteByte(0)
	}
}

func same(v float32, dims ...int) []float32 {
	n := 1
	for _, d := range dims {
		n *= d
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func random(r *rand.Rand, scale float64, dims ...int) []float32 {
	out := same(0, dims...)
	for i := range out {
		out[i] = float32(r.NormFloat64() * scale)
	}
	return out
}
