// Package gather writes what a job over films accepted into a folder that mirrors
// the folders of its root. It writes over nothing that is not its own.
//
// For a film ROOT/a/b.mp4 it writes a/b.summary.md and the formats that are asked
// for: a/b.srt, a/b.vtt, a/b.txt, a/b.json, a/b.tsv, a/b.text.md. A format that a
// film has from an earlier gathering is kept up to date. Of a transcode job it writes
// a/b.proxy.mp4 or a/b.sheet.jpg. Films whose names would collide, also on a file system that
// folds case or composes accents, keep their whole file name (a/b.mp4.srt), and
// when that is not enough a "~" and the beginning of their path's digest. A name
// whose place is taken by a file that is not this film's gives way in the same
// manner; where the folder itself can't be made, the film's outputs go to the top
// of the output folder. A name once given stays the film's.
//
// # The folder
//
//	manifest.jsonl   a line for each file of the root, sorted by root and path
//	.macbatch/       while it is written to: lock, tmp (files that are not yet
//	                 whole) and journal (digests about to get final names)
//
// A file appears under its final name only when it is whole. A gathering that
// was killed is repaired by the next: a file is known to be this film's by the
// digests in the manifest and in the journal. One that somebody edited is kept.
//
// # A line of the manifest
//
//	source       {"root", "path", "size", "mtime_ns", "inode"}
//	preset       proxy or sheet: the line is of that; without: of the film's words
//	outcome      done, no_audio, no_picture, no_speech (an empty transcript), partial (a
//	             transcript, but no summary), failed, canceled, skipped
//	reason       why it is not done
//	duration_ms  of the film's sound
//	flags        of its transcript, such as suspicious
//	score        the share of it that is not in doubt, where some is
//	doubts       [{"kind", "from_ms", "to_ms", "evidence"}], the first ten
//	sound        digest of its sound's samples
//	same_sound_as  the film, first by path, that has the same: copies, renamed
//	             and re-muxed films, whose words were looked for once
//	name         what the names of its outputs begin with
//	outputs      [{"path", "sha256", "bytes"}]; also those that an earlier
//	             gathering wrote and this one could not renew
//	made         of a rendition: encoder, codec, size, audio track, times of stills, and
//	             the shard, worker and fence that made it
//	of           digest of the accepted results the outputs were made from
//
// Paths are relative, "/"-separated; one that is not UTF-8 is percent-encoded
// behind "percent:". Lines of other roots, and of films that are gone, stay.
//
// # A film's JSON
//
// path, duration_ms, language, flags, doubts and segments are the same however often the
// work was disturbed; what may differ is in provenance: the source's identity and
// audio track, and for each piece of work its shard, worker, fence, engine, model
// and parameters.
//
// Errors: those of lease.Control, and of the file system with the film's path.
package gather
