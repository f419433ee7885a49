// Package whispercli transcribes with whisper.cpp's command line program,
// whisper-cli, and a ggml model.
//
// The program ends with status 0 even when it could not read the sound or did
// not know a flag, so success is its output file and nothing else. Its model
// makes text up in silence: a sound in which nobody can be speaking is not
// given to it, and what it places in silence is dropped and flagged. So are
// remarks such as [BLANK_AUDIO] or (music), which nobody said.
//
// Errors: ErrNotFound when the program, a model or ffmpeg is missing;
// *transcribe.PermanentError for an unreadable sound, an impossible language, or
// a language the model doesn't know; others may go away.
package whispercli
