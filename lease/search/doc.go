// Package search finds what was said in the films whose transcripts were accepted.
//
// An [Index] is a cache of a control plane, in one SQLite file with an FTS5 table
// for each project. It follows the ledger from a remembered event, a page at a time,
// never within the writer's transaction, and so knows what was accepted within a
// second or two. It holds nothing that the store does not: delete the file, and it is
// built again.
//
// # What is in it
//
// Of each film, known by its project, root and path, the segments of the newest
// accepted transcripts. A transcript of a stretch gives way to a newer one of it:
// of a later generation, or of a later job that met the film again; once a later
// job is through with the film, all older ones give way. What a pruned or canceled
// job transcribed leaves, and what it had replaced comes back; a canceled job that
// is retried comes back, too. A segment across the cut between two chunks is there as
// both heard it; of two hits at one place one is shown.
//
// # When it is built anew
//
// When its file is missing, damaged (as far as SQLite notices) or of another version;
// when the store has another id or epoch than was remembered, stands before the
// remembered event, or has another event there: a store that was restored or rolled
// back. The newest jobs come first, in pages of which each is kept, so that a build
// that was interrupted goes on; what is accepted meanwhile is taken in between.
//
// # Words
//
// A word is a run of letters and digits, without regard to case and diacritics
// (unicode61, remove_diacritics 2). A text of a script without spaces is one word:
// look for its beginning. A query is words, "phrases" and beginnings of at least two
// letters (pref*), with AND, OR, NOT and parentheses between them: NOT binds first,
// then AND, which need not be written, then OR. The operators are upper case. A phrase
// lies within one segment.
//
// # Rank, and its bound
//
// A common word is in millions of segments, and to rank them all takes seconds. So
// the newest 500 that match are ranked ([Candidates]), by how many different words of
// the query they hold, how dense these are, and how new they are; an answer that left
// others out says so (Capped). Whoever looks for something older names films, or more
// words. No query runs for longer than [Patience]; what was found until then is ranked,
// and the answer is capped.
//
// # The file
//
//	state     one row: id and epoch of the store, the last event that was followed and
//	          a digest of it, and below which job a build goes on (0: it is whole)
//	work      jobs to drop or to look through, and behind which shard
//	projects  name, and the number of the next segment
//	films     project, root, path
//	takes     job, item: which film it is, and whether the job is through with it
//	parts     job, shard: the stretch of a film it is the transcript of, and the
//	          numbers of its segments, lo to hi; 0 where a newer one counts
//	words_N   FTS5, of project N: text, start and end in ms, by the segment's number
//
// user_version is the version of all this. The writer and up to four readers have a
// page cache of 8 MiB each.
package search
