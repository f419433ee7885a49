// Package spool is a directory queue of finished results waiting to be
// delivered. It knows nothing of their content. One process adds; any process
// on the machine may list, read and, holding Lock, deliver and remove.
//
// # Folders
//
//	tmp/       files being written; nothing here counts, Clean empties it
//	new/       entries waiting, one file each; a file here is whole
//	rejected/  entries that were refused, each with NAME.reason beside it
//	damaged/   entries whose bytes no longer agree with themselves
//	blobs/     large parts of entries, named by the SHA-256 of their bytes, shared
//	bell/      one small file, rewritten whenever an entry was added
//	uploader   lock file: the process that delivers, its pid inside
//	blobs.lock lock file: held while blobs gain or lose references
//
// An entry is published by rename(2) after its bytes are synced, and the folder
// is synced after. A scan of new/ is the truth; the bell is only a reason to
// look. Folders are made 0700, files 0600.
//
// # Names
//
//	20261008T221314.123456789Z-7f3_12-42949672961-9f86d081
//
// The UTC instant of Add with nine decimals, the shard with everything outside
// A-Z a-z 0-9 . _ - replaced by _ and cut to 100 bytes, the fence in decimal,
// and the first 8 hex digits of the entry's digest. Names sort by time. The
// shard in a name may be shortened: the one inside the file counts.
//
// # An entry, byte for byte
//
//	macbatch spool entry 1\n
//	sha256 64 lower-case hex digits\n
//	shard "quoted as a Go string"\n
//	fence decimal\n
//	blob 64 lower-case hex digits, space, size in bytes in decimal\n     (0 or more)
//	body length in bytes in decimal\n
//	the body, exactly so many bytes, then the end of the file
//
// The digest covers line 1 and everything after line 2, so each byte of the
// file is checked by it or is it. Only the one spelling that Add writes is read:
// no leading zeros, no other quoting.
//
// # Changing the format
//
// Lines 1 and 2, and what the digest covers, are the same in every version: so
// an older program tells an entry of a newer one (ErrVersion, left where it is)
// from a damaged one (ErrDamaged, moved aside). To change anything else: raise
// version, keep the old decoder beside the new for one release, add a
// golden file of the old version to testdata, and write only the new one.
package spool
