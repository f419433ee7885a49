package kinds

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"macbatch/lease/item"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/summarize/model"
)

const defaultTogether = 64 // texts in one request

// text is one to be embedded, for an item.
type text struct {
	item int
	text string
}

// many are the texts of one item.
type many struct {
	item  int
	texts []string
}

// embed gives every item its vector. Texts go to the server in arrays; an array
// that fails is halved until the guilty text is alone.
func (t *Tools) embed(ctx context.Context, s *shard, p *pipeline.EmbedParams) error {
	a, err := t.asker(ctx, s, &p.ModelParams)
	if err != nil {
		return err
	}
	a.try = func(ctx context.Context) error {
		_, err := a.Embed(ctx, model.EmbedRequest{Model: a.model.Name, Input: []string{"a"}})
		return err
	}
	if p.Batch {
		return a.embedBodies(ctx, p)
	}
	var texts []text
	for i, it := range s.items {
		if it == nil {
			continue
		}
		txt, err := it.Text()
		switch {
		case err != nil:
			s.fail(i, codeInvalid, err)
		case strings.TrimSpace(txt) == "":
			s.fail(i, codeInvalid, errors.New("its text is empty"))
		default:
			texts = append(texts, text{i, txt})
		}
	}
	return a.embedTexts(ctx, p.Together, p.Dimensions, texts, func(i int, v []float32) error {
		return s.value(i, pipeline.VectorValue(v))
	})
}

// embedTexts hands the vector of each text to found; a text without one becomes
// its item's failure, or suspect. All vectors are of one length: where they are
// not, that of most.
func (a *asker) embedTexts(ctx context.Context, together, dimensions int, texts []text, found func(item int, v []float32) error) error {
	if together <= 0 {
		together = defaultTogether
	}
	arrays := slices.Collect(slices.Chunk(texts, together))
	parts := make([]map[int][]float32, len(arrays))
	err := a.shard.atOnce(ctx, len(arrays), func(ctx context.Context, i int) error {
		parts[i] = map[int][]float32{}
		return a.embedArray(ctx, dimensions, arrays[i], parts[i])
	})
	if err != nil {
		return err
	}
	vectors := map[int][]float32{}
	for _, p := range parts {
		maps.Copy(vectors, p)
	}
	lengths, width := map[int]int{}, 0
	for _, v := range vectors {
		if lengths[len(v)]++; lengths[len(v)] > lengths[width] {
			width = len(v)
		}
	}
	for _, t := range texts {
		v, ok := vectors[t.item]
		if ok && len(v) != width {
			a.shard.suspect(t.item, model.Errorf(model.ErrBadAnswer, "a vector of %d numbers, others have %d", len(v), width))
		} else if ok {
			if err := found(t.item, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *asker) embedArray(ctx context.Context, dimensions int, texts []text, vectors map[int][]float32) error {
	input := make([]string, len(texts))
	for i, t := range texts {
		input[i] = t.text
	}
	var got model.Embeddings
	_, err := a.ask(ctx, len(texts) == 1, mostOfTexts(input), func(ctx context.Context) (model.Usage, error) {
		var err error
		got, err = a.Embed(ctx, model.EmbedRequest{Model: a.model.Name, Input: input, Dimensions: dimensions})
		return got.Usage, err
	})
	switch bad, is := errors.AsType[*itemError](err); {
	case is:
		for _, t := range texts {
			a.shard.fail(t.item, bad.code, bad.err)
		}
		return nil
	case err == nil:
		for i, v := range got.Vectors {
			vectors[texts[i].item] = v
		}
		return nil
	case codeOf(err) == "":
		return err
	case len(texts) == 1, a.Paid && !model.Permanent(err): // what was answered is paid, usable or not
		for _, t := range texts {
			if err := a.shard.answer(t.item, nil, err); err != nil {
				return err
			}
		}
		return nil
	}
	half := len(texts) / 2
	if err := a.embedArray(ctx, dimensions, texts[:half], vectors); err != nil {
		return err
	}
	return a.embedArray(ctx, dimensions, texts[half:], vectors)
}

// embeddingsBody is what is understood of the body of a batch line.
type embeddingsBody struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Format     string          `json:"encoding_format,omitempty"`
	Dimensions int             `json:"dimensions,omitempty"`
	User       string          `json:"user,omitempty"`
}

func (b *embeddingsBody) texts() ([]string, error) {
	var one string
	var many []string
	switch {
	case json.Unmarshal(b.Input, &one) == nil:
		many = []string{one}
	case json.Unmarshal(b.Input, &many) != nil:
		return nil, &itemError{codeUnsupported, errors.New("body: input must be a text or a list of texts")}
	}
	if len(many) == 0 || slices.Contains(many, "") {
		return nil, invalid(errors.New("body: input is empty"))
	}
	if b.Format != "" && b.Format != "float" && b.Format != "base64" {
		return nil, invalid(fmt.Errorf("body: encoding_format %.100q is neither float nor base64", b.Format))
	}
	return many, nil
}

// embedBodies answers batch lines. Those of one text go to the server together.
func (a *asker) embedBodies(ctx context.Context, p *pipeline.EmbedParams) error {
	s := a.shard
	bodies := map[int]*embeddingsBody{}
	groups := map[int][]text{} // by dimensions
	var long []many
	for i, it := range s.items {
		if it == nil {
			continue
		}
		b, texts, err := a.embeddings(it)
		if bad, ok := errors.AsType[*itemError](err); ok {
			s.fail(i, bad.code, bad.err)
			continue
		}
		if bodies[i] = b; len(texts) == 1 {
			groups[b.Dimensions] = append(groups[b.Dimensions], text{i, texts[0]})
			continue
		}
		long = append(long, many{i, texts})
	}
	err := s.atOnce(ctx, len(long), func(ctx context.Context, i int) error {
		return a.embedBody(ctx, long[i].item, bodies[long[i].item], long[i].texts)
	})
	if err != nil {
		return err
	}
	for dims, texts := range groups {
		err := a.embedTexts(ctx, p.Together, dims, texts, func(i int, v []float32) error {
			return s.value(i, bodies[i].answer([][]float32{v}, model.Usage{}))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// embeddings reads the body of a line.
func (a *asker) embeddings(it *item.Item) (*embeddingsBody, []string, error) {
	if !it.Batch() || it.URL != pipeline.EmbeddingsURL {
		return nil, nil, &itemError{codeUnsupported, errors.New("not a batch line for " + pipeline.EmbeddingsURL)}
	}
	var b embeddingsBody
	if err := wire.Unmarshal(it.Body, &b); err != nil {
		return nil, nil, &itemError{codeUnsupported, fmt.Errorf("body: %w", err)}
	}
	if b.Model != a.shard.by.Model {
		return nil, nil, invalid(fmt.Errorf("body asks for model %.100q, the job is of %q", b.Model, a.shard.by.Model))
	}
	texts, err := b.texts()
	return &b, texts, err
}

// embedBody answers a line of many texts.
func (a *asker) embedBody(ctx context.Context, i int, b *embeddingsBody, texts []string) error {
	var got model.Embeddings
	_, err := a.ask(ctx, true, mostOfTexts(texts), func(ctx context.Context) (model.Usage, error) {
		var err error
		got, err = a.Embed(ctx, model.EmbedRequest{Model: a.model.Name, Input: texts, Dimensions: b.Dimensions})
		return got.Usage, err
	})
	if bad, is := errors.AsType[*itemError](err); is {
		a.shard.fail(i, bad.code, bad.err)
		return nil
	}
	if err != nil {
		return a.shard.answer(i, nil, err)
	}
	return a.shard.value(i, b.answer(got.Vectors, got.Usage))
}

// answer is the body of a response, as OpenAI's servers write it.
func (b *embeddingsBody) answer(vectors [][]float32, u model.Usage) any {
	type entry struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	data := make([]entry, len(vectors))
	for i, v := range vectors {
		data[i] = entry{"embedding", i, v}
		if b.Format == "base64" {
			var raw []byte
			for _, x := range v {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			data[i].Embedding = base64.StdEncoding.EncodeToString(raw)
		}
	}
	body := map[string]any{"object": "list", "data": data, "model": b.Model}
	if u != (model.Usage{}) { // of texts that went together nobody tells each one's share
		body["usage"] = map[string]int{"prompt_tokens": u.InputTokens, "total_tokens": u.InputTokens}
	}
	return body
}
