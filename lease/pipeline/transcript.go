package pipeline

import (
	"fmt"

	"macbatch/transcribe"
)

// nearMS is how much an engine's count of a sound may differ.
const nearMS = 500

// checkTranscript is the rules of a chunk's transcript.
func checkTranscript(in *TranscribePayload, res *transcribe.Transcript) error {
	if res.Engine == "" {
		return fmt.Errorf("transcript names no engine")
	}
	if d := res.DurationMS - in.DurationMS; d < -nearMS || d > nearMS {
		return fmt.Errorf("transcript of %d ms of sound, %d ms were to be transcribed", res.DurationMS, in.DurationMS)
	}
	return res.Validate(in.DurationMS)
}
