// Package openai transcribes with a server that speaks OpenAI's protocol for it:
// POST …/v1/audio/transcriptions, a multipart form, JSON back. whisper-server,
// Speaches, LocalAI, vLLM, Groq and OpenAI are such servers.
//
// # What is sent
//
// The sound is decoded and looked at first, as every engine here does; one in
// which nobody can be speaking is not sent. What is longer than the server's caps
// (Options.MaxBytes, a whole request; Options.MaxMS) goes in pieces strictly below
// them, cut at pauses where there are any and joined again word by word. Beyond
// this machine a piece is FLAC, else WAV. Fields: model, response_format,
// temperature 0, language unless it is to be found out, timestamp_granularities[]
// segment and word, and last file.
//
// # What comes back
//
// verbose_json, of which every field but the text is optional and numbers may be
// strings. Times are seconds; LocalAI's are nanoseconds. Words come in a list of
// their own or within segments, whole or as tokens. Without segments they are made
// of the words, and without those the text is laid out over the utterances of the
// sound and flagged untimed. An empty answer to a sound that holds speech is a
// failure; three in a row give the server a rest as well.
//
// # Errors
//
// A server at rest is left alone by all calls of one engine. A short rest is waited
// out within the call, a longer one is a *transcribe.BusyError.
//
//	429, 503, 529                      rest: Retry-After, or 2 s doubling to 5 min
//	no connection; 502, 504 unpaid     the same
//	401, 403, 404, 405, 3xx, no quota  *transcribe.UnavailableError
//	400, 413, 415, 422                 *transcribe.PermanentError
//	other, lost answer, time-out       an error that may go away
//
// Of a paid server a lost or broken-off answer, a time-out after the request was
// sent, 502 and 504 are a *transcribe.UnknownOutcomeError instead.
package openai
