// Package transcode takes the sound of a film: 16 kHz, mono, 16 bits, in FLAC
// files of some minutes each, cut where nobody speaks.
//
// All times are milliseconds on the film's time line, which begins at zero: sound
// that starts late is preceded by silence. Chunks answer for stretches that tile
// the whole; their sound reaches a little beyond, a second at a pause and several
// where there was none. The same film gives the same bytes.
//
// Errors: *MediaError for a film that no attempt will read, ErrSourceChanged and
// ErrSourceMissing when the file is not the one that was scanned,
// inventory.ErrNoRoot; anything else may go away by itself.
package transcode
