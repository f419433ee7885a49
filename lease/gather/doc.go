// Package gather writes what a library job accepted into a folder that mirrors
// the folders of its root.
//
// For a film ROOT/a/b.mp4 it writes a/b.srt, a/b.vtt, a/b.txt, a/b.json and
// a/b.summary.md. Films whose names would collide, also on a file system that
// folds case or composes accents, keep their whole file name (a/b.mp4.srt), and
// when that is not enough a part of their path's digest. Nothing is written over
// that the manifest does not know as this film's own.
//
// # The folder
//
//	manifest.jsonl   a line for each file of the root, sorted by root and path
//	.macbatch/       while a gathering runs: lock, files being written, and a
//	                 journal of the digests about to get final names
//
// A file appears under its final name only when it is whole. A gathering that
// was killed is repaired by the next: the journal tells which files are its own.
//
// # A line of the manifest
//
//	source    {"root", "path", "size", "mtime_ns", "inode"}
//	outcome   done, no_audio, no_speech, partial (a transcript, but no summary),
//	          failed, canceled, skipped
//	reason    why it is not done
//	duration_ms, name (what the outputs' names begin with)
//	outputs   [{"path", "sha256", "bytes"}]
//	of        digest of the accepted results the outputs were made from
//
// Paths are relative, "/"-separated; one that is not UTF-8 is percent-encoded
// behind "percent:".
package gather
