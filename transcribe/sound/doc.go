// Package sound looks at 16 kHz mono 16-bit PCM: how loud it is, where somebody
// pauses, whether it can hold speech at all.
//
// Levels are decibels over an RMS of one, so full scale is about 90; a frame is
// 10 ms. Nothing here knows a language: it answers what an empty transcript has
// to be judged by, and where a recogniser may be given pieces.
//
// Errors: Decode returns *transcribe.PermanentError for a file that ffmpeg can't
// read or that holds less sound than it should; others may go away.
package sound
