package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"macbatch/lease"
	"macbatch/summarize"
)

// SummaryParams say which model writes the summaries of films, and where.
type SummaryParams struct {
	Model   string `json:"model,omitempty"`
	Digest  string `json:"digest,omitempty"`  // of the model, pinned; "": whichever a worker has
	Tier    string `json:"tier,omitempty"`    // of servers; "": any
	Context int    `json:"context,omitempty"` // tokens of the model's context; 0: 4096
}

// Params are the parameters of the model, as lists have them.
func (p *SummaryParams) Params() *ModelParams {
	return &ModelParams{Model: p.Model, Digest: p.Digest, Tier: p.Tier}
}

// Need is what a worker must offer; "": nothing.
func (p *SummaryParams) Need() string {
	if p.Model == "" {
		return ""
	}
	return p.Params().Need()
}

func (p *SummaryParams) check() error {
	if p.Context != 0 && (p.Model == "" || p.Context < 512 || p.Context > maxTokens) {
		return fmt.Errorf("context of %d tokens: must be 512 to %d, of a model", p.Context, maxTokens)
	}
	return p.Params().check()
}

// FilmSummary is the result of a summarize shard, and what made it: its model, where
// one was asked.
type FilmSummary struct {
	summarize.Summary
	By Maker `json:"by,omitzero"`
}

// acceptSummary is the rules of a film's summary. One by sentences stands in for a
// model's only when it says why.
func acceptSummary(in *SummarizePayload, res *FilmSummary) (means lease.Acceptance, err error) {
	length := int64(0)
	if n := len(in.Parts); n > 0 {
		length = in.Parts[n-1].ToMS
	}
	if err := res.Validate(length); err != nil {
		return means, fmt.Errorf("summary: %w", err)
	}
	switch by := &res.By; {
	case res.Model != "" && res.Model != in.By.Model:
		return means, fmt.Errorf("a summary by model %.100q, where %q was asked for", res.Model, in.By.Model)
	case res.Model != "" && (by.Model != res.Model || !strings.HasPrefix(by.Digest, in.By.Digest) || in.By.Tier != "" && by.Tier != in.By.Tier):
		return means, fmt.Errorf("a summary by model %.100q of digest %.100q and tier %.100q", by.Model, by.Digest, by.Tier)
	case res.Model == "" && in.By.Model != "" && res.Fallback == "" && !res.NoSpeech:
		return means, fmt.Errorf("an extractive summary, where model %q was asked for", in.By.Model)
	case res.Fallback != "" && in.By.Model == "":
		return means, errors.New("a fallback, where no model was asked for")
	}
	means.Maker = lease.Maker{Engine: res.Engine, Model: res.Model}
	if res.Model != "" {
		means.Maker.Server = res.By.Tier
	}
	return means, nil
}
