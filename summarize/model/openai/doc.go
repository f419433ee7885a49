// Package openai runs models on any server that speaks OpenAI's protocol: MLX,
// llama.cpp, LM Studio, vLLM, Ollama's /v1, a cloud. It uses /v1/models,
// /v1/embeddings, /v1/chat/completions and, for requests made for them, passes
// bodies through as they are.
//
// Servers differ in how they tell errors, in what they leave out, and in whether
// they tell of digests (none does): what is missing is taken as not known.
package openai
