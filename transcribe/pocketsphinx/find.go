package pocketsphinx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"macbatch/transcode/child"
	"macbatch/transcribe"
)

// Options say where things are; what is empty is searched for.
type Options struct {
	Program string // pocketsphinx_batch
	FFmpeg  string
	Model   string // folder with the acoustic model, language model and dictionary
}

// model is what Options.Model must hold, by Debian's and Homebrew's names.
const (
	acoustic   = "en-us"
	language   = "en-us.lm.bin"
	dictionary = "cmudict-en-us.dict"
)

// ErrNotFound is returned when the recogniser, its model or ffmpeg isn't installed.
var ErrNotFound = errors.New("not found (install it: apt install pocketsphinx pocketsphinx-en-us ffmpeg, or brew install cmu-pocketsphinx ffmpeg)")

// Find locates the recogniser and its English model and returns it as an engine.
func Find(o Options) (transcribe.Transcriber, error) {
	e := &engine{parallel: runtime.NumCPU(), limits: transcribe.UsualLimits}
	var err error
	if e.program, err = program(o.Program, "pocketsphinx_batch"); err != nil {
		return nil, err
	}
	if e.ffmpeg, err = program(o.FFmpeg, "ffmpeg"); err != nil {
		return nil, err
	}
	if e.model, err = model(o.Model, e.program); err != nil {
		return nil, err
	}
	digest, err := digestOf(e.model)
	if err != nil {
		return nil, fmt.Errorf("read model %q: %w", e.model, err)
	}
	e.info = transcribe.Info{Engine: "pocketsphinx", EngineVersion: "5", Model: acoustic, ModelDigest: digest}

	// The program can't say its version. Its list of options tells the
	// generations apart, and that it runs at all.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var usage bytes.Buffer
	_, err = child.Run(ctx, child.Command{Path: e.program, Out: &usage, Err: &usage})
	if _, ran := errors.AsType[*child.ExitError](err); err != nil && !ran {
		return nil, fmt.Errorf("try %q: %w", e.program, err)
	}
	if !bytes.Contains(usage.Bytes(), []byte("-hypseg")) {
		return nil, fmt.Errorf("try %q: does not look like pocketsphinx_batch", e.program)
	}
	if bytes.Contains(usage.Bytes(), []byte("-remove_silence")) {
		e.info.EngineVersion = "5prealpha"
		e.dropsSilence = true
	}
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

func model(given, program string) (string, error) {
	dirs := []string{given}
	if given == "" {
		const under = "share/pocketsphinx/model/en-us"
		dirs = []string{filepath.Join(filepath.Dir(program), "..", under)}
		if real, err := filepath.EvalSymlinks(program); err == nil {
			dirs = append(dirs, filepath.Join(filepath.Dir(real), "..", under))
		}
		for _, prefix := range []string{"/usr", "/usr/local", "/opt/homebrew"} {
			dirs = append(dirs, filepath.Join(prefix, under))
		}
	}
	for _, d := range dirs {
		whole := !slices.ContainsFunc([]string{filepath.Join(acoustic, "mdef"), language, dictionary}, func(f string) bool {
			_, err := os.Stat(filepath.Join(d, f))
			return err != nil
		})
		if whole {
			return filepath.Abs(d)
		}
	}
	return "", fmt.Errorf("find English model in %q: %w", dirs, ErrNotFound)
}

// digestOf is over the names, lengths and contents of all that a recognition reads.
func digestOf(model string) (string, error) {
	names := []string{language, dictionary}
	entries, err := os.ReadDir(filepath.Join(model, acoustic))
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		names = append(names, filepath.Join(acoustic, e.Name()))
	}
	slices.Sort(names)
	h := sha256.New()
	for _, n := range names {
		if err := add(h, model, n); err != nil {
			return "", err
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func add(h io.Writer, model, name string) (err error) {
	f, err := os.Open(filepath.Join(model, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.IsDir() {
		return nil
	}
	if _, err := fmt.Fprintf(h, "%s\x00%d\x00", filepath.ToSlash(name), st.Size()); err != nil {
		return err
	}
	_, err = io.Copy(h, f)
	return err
}
