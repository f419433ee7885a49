// Package doctor looks whether a machine is able to do its work, by doing a little of
// it: two seconds of sound transcribed, a word of each model, a file of each root
// read, a block synced to disk. What it finds is one sentence each, good or bad, and,
// where it is bad, what to do about it.
//
// A program may work where it is called and not as a service: macOS lets services
// into the local network and to other disks only when they are allowed to, and
// launchd slows some down. Compare tells how findings of the two differ.
//
// # File
//
// starts in a data folder has a line for each of the last starts of the process that
// the folder belongs to, oldest first, in RFC 3339. A line that cannot be read is no
// start.
package doctor
