// Package inventory walks a media root and says what is there.
//
// A root is one folder, usually a mount. Scan never leaves it, follows no
// symbolic link, looks at each inode once, and accounts for every file it met:
// as a Source, a film or recording, possibly with the reason why it can't be
// used, or as Skipped with one of a closed set of reasons. Both lists are sorted
// by the bytes of their paths.
//
// Only a file whose first bytes are those of a known container is ever shown to
// ffprobe: a playlist that is called film.mp4 would make it open other files. One
// that kills ffprobe three times in a row is skipped as unreadable; when nothing
// else is left either, the scan fails.
//
// Paths are the file system's bytes, relative to the root, with '/' between the
// elements; in JSON a path that is not UTF-8 is percent-encoded (see Path).
// Times are milliseconds.
//
// Errors: ErrNoRoot, ErrEmptyRoot, ErrNoFilms, ErrNotRegular, *MediaError, ErrUnreadable.
package inventory
