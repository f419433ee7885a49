package model

import (
	"context"
	"encoding/json"
)

// Runtime runs models on one server. Its methods may be called concurrently.
type Runtime interface {
	// Models lists the models that the server has.
	Models(ctx context.Context) ([]Model, error)

	// Embed returns one vector for each input, in order, all of one length,
	// finite. One input that can't be embedded fails the whole call.
	Embed(ctx context.Context, r EmbedRequest) (Embeddings, error)

	// Generate returns the text that the model answers with. It is not empty.
	Generate(ctx context.Context, r GenerateRequest) (Generated, error)
}

// Model is a model as its server knows it.
type Model struct {
	Name   string `json:"name"`             // what requests call it
	Digest string `json:"digest,omitempty"` // of its weights and settings, lower-case hexadecimal; "" where the server tells none
}

// EmbedRequest asks for vectors.
type EmbedRequest struct {
	Model      string
	Input      []string // none of them empty
	Dimensions int      // 0: the model's own
}

// Embeddings is the answer to an EmbedRequest.
type Embeddings struct {
	Vectors [][]float32
	Usage   Usage
}

// Role says who speaks in a Message.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn of what the model is told.
type Message struct {
	Role   Role
	Text   string
	Images [][]byte // PNG, JPEG or what else the model reads; of a User only
}

// GenerateRequest asks for a text. Zero fields leave the choice to the server.
type GenerateRequest struct {
	Model       string
	Messages    []Message       // at least one
	Schema      json.RawMessage // JSON Schema that the answer must meet
	Seed        *int64
	Temperature *float64
	TopP        *float64
	MaxTokens   int // of the answer
	Context     int // tokens of question and answer together, where the server lets us choose
	Stop        []string

	Progress func(tokens int) // called as the answer comes, where the server lets us see; may be nil
}

// Finish says why an answer ended.
type Finish string

// The ends of an answer.
const (
	Stopped Finish = "stop"   // the model had no more to say
	Length  Finish = "length" // it was cut at MaxTokens
)

// Generated is the answer to a GenerateRequest.
type Generated struct {
	Text   string
	Finish Finish
	Usage  Usage
}

// Usage counts tokens, as the server tells; zero where it does not.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens,omitempty"`
}

// Add sums up.
func (u *Usage) Add(v Usage) {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
}

// Passer is a Runtime whose server speaks the protocol that batch lines are
// written in: bodies go there, and answers come back, as they are.
type Passer interface {
	// Pass posts body to path and returns the body of a 2xx answer, unjudged.
	Pass(ctx context.Context, path string, body []byte) (answer []byte, err error)
}
