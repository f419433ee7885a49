// Package transcribe holds what a speech recogniser says about a sound, the
// contract its engines keep, and the joining of chunks into one transcript.
//
// All times are milliseconds from the start of the sound, or after Join from
// the start of the film. A transcript's segments, and the words of a segment,
// are in order and do not overlap; texts are valid UTF-8 and not blank;
// confidences lie between 0 and 1, where 0 means unknown. A transcript without
// segments carries the flag no_speech: an engine that heard nothing in a sound
// with speech in it has failed. Triage notes what in a transcript is to be doubted,
// with the evidence, and flags it suspicious.
//
// Errors: *PermanentError is returned for a sound that no attempt will read or
// a request that no attempt will serve, *BusyError by an engine that wants to be
// left alone for a while, *UnavailableError by one that this machine can't use,
// *UnknownOutcomeError for a paid request whose answer was lost; every other error
// may go away.
// Validate reports the first broken rule, Repair makes a transcript keep them.
package transcribe
