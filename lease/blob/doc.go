// Package blob keeps accepted bytes as files named by their SHA-256. A file with
// its final name is whole; nothing is ever changed in place.
//
// # Folders
//
//	ab/abcd…64 lower-case hex digits   a blob, under the first two of them; 0600 in 0700
//	tmp/                               blobs being received; Clean empties it
//	damaged/                           blobs whose bytes no longer match, kept for a look
//
// A blob is received into tmp/ while it is hashed, synced, renamed, and its
// folder synced, so that no other process ever sees part of one. Names carry no
// version: another hash would be another top folder.
//
// What refers to a blob, and when one may go, is not known here.
package blob
