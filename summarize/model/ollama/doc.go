// Package ollama runs models on an Ollama server, by its own protocol: /api/embed
// (on servers too old for it /api/embeddings), /api/generate and /api/chat as
// streams, /api/show for what a model is able to do, /api/tags for digests.
//
// What the protocol leaves unsaid: an input over the context would be cut and
// answered with 200, so every request forbids it; images given to a model
// without eyes would be ignored, so it is asked first; a runner that dies ends a
// stream with 200, so only "done" makes an answer whole; permanent errors come
// as 500, so their texts decide.
package ollama
