package transcode

import (
	"strconv"

	"macbatch/transcode/inventory"
)

// The shape of all sound we handle.
const (
	sampleRate  = 16000
	sampleBytes = 2
	bytesPerMS  = sampleRate / 1000 * sampleBytes
)

// promptMS is how late a track may begin and still count as beginning with the film:
// containers differ by so much for the same packets.
const promptMS = 50

// decodeArgs makes ffmpeg write an audio track of input to its standard output as
// samples. first_pts=0 puts silence before a late track; async=1 into its gaps.
// Without them all later times would be early.
//
// One container says how many of the first samples are the codec's own padding,
// the next, with the same packets, does not: skip_manual leaves them in, and a track
// that begins with the film begins with its first sample. So the same packets are
// the same sound in every container, some 25 ms later than a player has it.
func decodeArgs(input string, track inventory.AudioTrack) []string {
	filter := "aresample=async=1:first_pts=0"
	if track.StartMS < promptMS {
		filter = "asetpts=PTS-STARTPTS," + filter
	}
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "warning"}, inventory.Whitelist()...)
	args = append(args, inventory.Analysis()...)
	return append(args, "-flags2", "skip_manual", "-i", input, "-map", "0:a:"+strconv.Itoa(track.Index), "-vn", "-sn", "-dn",
		"-af", filter, "-ac", "1", "-ar", strconv.Itoa(sampleRate), "-f", "s16le", "pipe:1")
}

// encodeArgs makes ffmpeg write the samples on its standard input to the FLAC
// file out, without anything that differs from run to run. A file and not a pipe:
// the header's count of samples is filled in at the end.
func encodeArgs(out string) []string {
	return []string{"-nostdin", "-hide_banner", "-loglevel", "warning", "-n",
		"-f", "s16le", "-ar", strconv.Itoa(sampleRate), "-ac", "1", "-i", "pipe:0",
		"-map_metadata", "-1", "-fflags", "+bitexact", "-flags", "bitexact",
		"-c:a", "flac", "-compression_level", "5", "-progress", "pipe:1", "-f", "flac", "file:" + out}
}

// walkArgs makes ffmpeg read every picture packet of input without decoding it
// and tell on standard output how far they reach.
func walkArgs(input string) []string {
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "error"}, inventory.Whitelist()...)
	args = append(args, inventory.Analysis()...)
	return append(args, "-i", input, "-map", "0:V", "-c", "copy", "-f", "null", "-progress", "pipe:1", "-")
}
