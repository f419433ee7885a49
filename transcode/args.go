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

// decodeArgs makes ffmpeg write the n-th audio track of input to its standard
// output as samples. first_pts=0 puts silence before a late track; async=1 into
// its gaps. Without them all later times would be early.
func decodeArgs(input string, track int) []string {
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "warning"}, inventory.Whitelist()...)
	args = append(args, inventory.Analysis()...)
	return append(args, "-i", input, "-map", "0:a:"+strconv.Itoa(track), "-vn", "-sn", "-dn",
		"-af", "aresample=async=1:first_pts=0", "-ac", "1", "-ar", strconv.Itoa(sampleRate), "-f", "s16le", "pipe:1")
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
