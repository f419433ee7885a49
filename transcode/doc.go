// Package transcode takes the sound out of one film and cuts it into chunks that
// a speech engine can work on, each a FLAC file of 16 kHz, one channel, 16 bit.
//
// Times are milliseconds on the film's time line: a track that begins late is
// preceded by silence, so 0 is the film's first moment, not the track's. A codec's
// own padding before the first sample is left in: the same packets are the same
// sound in any container, and late by that little (23 ms of AAC).
// The chunks' intervals [FromMS, ToMS) tile [0, Result.DurationMS); a chunk's
// sound reaches beyond its interval, one second where the cut is in a pause and
// eight where it had to be made in running sound.
//
// The film is opened once and never written to. It must be the same before and
// after, by descriptor and by path. The same film and the same ffmpeg give the
// same bytes.
//
// Render makes something small of a film's picture instead: a proxy to be watched
// over any network, or a contact sheet of stills.
//
// # What is whole
//
// ffmpeg ends with status 0 on half a film, so the length of the decoded sound is
// compared with the declared one: the track's own, or else the container's. Short
// by more than 2 s and 2 % is a *MediaError, and so is short by more than 250 ms
// when ffmpeg says that the file ends early; so is a WAV or AVI file that lacks
// bytes which its header declares. Two exceptions get a warning only: formats that
// declare no length, for which ffprobe makes one up (bare MP3 and AAC, MPEG
// streams: of those a half looks whole); and films that declare a length for the
// container alone, when their picture does go on to the end. A proxy is judged by
// the same rules, a sheet by the stills that are missing.
//
// # Errors
//
// *MediaError is permanent: the film itself is at fault. All others may fare
// better at another time or place: ErrSourceChanged (with
// ErrSourceBusy while it is written), ErrSourceMissing,
// inventory.ErrNoRoot, inventory.ErrEmptyRoot, inventory.ErrUnreadable,
// child.ErrStalled, syscall.ENOSPC for a full work folder, the context's cause.
package transcode
