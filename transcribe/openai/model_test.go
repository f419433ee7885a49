package openai

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// The sizes of a Whisper model that is as small as the format allows.
const (
	width    = 32 // of the embedding; each word that is known takes one dimension
	vocab    = 51865
	context1 = 1500 // positions of the encoder
	context2 = 448  // and of the decoder
	mels     = 80
	bins     = 201
)

// The tokens of multilingual models that matter here.
const (
	endToken   = 50257
	startToken = 50258
	english    = 50259
	doToken    = 50359 // transcribe
	noTimes    = 50363
	zeroTime   = 50364 // and 20 ms a token from there
	firstWord  = 1000
)

// reciter writes a model in the ggml format whose one decoder block looks at the
// last token alone and knows what follows it. It says the segments, of two seconds
// each, whatever it hears.
type reciter struct {
	bytes.Buffer
	dims          map[int]int
	embedding     []float32
	in, out, bias []float32 // of the block's feed-forward part
}

// recite returns the model; no word may come twice, and there is room for some 20.
func recite(t *testing.T, segments ...string) []byte {
	t.Helper()
	r := &reciter{dims: map[int]int{}, embedding: make([]float32, vocab*width),
		in: make([]float32, 4*width*width), out: make([]float32, 4*width*width), bias: make([]float32, 4*width)}
	words := strings.Fields(strings.Join(segments, " "))
	r.follow(startToken, english, 10)
	r.follow(doToken, zeroTime, 10)
	last, token := zeroTime, firstWord
	for n, s := range segments {
		for i := range strings.Fields(s) {
			switch {
			case i == 0 && n == 0:
				r.follow(noTimes, token, 10)
			case i == 0:
				r.follow(token-1, token, 5) // where no times are asked for
			}
			r.follow(last, token, 10)
			last, token = token, token+1
		}
		end := zeroTime + (n+1)*100
		r.follow(last, end, 10)
		if last = end + 5; n == len(segments)-1 {
			r.follow(token-1, endToken, 5)
			r.follow(end, endToken, 10)
		} else {
			r.follow(end, last, 10)
		}
	}
	if len(r.dims) > width {
		t.Fatalf("%d tokens, only %d fit", len(r.dims), width)
	}
	r.put(uint32(0x67676d6c), []int32{vocab, context1, width, 1, 1, context2, width, 1, 1, mels, 1, mels, bins})
	r.filters()
	r.vocabulary(words)
	r.tensors()
	return r.Bytes()
}

func (r *reciter) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(r, binary.LittleEndian, v); err != nil {
			panic(err) // only for a type without a size
		}
	}
}

func (r *reciter) dim(token int) int {
	k, ok := r.dims[token]
	if !ok {
		k = len(r.dims)
		r.dims[token] = k
		if k < width {
			r.embedding[token*width+k] = 5
		}
	}
	return k
}

// follow has b come after a. The block's neuron for a fires on its dimension alone.
func (r *reciter) follow(a, b int, strength float32) {
	i, j := r.dim(a), r.dim(b)
	if i >= width || j >= width {
		return // told by recite
	}
	r.in[i*width+i], r.bias[i] = 4, -10
	r.out[j*4*width+i] = strength
}

// filters are the triangles of the mel scale up to 8 kHz.
func (r *reciter) filters() {
	top := math.Log10(1 + 8000.0/700)
	hz := func(m int) float64 { return 700 * (math.Pow(10, top*float64(m)/(mels+1)) - 1) }
	for m := range mels {
		low, peak, high := hz(m), hz(m+1), hz(m+2)
		for k := range bins {
			f := float64(k) * 8000 / (bins - 1)
			r.put(float32(max(0, min((f-low)/(peak-low), (high-f)/(high-peak))) * 2 / (high - low)))
		}
	}
}

func (r *reciter) vocabulary(words []string) {
	r.put(int32(firstWord + len(words)))
	for i := range firstWord + len(words) {
		s := "~"
		switch {
		case i >= firstWord:
			s = " " + words[i-firstWord]
		case i == 220:
			s = " "
		case i < 256:
			s = string([]byte{byte(i)})
		}
		r.put(uint32(len(s)), []byte(s))
	}
}

func (r *reciter) tensors() {
	ones := make([]float32, width)
	for i := range ones {
		ones[i] = 1
	}
	r.whole("encoder.positional_embedding", nil, width, context1)
	r.half("encoder.conv1.weight", nil, 3, mels, width)
	r.whole("encoder.conv1.bias", nil, 1, width)
	r.half("encoder.conv2.weight", nil, 3, width, width)
	r.whole("encoder.conv2.bias", nil, 1, width)
	r.norm("encoder.ln_post", ones)
	r.whole("decoder.positional_embedding", nil, width, context2)
	r.half("decoder.token_embedding.weight", r.embedding, width, vocab)
	r.norm("decoder.ln", ones)
	r.block("encoder.blocks.0.", ones, nil, nil, nil)
	r.block("decoder.blocks.0.", ones, r.in, r.bias, r.out)
	r.attention("decoder.blocks.0.cross_attn", ones)
}

func (r *reciter) block(prefix string, ones, in, bias, out []float32) {
	r.norm(prefix+"mlp_ln", ones)
	r.half(prefix+"mlp.0.weight", in, width, 4*width)
	r.whole(prefix+"mlp.0.bias", bias, 4*width)
	r.half(prefix+"mlp.2.weight", out, 4*width, width)
	r.whole(prefix+"mlp.2.bias", nil, width)
	r.attention(prefix+"attn", ones)
}

func (r *reciter) attention(prefix string, ones []float32) {
	r.norm(prefix+"_ln", ones)
	for _, n := range []string{"query", "key", "value", "out"} {
		r.half(prefix+"."+n+".weight", nil, width, width)
		if n != "key" {
			r.whole(prefix+"."+n+".bias", nil, width)
		}
	}
}

func (r *reciter) norm(name string, ones []float32) {
	r.whole(name+".weight", ones, width)
	r.whole(name+".bias", nil, width)
}

// tensor writes what comes before a tensor's numbers, and returns zeros for none.
func (r *reciter) tensor(name string, kind int32, data []float32, shape []int32) []float32 {
	r.put(int32(len(shape)), int32(len(name)), kind, shape, []byte(name))
	if data == nil {
		n := int32(1)
		for _, d := range shape {
			n *= d
		}
		data = make([]float32, n)
	}
	return data
}

func (r *reciter) whole(name string, data []float32, shape ...int32) {
	r.put(r.tensor(name, 0, data, shape))
}

func (r *reciter) half(name string, data []float32, shape ...int32) {
	data = r.tensor(name, 1, data, shape)
	out := make([]uint16, len(data))
	for i, f := range data {
		out[i] = float16(f)
	}
	r.put(out)
}

// float16 cuts f off; it is for the few plain numbers above.
func float16(f float32) uint16 {
	b := math.Float32bits(f)
	if exponent := int(b>>23&0xff) - 127 + 15; exponent > 0 && exponent < 31 {
		return uint16(b>>16&0x8000) | uint16(exponent)<<10 | uint16(b>>13&0x3ff)
	}
	return uint16(b >> 16 & 0x8000)
}
