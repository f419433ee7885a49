// Package pocketsphinx transcribes English with PocketSphinx, which is small,
// works offline and is packaged everywhere.
//
// The sound is decoded once and cut at pauses into utterances (silence left
// out, 25 s at most), which one run of pocketsphinx_batch reads as ranges of
// that one file. A word's times are those in its utterance plus the utterance's
// start; a segment is an utterance; fillers and pronunciation marks are taken
// out. The program's own removal of silence is switched off, for it shifts every
// later time.
//
// Measured on 293 s of the five LibriVox clips and a speech of 1961, each in six
// variants (quieter, slower, faster, noisy, MP3) with pauses between, 558 words,
// Debian's 0.8+5prealpha. Work is counted by the recogniser (millions of senones
// evaluated, of channels searched), for that doesn't depend on the machine's
// other load:
//
//	                                 words wrong   senones  channels  times off by > 0.2 s
//	pocketsphinx_continuous, whole   41.8 %        77       238        1 of 357
//	pocketsphinx_batch, whole        49.5 %        76       225       most: pauses are missing
//	this package                     36.0 %        71       165       1 of 386
//	… with the default -maxhmmpf     36.2 %        74       233       1 of 387
//	… with -maxhmmpf 3000            38.4 %        68       137       1 of 377
//
// Run side by side on two busy cores it took 86 s of CPU where continuous took
// 109 s, decoding by ffmpeg and the look at the sound included.
//
// Errors: ErrNotFound when something isn't installed; *transcribe.PermanentError
// for an unreadable sound or another language; others may go away.
package pocketsphinx
