package pipeline

import (
	"fmt"

	"macbatch/transcribe"
)

// checkTranscript is the rules of a chunk's transcript.
func checkTranscript(in *TranscribePayload, res *transcribe.Transcript) error {
	if res.Engine == "" {
		return fmt.Errorf("transcript names no engine")
	}
	return res.Validate(in.DurationMS)
}
