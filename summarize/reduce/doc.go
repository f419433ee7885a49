// Package reduce makes summaries that a model writes, of texts of any length: a
// text that fits the model's context is summarized at once, a longer one piece by
// piece, and the summaries of the pieces together, until they fit. A film is
// summarized by chapters, which are cut at pauses.
package reduce
