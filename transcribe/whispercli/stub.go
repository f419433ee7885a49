package whispercli

import (
	"errors"

	"macbatch/transcribe"
)

type Options struct {
	Program, FFmpeg, Model string
	ModelDirs              []string
}

func Find(Options) (transcribe.Transcriber, error) { return nil, errors.New("stub") }
