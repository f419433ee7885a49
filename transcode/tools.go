package transcode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"macbatch/transcode/child"
)

// ErrNoTool is returned when ffmpeg or ffprobe is not installed.
var ErrNoTool = errors.New("not found: install it with \"apt-get install ffmpeg\" or \"brew install ffmpeg\"")

// Tools are the absolute paths of the two programs.
type Tools struct{ FFmpeg, FFprobe string }

// A service started by launchd has none of these in its PATH.
var usualPlaces = []string{"/opt/homebrew/bin", "/usr/local/bin", "/opt/local/bin"}

// Locate finds the programs: each at the path or by the name given, or when that
// is empty by its usual name.
//
// Errors: ErrNoTool, naming the program.
func Locate(ffmpeg, ffprobe string) (Tools, error) {
	var t Tools
	for _, p := range []struct {
		to          *string
		given, name string
	}{{&t.FFmpeg, ffmpeg, "ffmpeg"}, {&t.FFprobe, ffprobe, "ffprobe"}} {
		path, err := locate(p.given, p.name)
		if err != nil {
			return Tools{}, err
		}
		*p.to = path
	}
	return t, nil
}

func locate(given, name string) (string, error) {
	candidates := []string{given}
	if given == "" {
		candidates = []string{name}
		for _, dir := range usualPlaces {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, c := range candidates {
		if found, err := exec.LookPath(c); err == nil {
			return filepath.Abs(found)
		}
	}
	if given != "" {
		return "", fmt.Errorf("%s %q: %w", name, given, ErrNoTool)
	}
	return "", fmt.Errorf("%s: %w", name, ErrNoTool)
}

// Version asks the program ffmpeg for its version, "5.1.9-0+deb12u1".
func Version(ctx context.Context, ffmpeg string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("no answer within 20 s"))
	defer cancel()
	var out bytes.Buffer
	if _, err := child.Run(ctx, child.Command{Path: ffmpeg, Args: []string{"-version"}, Out: &out}); err != nil {
		return "", fmt.Errorf("version of %q: %w", ffmpeg, err)
	}
	return parseVersion(out.String())
}

func parseVersion(out string) (string, error) {
	line, _, _ := strings.Cut(out, "\n")
	words := strings.Fields(line)
	if len(words) < 3 || words[1] != "version" {
		return "", fmt.Errorf("version of ffmpeg: %.80q is no answer of ffmpeg", line)
	}
	return words[2], nil
}
