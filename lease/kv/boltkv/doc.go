// Package boltkv keeps a kv.Engine in one local bbolt file with one writer.
//
// # Files
//
//	PATH          the store, a bbolt file
//	PATH.lock     locked by the writer while it lives; "pid 123 on host" inside
//	PATH.new      a store being made; left by a crash, made anew by the next Open
//	PATH.reserve  Options.Reserve bytes of nothing, given up on a full disk
//
// # Buckets
//
//	macbatch  "format" → "1"
//	map       the map, as it is
//	log       8 bytes big-endian sequence → record; the bucket's own sequence
//	          number is the highest ever appended
//
// To change the buckets: raise format, let Open migrate an older file in one
// transaction, and say here what each format was. A file of a newer format is
// refused with ErrNewer, anything else that is no whole store with ErrNotStore:
// Open repairs nothing and never initialises an existing file.
//
// # Damage
//
// bbolt trusts its pages. What comes of a damaged one, a panic or a fault, ends as
// ErrDamaged. Check reads each page without bbolt, and finds damage that bbolt would
// not meet before it writes: a page that is listed as free and in use.
//
// # Durability
//
// A commit is two syncs, data then meta page; a new file is published by rename
// and its folder synced at each Open for writing. After a failed commit the
// meta pages are read back: only a full disk with the commit counter unchanged
// is ErrFull, all else is ErrUnknownOutcome and the engine answers nothing more.
// The freelist is kept in the file: opening reads a few pages whatever the size
// (0.01 s against 0.4 s for 250 MB), at 2 ms more a commit while 120 MB of it are
// free, after a large prune.
package boltkv
