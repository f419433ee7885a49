// Package summarize makes short texts out of long ones.
//
// [Summarize] picks whole sentences of a transcript and writes none of its own:
// LexRank (Erkan and Radev 2004) over TF-IDF vectors of stemmed words. It needs no
// model and no network, is deterministic, and takes time and memory in proportion
// to the words it is given. It cannot fail: a transcript without speech has a
// summary that says so.
//
// Times are milliseconds from the start of the media. Text that comes out holds no
// control, bidi or invisible formatting characters and no line breaks; invalid
// UTF-8 is replaced by U+FFFD.
package summarize
