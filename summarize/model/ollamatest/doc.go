// Package ollamatest runs a real Ollama server inside a test, with models of a
// few hundred kilobytes that it makes itself:
//
//	tiny-chain   recites Passage, whatever it is asked
//	tiny-loop    recites it over and over, without an end
//	tiny-bert    an embedder of 64 dimensions and 256 tokens of context
//	tiny-other   another embedder, with other weights
//	tiny-vision  sees images, and says nothing else than Seen
//
// The program is the one that OLLAMA names in the environment, or the one that
// scripts/setup built into the cache, or the one in PATH. Without any a test is
// skipped, and fails where CI is set.
package ollamatest
