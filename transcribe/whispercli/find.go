package whispercli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcribe"
)

// Options say where things are; what is empty is searched for.
type Options struct {
	Program   string // whisper-cli
	FFmpeg    string
	Model     string   // path of a ggml model, or a name to be searched for: "base.en"
	ModelDirs []string // searched before the usual places
	Threads   int      // 0: all cores
}

// ErrNotFound is returned when the program, a model or ffmpeg isn't installed.
var ErrNotFound = errors.New("not found (install it: brew install whisper-cpp ffmpeg, and download a model such as ggml-base.en.bin)")

// Find locates the program and a model and returns them as an engine. Without a
// name it takes the largest kind of model that is there.
func Find(o Options) (transcribe.Transcriber, error) {
	e := &engine{threads: o.Threads, limits: transcribe.UsualLimits}
	if e.threads <= 0 {
		e.threads = runtime.NumCPU()
	}
	var err error
	if e.program, err = program(o.Program, "whisper-cli"); err != nil {
		return nil, err
	}
	if e.ffmpeg, err = program(o.FFmpeg, "ffmpeg"); err != nil {
		return nil, err
	}
	if e.model, err = model(o, e.program); err != nil {
		return nil, err
	}
	digest, err := digestOf(e.model)
	if err != nil {
		return nil, fmt.Errorf("read model %q: %w", e.model, err)
	}
	e.info = transcribe.Info{Engine: "whisper.cpp", EngineVersion: version(e.program), Model: filepath.Base(e.model), ModelDigest: digest}
	return e, nil
}

func program(given, name string) (string, error) {
	if given == "" {
		given = name
	}
	path, err := exec.LookPath(given)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("find program %q: %w", given, ErrNotFound)
	}
	if err != nil {
		return "", fmt.Errorf("find program %q: %w", given, err)
	}
	return path, nil
}

var versions = []*regexp.Regexp{
	regexp.MustCompile(`(?i)version:?\s+v?([0-9][0-9A-Za-z.+-]*)`),
	regexp.MustCompile(`/Cellar/whisper-cpp/([^/]+)/`), // Homebrew's folder tells what older programs don't
}

// version is empty when nothing tells it.
func version(program string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out strings.Builder
	// Older programs don't know the flag; what they print has no version in it.
	_, err := child.Run(ctx, child.Command{Path: program, Args: []string{"--version"}, Out: &out})
	if m := versions[0].FindStringSubmatch(out.String()); err == nil && m != nil {
		return m[1]
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		if m := versions[1].FindStringSubmatch(real); m != nil {
			return m[1]
		}
	}
	return ""
}

func model(o Options, program string) (string, error) {
	if strings.ContainsRune(o.Model, filepath.Separator) || strings.HasSuffix(o.Model, ".bin") {
		if _, err := os.Stat(o.Model); err == nil {
			return filepath.Abs(o.Model)
		}
	}
	dirs := slices.Clone(o.ModelDirs)
	for _, prefix := range []string{filepath.Join(filepath.Dir(program), ".."), "/opt/homebrew", "/usr/local", "/usr"} {
		dirs = append(dirs, filepath.Join(prefix, "share/whisper-cpp"), filepath.Join(prefix, "share/whisper.cpp/models"))
	}
	for _, d := range dirs {
		entries, err := os.ReadDir(d)
		if err != nil {
			continue // most of the usual places don't exist
		}
		var names []string
		for _, e := range entries {
			name := e.Name()
			fits := rank(name) > 0
			if o.Model != "" {
				fits = name == o.Model || name == "ggml-"+o.Model+".bin"
			}
			if fits && !e.IsDir() {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			best := slices.MaxFunc(names, func(a, b string) int {
				return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(b, a))
			})
			return filepath.Abs(filepath.Join(d, best))
		}
	}
	return "", fmt.Errorf("find model %q in %q: %w", o.Model, dirs, ErrNotFound)
}

var kinds = []string{"tiny", "base", "small", "medium", "large"}

// rank orders ggml-KIND….bin by kind; 0 is no speech model.
func rank(name string) int {
	for i, k := range kinds {
		if strings.HasPrefix(name, "ggml-"+k) && strings.HasSuffix(name, ".bin") {
			return i + 1
		}
	}
	return 0
}

func digestOf(model string) (digest string, err error) {
	f, err := os.Open(model)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
