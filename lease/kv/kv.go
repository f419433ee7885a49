package kv

import "errors"

// ErrUnknownOutcome is returned when a commit failed in a way that leaves open
// whether it is durable. The engine must not be used again; reopening it tells.
var ErrUnknownOutcome = errors.New("commit outcome unknown")

// ErrNotLeader is returned when this process is not, or is no longer, the one
// writer of the engine. Nothing of the commit was applied.
var ErrNotLeader = errors.New("not the writer")

// ErrFull is returned when the disk had no room and the engine has shown that
// nothing of the commit was applied. The engine stays usable.
var ErrFull = errors.New("no space left for the store")

// ErrClosed is returned by an engine that was closed.
var ErrClosed = errors.New("store closed")

// ErrKey is returned by Put and Delete for a key outside 1 to MaxKey bytes.
var ErrKey = errors.New("key too short or too long")

// ErrOrder is returned by Append for a sequence that is not above all earlier ones.
var ErrOrder = errors.New("log sequence out of order")

// MaxKey is the length of the longest key, in bytes.
const MaxKey = 32768

// Reader is one consistent snapshot. Slices it hands out belong to the engine:
// they are valid until the transaction ends and must not be changed.
type Reader interface {
	// Get returns the value of key, or nil when there is none. A stored empty
	// value is returned non-nil.
	Get(key []byte) []byte

	// Scan calls fn for each key from <= key < to in ascending byte order until
	// fn returns false. A nil to means to the end, an empty one before the
	// first key. fn must not write.
	Scan(from, to []byte, fn func(key, value []byte) bool)

	// Log calls fn for each record of the log whose sequence is >= from, in
	// ascending order, until fn returns false. fn must not write.
	Log(from uint64, fn func(seq uint64, record []byte) bool)

	// LogBack is Log in descending order: records whose sequence is <= from.
	LogBack(from uint64, fn func(seq uint64, record []byte) bool)
}

// Writer is the one open write transaction. It sees its own writes.
//
// Keys and values handed to it must not change until the transaction ended; an
// engine may keep them without a copy.
type Writer interface {
	Reader

	// Put sets the value of key. A nil value is stored as an empty one.
	Put(key, value []byte) error

	// Delete removes key. That there is none is no error.
	Delete(key []byte) error

	// Append adds a record to the log. seq must be greater than that of every
	// record the log ever held, trimmed ones included; it need not be
	// consecutive.
	Append(seq uint64, record []byte) error

	// Trim removes the records whose sequence is < before.
	Trim(before uint64) error
}

// Engine is an ordered map and an append-only log that commit together.
type Engine interface {
	// View runs fn on a consistent snapshot. It returns fn's error.
	View(fn func(Reader) error) error

	// Update runs fn once in a write transaction and commits durably before it
	// returns nil. When fn returns an error, or panics, nothing is written, and
	// that error is returned. Any other error is ErrUnknownOutcome, ErrNotLeader,
	// ErrFull or ErrClosed. Where fn wrote nothing there is no commit.
	Update(fn func(Writer) error) error

	// Close releases the engine. It waits for open transactions. Closing again
	// is no error.
	Close() error
}
