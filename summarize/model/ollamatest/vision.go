package ollamatest

import "math/rand"

// vision is a model that looks: of a bright image it says "light", of a dark one
// "dark". The mean brightness of the patches is carried, by way of the projector,
// into two components of the image's tokens; even attention over all tokens
// brings them to the last one, and there they decide the word.
func vision() []byte {
	const width, inner, eye, heads, patch, edge, context = 64, 128, 32, 4, 14, 336, 4096
	var v vocabulary
	special := map[int]string{0: "<unk>", 1: "<s>", 2: "</s>", 10: "[IMG]", 12: "[IMG_BREAK]", 13: "[IMG_END]"}
	for i := range 20 {
		name, ok := special[i]
		if !ok {
			name = "<" + string(rune('a'+i)) + ">"
		}
		v.add(name, control, 0)
	}
	for i, beyond := rune(0), rune(256); i < 256; i++ { // the alphabet of byte-level tokenizers
		c := i
		if i < '!' || i > '~' && i < 0xa1 || i == 0xad {
			c = beyond
			beyond++
		}
		v.add(string(c), normal, 0)
	}
	light, dark := v.add("light", normal, 0), v.add("dark", normal, 0)
	n := len(v.tokens)
	emb := directions(rand.New(rand.NewSource(1)), n, width, map[int]bool{light: true, dark: true})
	out := same(0, width, n)
	for t := range n {
		emb[t*width+1], emb[t*width+2] = 0, 0 // the image's own
	}
	copy(out[light*width:], []float32{1.5, 2, -2})
	copy(out[dark*width:], []float32{1.5, -2, 2})
	for _, w := range []int{light, dark} { // and then nothing more
		for j := 3; j < width; j++ {
			out[2*width+j] += emb[w*width+j]
		}
	}

	var g gguf
	a := "mistral3."
	g.set("general.architecture", "mistral3")
	g.set("general.name", "tiny-vision")
	g.set("general.file_type", 0)
	for _, m := range []struct {
		key   string
		value any
	}{
		{"context_length", context}, {"embedding_length", width}, {"block_count", 1}, {"feed_forward_length", inner},
		{"attention.head_count", heads}, {"attention.head_count_kv", heads}, {"attention.key_length", width / heads},
		{"attention.value_length", width / heads}, {"attention.layer_norm_rms_epsilon", 1e-5},
		{"rope.dimension_count", width / heads}, {"rope.freq_base", 10000.0}, {"vocab_size", n},
		{"vision.block_count", 1}, {"vision.embedding_length", eye}, {"vision.attention.head_count", 1},
		{"vision.attention.key_length", eye}, {"vision.attention.layer_norm_epsilon", 1e-5}, {"vision.feed_forward_length", eye},
		{"vision.image_size", edge}, {"vision.longest_edge", edge}, {"vision.patch_size", patch}, {"vision.num_channels", 3},
		{"vision.rope.freq_base", 10000.0}, {"spatial_merge_size", 2},
	} {
		g.set(a+m.key, m.value)
	}
	g.set("tokenizer.ggml.model", "gpt2")
	g.set("tokenizer.ggml.pre", "tekken")
	g.set("tokenizer.ggml.merges", []string{"l i"})
	g.set("tokenizer.ggml.bos_token_id", 1)
	g.set("tokenizer.ggml.eos_token_id", 2)
	g.set("tokenizer.ggml.unknown_token_id", 0)
	g.set("tokenizer.ggml.add_bos_token", true)
	g.set("tokenizer.ggml.add_eos_token", false)
	v.write(&g)

	g.add("token_embd.weight", emb, width, n)
	g.add("output.weight", out, width, n)
	g.ones("output_norm.weight", width)
	g.ones("blk.0.attn_norm.weight", width)
	g.ones("blk.0.ffn_norm.weight", width)
	g.zeros("blk.0.attn_q.weight", width, width)
	g.zeros("blk.0.attn_k.weight", width, width)
	value, back := same(0, width, width), same(0, width, width)
	for _, i := range []int{1, 2} {
		value[i*width+i], back[i*width+i] = 1, 1.5
	}
	g.add("blk.0.attn_v.weight", value, width, width)
	g.add("blk.0.attn_output.weight", back, width, width)
	g.zeros("blk.0.ffn_gate.weight", width, inner)
	g.zeros("blk.0.ffn_up.weight", width, inner)
	g.zeros("blk.0.ffn_down.weight", inner, width)

	// Component 0 of a patch is its mean brightness.
	brightness := same(0, patch, patch, 3, eye)
	copy(brightness, same(1.0/(patch*patch*3), patch, patch, 3))
	g.add("v.patch_conv.weight", brightness, patch, patch, 3, eye)
	for _, norm := range []string{"v.encoder_norm", "v.blk.0.attn_norm", "v.blk.0.ffn_norm", "mm.norm"} {
		g.ones(norm+".weight", eye)
	}
	for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
		g.zeros("v.blk.0."+part+".weight", eye, eye)
	}
	merge := same(0, 4*eye, eye) // four neighbours, evenly
	for k := range 4 {
		merge[k*eye] = 0.25
	}
	g.add("mm.patch_merger.merging_layer.weight", merge, 4*eye, eye)
	up, down := same(0, eye, width), same(0, width, width)
	up[0], up[eye] = 1, -1 // bright and dark apart: what comes between lets only positive numbers pass
	down[1*width], down[2*width+1] = 1.4, 1.4
	g.add("mm.linear_1.weight", up, eye, width)
	g.add("mm.linear_2.weight", down, width, width)
	return g.bytes()
}
