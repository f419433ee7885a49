package transcode

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"macbatch/transcode/child"
)

// Tools are the programs this package runs, by absolute paths.
type Tools struct{ FFmpeg, FFprobe string }

// Locate finds the programs: those named, or those in the search path. The error
// names what is missing and how to install it.
func Locate(ffmpeg, ffprobe string) (Tools, error) {
	a, err := find(ffmpeg, "ffmpeg")
	if err != nil {
		return Tools{}, err
	}
	b, err := find(ffprobe, "ffprobe")
	return Tools{a, b}, err
}

func find(path, name string) (string, error) {
	if path == "" {
		path = name
	}
	p, err := exec.LookPath(path)
	if err == nil {
		p, err = filepath.Abs(p)
	}
	if err != nil {
		return "", fmt.Errorf("%s is not installed (Debian: apt-get install ffmpeg; macOS: brew install ffmpeg): %w", name, err)
	}
	return p, nil
}

// Version returns how ffmpeg calls its version, such as "5.1.9".
func Version(ctx context.Context, ffmpeg string) (string, error) {
	var out bytes.Buffer
	if _, err := child.Run(ctx, child.Command{Path: ffmpeg, Args: []string{"-hide_banner", "-version"}, Out: &out}); err != nil {
		return "", fmt.Errorf("ask ffmpeg for its version: %w", err)
	}
	f := strings.Fields(out.String())
	if len(f) < 3 || f[0] != "ffmpeg" {
		return "", fmt.Errorf("%q does not call itself ffmpeg", ffmpeg)
	}
	return f[2], nil
}
