package ollamatest

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
)

// Passage is what tiny-chain answers, behind a space.
const Passage = "A lease says who works, until when, and nothing more."

// Dimensions of tiny-bert's vectors.
const Dimensions = 64

// A vocabulary with the kinds of its tokens.
type vocabulary struct {
	tokens []string
	scores []float32
	types  []int32
	of     map[string]int
}

// The token types of the format.
const (
	normal, unknown, control, single = 1, 2, 3, 6
)

// add adds a token unless it is there, and returns its number.
func (v *vocabulary) add(token string, typ int32, score float32) int {
	if i, ok := v.of[token]; ok {
		return i
	}
	if v.of == nil {
		v.of = map[string]int{}
	}
	i := len(v.tokens)
	v.of[token] = i
	v.tokens, v.types, v.scores = append(v.tokens, token), append(v.types, typ), append(v.scores, score)
	return i
}

func (v *vocabulary) write(g *gguf) {
	g.set("tokenizer.ggml.tokens", v.tokens)
	g.set("tokenizer.ggml.scores", v.scores)
	g.set("tokenizer.ggml.token_type", v.types)
}

// directions gives each of n tokens a direction of its own, of length sqrt(width):
// a norm leaves it as it is, and all are about at right angles to each other. The
// first component tells the chosen tokens from the others.
func directions(r *rand.Rand, n, width int, chosen map[int]bool) []float32 {
	emb := random(r, 1, width, n)
	for t := range n {
		row := emb[t*width : (t+1)*width]
		row[0] = 4
		if chosen[t] {
			row[0] = -4
		}
		sum := 0.0
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		for i := range row {
			row[i] *= float32(math.Sqrt(float64(width) / sum))
		}
	}
	return emb
}

// chain is a text generator without attention: what it says follows from the last
// token alone. Each word of the passage leads to the next, all else to the first,
// the last to the end or, in a loop, to the first again.
func chain(loop bool) []byte {
	const width, context, heads, inner = 64, 4096, 4, 64
	var v vocabulary
	v.add("<unk>", unknown, 0)
	v.add("<s>", control, 0)
	end := v.add("</s>", control, 0)
	for i := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", i), single, 0)
	}
	v.add("▁", normal, -1000)
	for c := '!'; c <= '~'; c++ {
		v.add(string(c), normal, -1000-float32(c))
	}
	// The tokenizer joins pairs that are tokens themselves: each beginning of a
	// word has to be one.
	var words []int
	for _, w := range strings.Fields(Passage) {
		letters := []rune("▁" + w)
		for i := 2; i <= len(letters); i++ {
			v.add(string(letters[:i]), normal, -float32(len(v.tokens)))
		}
		words = append(words, v.of["▁"+w])
	}
	chosen := map[int]bool{}
	for _, w := range words {
		chosen[w] = true
	}
	n := len(v.tokens)
	emb := directions(rand.New(rand.NewSource(1)), n, width, chosen)
	out := same(0, width, n)
	out[words[0]*width] = 6
	for i, w := range words {
		next := end
		if i+1 < len(words) {
			next = words[i+1]
		} else if loop {
			next = words[0]
		}
		for j := 1; j < width; j++ {
			out[next*width+j] += emb[w*width+j]
		}
	}
	var g gguf
	g.set("general.architecture", "llama")
	g.set("general.name", "tiny")
	g.set("general.file_type", 0)
	g.set("llama.context_length", context)
	g.set("llama.embedding_length", width)
	g.set("llama.block_count", 1)
	g.set("llama.feed_forward_length", inner)
	g.set("llama.attention.head_count", heads)
	g.set("llama.attention.head_count_kv", heads)
	g.set("llama.attention.layer_norm_rms_epsilon", 1e-5)
	g.set("llama.rope.dimension_count", width/heads)
	g.set("llama.vocab_size", n)
	g.set("tokenizer.ggml.model", "llama")
	g.set("tokenizer.ggml.bos_token_id", 1)
	g.set("tokenizer.ggml.eos_token_id", end)
	g.set("tokenizer.ggml.unknown_token_id", 0)
	g.set("tokenizer.ggml.add_bos_token", true)
	g.set("tokenizer.ggml.add_eos_token", false)
	v.write(&g)
	g.add("token_embd.weight", emb, width, n)
	g.add("output.weight", out, width, n)
	g.ones("output_norm.weight", width)
	g.ones("blk.0.attn_norm.weight", width)
	g.ones("blk.0.ffn_norm.weight", width)
	for _, part := range []string{"q", "k", "v", "output"} {
		g.zeros("blk.0.attn_"+part+".weight", width, width)
	}
	g.zeros("blk.0.ffn_gate.weight", width, inner)
	g.zeros("blk.0.ffn_up.weight", width, inner)
	g.zeros("blk.0.ffn_down.weight", inner, width)
	return g.bytes()
}

// bert is an embedder with random weights: a hash of its text that a small change
// of the text changes a little.
func bert(seed int64) []byte {
	const width, context, heads, inner = Dimensions, 256, 4, 64
	var v vocabulary
	v.add("[PAD]", control, 0)
	v.add("[UNK]", unknown, 0)
	for _, s := range []string{"[CLS]", "[SEP]", "[MASK]"} {
		v.add(s, control, 0)
	}
	for c := '!'; c <= '~'; c++ {
		if c < 'A' || c > 'Z' {
			v.add("▁"+string(c), normal, 0)
			v.add(string(c), normal, 0)
		}
	}
	for _, w := range strings.Fields(strings.ToLower(Passage)) {
		v.add("▁"+strings.Trim(w, ",."), normal, 0)
	}
	n := len(v.tokens)
	r := rand.New(rand.NewSource(seed))
	var g gguf
	g.set("general.architecture", "bert")
	g.set("general.name", "tiny-bert")
	g.set("general.file_type", 0)
	g.set("bert.context_length", context)
	g.set("bert.embedding_length", width)
	g.set("bert.block_count", 1)
	g.set("bert.feed_forward_length", inner)
	g.set("bert.attention.head_count", heads)
	g.set("bert.attention.layer_norm_epsilon", 1e-12)
	g.set("bert.attention.causal", false)
	g.set("bert.pooling_type", 1)
	g.set("tokenizer.ggml.model", "bert")
	g.set("tokenizer.ggml.token_type_count", 2)
	for i, s := range []string{"padding", "unknown", "cls", "seperator", "mask"} { // the format spells it so
		g.set("tokenizer.ggml."+s+"_token_id", i)
	}
	g.set("tokenizer.ggml.bos_token_id", 2)
	g.set("tokenizer.ggml.eos_token_id", 3)
	v.write(&g)
	g.add("token_embd.weight", random(r, 1, width, n), width, n)
	g.add("position_embd.weight", random(r, 0.02, width, context), width, context)
	g.add("token_types.weight", random(r, 0.02, width, 2), width, 2)
	g.ones("token_embd_norm.weight", width)
	g.zeros("token_embd_norm.bias", width)
	for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		g.add("blk.0."+part+".weight", random(r, 0.04, width, width), width, width)
		g.zeros("blk.0."+part+".bias", width)
	}
	for _, part := range []string{"attn_output_norm", "layer_output_norm"} {
		g.ones("blk.0."+part+".weight", width)
		g.zeros("blk.0."+part+".bias", width)
	}
	g.add("blk.0.ffn_up.weight", random(r, 0.04, width, inner), width, inner)
	g.zeros("blk.0.ffn_up.bias", inner)
	g.add("blk.0.ffn_down.weight", random(r, 0.04, inner, width), inner, width)
	g.zeros("blk.0.ffn_down.bias", width)
	return g.bytes()
}
