package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

// listKinds are the kinds of jobs that work on lists, as people see them.
var listKinds = []lease.Kind{pipeline.Embed, pipeline.Classify, pipeline.Generate, pipeline.OCR, pipeline.Summarize}

func kindNames() string {
	return joined(append([]lease.Kind{pipeline.Library, pipeline.Transcode}, listKinds...))
}

const listHelp = "The input of a list is files: JSON Lines (.jsonl) of items {\"custom_id\", \"input\"} or of\n" +
	"OpenAI Batch lines, or texts, images and PDF files, an item each; - is standard input."

// listFlags are the parameters of list jobs, and how their input is read.
func listFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Usage: "`MODEL` that does it (batch lines name it themselves)"},
		&cli.StringFlag{Name: "digest", Usage: "the model's `DIGEST`, when it must be that one"},
		&cli.StringFlag{Name: "tier", Usage: "`TIER` of servers to use, as workers name them"},
		&cli.StringFlag{Name: "prompt", Usage: "`TEMPLATE` of the question, with {{field}} for an item's field"},
		&cli.StringFlag{Name: "system", Usage: "generate: `TEXT` the model is told first"},
		&cli.StringFlag{Name: "schema", Usage: "generate: `FILE` with the JSON schema of the answers", TakesFile: true},
		&cli.StringFlag{Name: "labels", Usage: "classify: the `LABELS`, separated by commas"},
		&cli.Float64Flag{Name: "temperature", Usage: "generate: `T`; 0 answers the same to the same"},
		&cli.Int64Flag{Name: "seed", Usage: "generate: `N` that the randomness is made from"},
		&cli.IntFlag{Name: "max-tokens", Usage: "generate: an answer has at most `N` tokens (default: until it ends)"},
		&cli.IntFlag{Name: "context", Usage: "question and answer together have at most `N` tokens (default: as the server likes; summarize: 4096)"},
		&cli.IntFlag{Name: "dimensions", Usage: "embed: vectors of `N` numbers (default: the model's)"},
		&cli.IntFlag{Name: "together", Usage: "embed: `N` texts in one request", Value: 64},
		&cli.BoolFlag{Name: "skip-bad", Usage: "queue the good lines, tell of the others"},
		&cli.BoolFlag{Name: "0", Usage: "read file names from standard input, each ended by NUL"},
	}
}

// ofList are the flags that only list jobs have.
var ofList = []string{"model", "digest", "tier", "prompt", "system", "schema", "labels", "temperature", "seed", "max-tokens", "context", "dimensions", "together", "skip-bad", "0"}

// ofKind are those of them that belong to some kinds only.
var ofKind = map[string][]lease.Kind{
	"prompt": {pipeline.Generate, pipeline.Classify, pipeline.OCR}, "system": {pipeline.Generate}, "schema": {pipeline.Generate},
	"labels": {pipeline.Classify}, "temperature": {pipeline.Generate}, "seed": {pipeline.Generate}, "max-tokens": {pipeline.Generate},
	"context": {pipeline.Generate, pipeline.Classify, pipeline.Summarize}, "dimensions": {pipeline.Embed}, "together": {pipeline.Embed},
	"language": {pipeline.OCR, pipeline.Summarize}, "audio-lang": {}, "chunk": {}, "watch": {}, "every": {}, "preset": {},
}

// ofWords are the flags that say nothing to renditions of films.
var ofWords = []string{"language", "chunk", "formats"}

// checkFlags refuses flags that say nothing to the kind.
func checkFlags(x *cli.Context, kind lease.Kind) error {
	if pipeline.OfFilms(kind) {
		others := slices.Concat(ofList, []string{"preset"})
		if kind == pipeline.Transcode {
			others = slices.Concat(ofList, ofWords)
		}
		for _, name := range others {
			if x.IsSet(name) {
				return usagef("--%s does not belong to %s", name, kind)
			}
		}
		return nil
	}
	for name, kinds := range ofKind {
		if x.IsSet(name) && !slices.Contains(kinds, kind) {
			return usagef("--%s does not belong to %s", name, kind)
		}
	}
	return nil
}

// listParams reads the parameters of a list job from its flags, and what its lines
// say: their model, and whether they are batch lines.
func listParams(x *cli.Context, kind lease.Kind, check *pipeline.LineCheck, offers []string) (json.RawMessage, error) {
	m := pipeline.ModelParams{
		Model: check.Model, Digest: strings.TrimPrefix(x.String("digest"), "sha256:"), Tier: x.String("tier"),
		Batch: check.URL != "", Fresh: x.Bool("fresh"),
	}
	if err := pin(&m, offers); err != nil {
		return nil, err
	}
	if m.Model == "" && !m.Batch && (kind == pipeline.Embed || kind == pipeline.Classify || kind == pipeline.Generate) {
		return nil, usagef("%s needs a model: --model MODEL", kind)
	}
	var p any
	switch kind {
	case pipeline.Embed:
		p = pipeline.EmbedParams{ModelParams: m, Together: x.Int("together"), Dimensions: x.Int("dimensions")}
	case pipeline.Generate:
		g := pipeline.GenerateParams{
			ModelParams: m, System: x.String("system"), Prompt: x.String("prompt"), Temperature: x.Float64("temperature"),
			Seed: x.Int64("seed"), MaxTokens: x.Int("max-tokens"), Context: x.Int("context"),
		}
		if file := x.String("schema"); file != "" {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("schema: %w", err)
			}
			if !json.Valid(b) {
				return nil, usagef("schema %q is not JSON", file)
			}
			g.Schema = b
		}
		p = g
	case pipeline.Classify:
		c := pipeline.ClassifyParams{ModelParams: m, Prompt: x.String("prompt"), Context: x.Int("context")}
		for _, l := range strings.Split(x.String("labels"), ",") {
			if l = strings.TrimSpace(l); l != "" {
				c.Labels = append(c.Labels, l)
			}
		}
		if len(c.Labels) < 2 {
			return nil, usagef("classify needs two labels or more: --labels A,B")
		}
		p = c
	case pipeline.OCR:
		p = pipeline.OCRParams{ModelParams: m, Language: x.String("language"), Prompt: x.String("prompt")}
	case pipeline.Summarize:
		p = pipeline.SummarizeTextParams{ModelParams: m, Language: x.String("language"), Context: x.Int("context")}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if _, err := (pipeline.Planner{}).List(kind, b); err != nil {
		return nil, usagef("%s: %v", kind, err)
	}
	return b, nil
}

// pin fixes which model of its name does a job, where workers tell: results of two
// digests never mix.
func pin(m *pipeline.ModelParams, offers []string) error {
	if m.Model == "" || m.Digest != "" {
		return nil
	}
	digests := pipeline.Digests(offers, m.Model, m.Tier)
	if len(digests) > 1 {
		return hint(usagef("workers have %d models called %q: %s", len(digests), m.Model, strings.Join(digests, ", ")), "choose one with --digest")
	}
	if len(digests) == 1 {
		m.Digest = digests[0]
	}
	return nil
}
