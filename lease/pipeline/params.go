package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"macbatch/lease"
	"macbatch/lease/item"
)

// ModelParams say which model does the work, and where. A job names a model and a
// tier, never an address.
type ModelParams struct {
	Model  string `json:"model,omitempty"`
	Digest string `json:"digest,omitempty"` // of the model, pinned; "": whichever a worker has
	Tier   string `json:"tier,omitempty"`   // of servers, such as local; "": any
	// Batch says that the lines of the input are those of OpenAI's Batch API, and
	// values the bodies of its responses.
	Batch bool `json:"batch,omitempty"`
	Fresh bool `json:"fresh,omitempty"` // do all work anew, reuse no earlier result
	// Request is what a client of that API said of its batch; nil: the job came
	// another way. It decides nothing.
	Request *BatchRequest `json:"request,omitempty"`
}

// BatchRequest is kept to be told again.
type BatchRequest struct {
	Endpoint string            `json:"endpoint"`
	Metadata map[string]string `json:"metadata,omitempty"`
	File     string            `json:"file,omitempty"` // what the client called its input
}

// EmbedParams are the parameters of an embed job. A value is the base64 of a
// vector's 32-bit floats, little-endian.
type EmbedParams struct {
	ModelParams
	Together   int `json:"together,omitempty"`   // texts in one request; 0: 64
	Dimensions int `json:"dimensions,omitempty"` // 0: the model's own
}

// GenerateParams are the parameters of a generate job. A value is a TextValue.
type GenerateParams struct {
	ModelParams
	System      string          `json:"system,omitempty"`
	Prompt      string          `json:"prompt,omitempty"` // a template over the item's fields; "": the item's text
	Schema      json.RawMessage `json:"schema,omitempty"` // JSON schema of the answer
	Temperature float64         `json:"temperature,omitempty"`
	Seed        int64           `json:"seed,omitempty"`
	MaxTokens   int             `json:"max_tokens,omitempty"` // of an answer; 0: until it ends
	Context     int             `json:"context,omitempty"`    // tokens of prompt and answer; 0: the server's choice
}

// ClassifyParams are the parameters of a classify job. A value is a LabelValue.
type ClassifyParams struct {
	ModelParams
	Labels  []string `json:"labels"`
	Prompt  string   `json:"prompt,omitempty"` // a template; "": asks for the label of the item's text
	Context int      `json:"context,omitempty"`
}

// OCRParams are the parameters of an ocr job. A value is a TextValue.
type OCRParams struct {
	ModelParams        // with a model that sees; without: tesseract
	Language    string `json:"language,omitempty"` // as tesseract names it
	Prompt      string `json:"prompt,omitempty"`   // for the model
}

// SummarizeTextParams are the parameters of a summarize job over texts. A value is
// a SummaryValue.
type SummarizeTextParams struct {
	ModelParams        // without a model: an extractive summary
	Language    string `json:"language,omitempty"`
	Context     int    `json:"context,omitempty"` // tokens of the model's context; 0: 4096
}

// The bounds of parameters.
const (
	MaxTogether = 4096
	maxName     = 200
	maxTokens   = 1 << 22
	maxLabels   = 1000
)

// parameters are what each kind's parameters can say of themselves.
type parameters interface {
	check() error
	model() *ModelParams
	Need() string     // what a worker must offer
	repeatable() bool // the same input gives the same value
}

// check reads and checks the parameters of a kind.
func check[T any, P interface {
	*T
	parameters
}](b []byte) (need string, reusable bool, err error) {
	p := P(new(T))
	if err := decode(b, p); err != nil {
		return "", false, err
	}
	m := p.model()
	if err := errors.Join(m.check(), p.check()); err != nil {
		return "", false, err
	}
	// A result of one digest is none for another: with a model that is not pinned
	// nobody can tell whether an earlier result is what this job would get.
	pinned := m.Model == "" || m.Digest != ""
	return p.Need(), p.repeatable() && pinned && !m.Fresh && !m.Batch, nil
}

func (m *ModelParams) model() *ModelParams { return m }

func (m *ModelParams) repeatable() bool { return true }

func (m *ModelParams) check() error {
	for name, s := range map[string]string{"model": m.Model, "tier": m.Tier} {
		if len(s) > maxName || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }) {
			return fmt.Errorf("%s %.100q: too long, or with spaces or control characters", name, s)
		}
	}
	switch {
	case m.Digest != "" && (len(m.Digest) > 128 || strings.Trim(m.Digest, "0123456789abcdef") != ""):
		return fmt.Errorf("digest %.200q: must be lower-case hexadecimal", m.Digest)
	case m.Model == "" && (m.Digest != "" || m.Tier != "" || m.Batch):
		return errors.New("no model is named")
	case strings.ContainsAny(m.Tier, "@#"):
		return fmt.Errorf("tier %q: must not have @ or #", m.Tier)
	case m.Request != nil && !m.Batch:
		return errors.New("only batch lines have a request")
	case m.Request != nil:
		return m.Request.check()
	}
	return nil
}

// The bounds of a batch's metadata, as its API has them.
const (
	maxPairs     = 16
	maxPairName  = 64
	maxPairValue = 512
)

func (r *BatchRequest) check() error {
	if len(r.Endpoint) > maxName {
		return fmt.Errorf("endpoint %.100q is too long", r.Endpoint)
	}
	if len(r.File) > maxName {
		return fmt.Errorf("file name %.100q is too long", r.File)
	}
	if len(r.Metadata) > maxPairs {
		return fmt.Errorf("metadata: %d pairs, over %d", len(r.Metadata), maxPairs)
	}
	for k, v := range r.Metadata {
		if utf8.RuneCountInString(k) > maxPairName || utf8.RuneCountInString(v) > maxPairValue {
			return fmt.Errorf("metadata %.100q: names have at most %d characters, values %d", k, maxPairName, maxPairValue)
		}
	}
	return nil
}

// shortDigest is how much of a digest a need and an offer name.
const shortDigest = 12

// Need is what workers offer that can do the work: MODEL, MODEL#DIGEST with the
// digest's beginning, and either with @TIER. "" without a model.
func (m *ModelParams) Need() string {
	s := m.Model
	if m.Digest != "" {
		s += "#" + m.Digest[:min(len(m.Digest), shortDigest)]
	}
	if m.Tier != "" {
		s += "@" + m.Tier
	}
	return s
}

// Offers are all the needs that a model on a server of a tier meets.
func Offers(model, digest, tier string) []string {
	all := []string{
		(&ModelParams{Model: model}).Need(), (&ModelParams{Model: model, Tier: tier}).Need(),
	}
	if digest != "" {
		all = append(all, (&ModelParams{Model: model, Digest: digest}).Need(), (&ModelParams{Model: model, Digest: digest, Tier: tier}).Need())
	}
	return all
}

// Digests are the digests, as far as offers name them, that a model of a tier (""
// of any) has on the workers that offer it.
func Digests(offers []string, model, tier string) []string {
	var all []string
	for _, o := range offers {
		rest, ok := strings.CutPrefix(o, model+"#")
		if !ok {
			continue
		}
		digest, at, _ := strings.Cut(rest, "@")
		if at == tier && !slices.Contains(all, digest) {
			all = append(all, digest)
		}
	}
	return all
}

func (p *EmbedParams) check() error {
	switch {
	case p.Model == "":
		return errors.New("no model is named")
	case p.Together < 0 || p.Together > MaxTogether:
		return fmt.Errorf("%d texts together: must be 0 to %d", p.Together, MaxTogether)
	case p.Dimensions < 0 || p.Dimensions > 1<<16:
		return fmt.Errorf("%d dimensions: must be 0 to %d", p.Dimensions, 1<<16)
	}
	return nil
}

func (p *GenerateParams) check() error {
	switch {
	case p.Model == "":
		return errors.New("no model is named")
	case p.Temperature < 0 || p.Temperature > 10:
		return fmt.Errorf("temperature %v: must be 0 to 10", p.Temperature)
	case p.MaxTokens < 0 || p.MaxTokens > maxTokens || p.Context < 0 || p.Context > maxTokens:
		return fmt.Errorf("tokens: must be 0 to %d", maxTokens)
	case len(p.Schema) > 0 && p.Schema[0] != '{':
		return errors.New("schema: must be an object")
	case p.Batch && (p.System != "" || p.Prompt != "" || p.Schema != nil):
		return errors.New("batch lines have prompts of their own")
	}
	return CheckTemplate(p.Prompt)
}

func (p *GenerateParams) repeatable() bool { return p.Temperature == 0 }

func (p *ClassifyParams) check() error {
	switch {
	case p.Model == "":
		return errors.New("no model is named")
	case p.Batch:
		return errors.New("classify takes no batch lines")
	case len(p.Labels) < 2 || len(p.Labels) > maxLabels:
		return fmt.Errorf("%d labels: must be 2 to %d", len(p.Labels), maxLabels)
	case p.Context < 0 || p.Context > maxTokens:
		return fmt.Errorf("tokens: must be 0 to %d", maxTokens)
	}
	seen := map[string]bool{}
	for _, l := range p.Labels {
		if l == "" || len(l) > maxName || seen[l] {
			return fmt.Errorf("label %.100q is empty, too long or named twice", l)
		}
		seen[l] = true
	}
	return CheckTemplate(p.Prompt)
}

// Need is the model, or the language that tesseract must know.
func (p *OCRParams) Need() string {
	if p.Model != "" || p.Language == "" || strings.Contains(p.Language, "+") {
		return p.ModelParams.Need()
	}
	return TesseractNeed(p.Language)
}

// TesseractNeed is what a worker offers whose tesseract knows a language.
func TesseractNeed(language string) string { return "tesseract:" + language }

func (p *OCRParams) check() error {
	if p.Batch {
		return errors.New("ocr takes no batch lines")
	}
	if len(p.Language) > 100 || strings.Trim(p.Language, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+/") != "" {
		return fmt.Errorf("language %.100q: must be names such as eng, joined by +", p.Language)
	}
	return nil
}

func (p *SummarizeTextParams) check() error {
	switch {
	case p.Batch:
		return errors.New("summarize takes no batch lines")
	case len(p.Language) > 20:
		return errors.New("language is too long")
	case p.Context != 0 && (p.Context < 512 || p.Context > maxTokens):
		return fmt.Errorf("context of %d tokens: must be 512 to %d", p.Context, maxTokens)
	}
	return nil
}

// ListParams reads and checks the parameters of a list job's shard into p, a
// pointer to those of its kind.
func ListParams(b []byte, p any) error {
	if err := decode(b, p); err != nil {
		return err
	}
	q, ok := p.(parameters)
	if !ok {
		return fmt.Errorf("no parameters of a kind: %T", p)
	}
	return errors.Join(q.model().check(), q.check())
}

// IsList reports whether jobs of a kind work on a list.
func IsList(k lease.Kind) bool {
	_, ok := lists[k]
	return ok
}

// CheckTemplate refuses a template that has an opening without an end.
func CheckTemplate(t string) error {
	_, err := Fill(t, nil)
	if _, missing := errors.AsType[*missingField](err); missing {
		return nil
	}
	return err
}

// missingField is the error of a template that names what the item has not.
type missingField struct{ name string }

func (m *missingField) Error() string {
	return fmt.Sprintf("%.100q is missing, which the prompt names", m.name)
}

// Fill puts an item's fields in the places of a template: {{name}}. A text goes in
// as it is, other values as JSON.
func Fill(template string, it *item.Item) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(template, "{{")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}}")
		if !ok {
			return "", errors.New("prompt: {{ without its }}")
		}
		name = strings.TrimSpace(name)
		var raw json.RawMessage
		if it != nil {
			raw = it.Fields[name]
		}
		if raw == nil {
			return "", &missingField{name}
		}
		var text string
		if raw[0] != '"' {
			text = string(raw)
		} else if err := json.Unmarshal(raw, &text); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		b.WriteString(text)
		template = after
	}
}
