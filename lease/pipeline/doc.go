// Package pipeline says what work means. It validates the parameters of a job
// and the result of a shard by their kind, and plans the shards that follow. It
// is pure: the same input gives the same plan, today and after a restart.
//
// The library pipeline turns the films of a folder into transcripts and
// summaries:
//
//	scan        one shard: walk the folder, probe what is media
//	transcode   one per film: its sound, 16 kHz mono, cut into chunks
//	transcribe  one per chunk: speech to words with times
//	summarize   one per film, when all its chunks are transcribed
//
// A film without sound ends after transcode; that is a result, not a failure.
//
// A transcode job makes a rendition of each film's picture instead: a scan, and one
// render for each film, whose file stays with its result until it is gathered and the
// job pruned. A film without a picture has none; that is a result, too.
//
// The kinds of lists have no pipeline: a shard's result is a ListResult with a value
// or an error for each of its lines, and its parameters are the job's. A job of a
// model may be pinned to its digest; only then is its work reused.
//
// Payloads and results are JSON objects of the types below; unknown fields are
// refused on both ends. Times are milliseconds on the film's time line, paths
// are relative to a named root, "/"-separated.
package pipeline
