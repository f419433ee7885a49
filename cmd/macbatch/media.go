package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker/kinds"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
	"macbatch/transcribe/pocketsphinx"
	"macbatch/transcribe/whispercli"
)

// autoTranscriber asks for the best engine that is installed.
const autoTranscriber = "auto"

// transcriberNames are the engines that are compiled in, best first.
var transcriberNames = []string{whisperCLI, pocketSphinx}

// The names that jobs and flags ask for an engine by.
const (
	whisperCLI   = "whisper-cli"
	pocketSphinx = "pocketsphinx"
)

// workerFlags say what a worker may use of its machine.
func workerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "parallel", Usage: "`N` shards to work on at a time", Value: runtime.NumCPU()},
		&cli.IntFlag{Name: "lease-limit", Usage: "hold at most `N` shards at a time, with those that wait to be begun", Value: 100},
		&cli.StringFlag{Name: "transcriber", Usage: "speech `ENGINE`: " + autoTranscriber + ", " + strings.Join(transcriberNames, ", ") + ", or a NAME of --speech", Value: autoTranscriber, EnvVars: []string{"MACBATCH_TRANSCRIBER"}},
		speechFlag(),
		&cli.StringFlag{Name: "whisper-model", Usage: "model `FILE` of whisper-cli", EnvVars: []string{"MACBATCH_WHISPER_MODEL"}, TakesFile: true},
		&cli.IntFlag{Name: "min-free", Usage: "take no work while fewer `MIB` are free on the disk of --data", Value: 512},
		&cli.DurationFlag{Name: "grace", Usage: "running work may go on for `TIME`, such as 5m, after the first interrupt; the second ends it", Value: time.Minute},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log what happens to standard error"},
	}
}

func checkParallel(x *cli.Context) error {
	if n := x.Int("parallel"); n < 1 || n > 256 {
		return usagef("--parallel %d: must be 1 to 256", n)
	}
	if n := x.Int("lease-limit"); n < 1 || n > lease.MaxGrants {
		return usagef("--lease-limit %d: must be 1 to %d", n, lease.MaxGrants)
	}
	return nil
}

// renderers finds what renditions of films need.
func (c *command) renderers(x *cli.Context, roots map[string]string, t *kinds.Tools) error {
	if err := checkParallel(x); err != nil {
		return err
	}
	ff, err := transcode.Locate("", "")
	if err != nil {
		return err
	}
	version, err := transcode.Version(x.Context, ff.FFmpeg)
	if err != nil {
		return err
	}
	t.FFmpeg, t.FFprobe, t.FFmpegVersion, t.Roots = ff.FFmpeg, ff.FFprobe, version, roots
	// One that can't encode makes no proxies, but all else.
	if t.Encoders, err = transcode.Encoders(x.Context, ff.FFmpeg); err != nil {
		c.logger(x.Bool("verbose")).Warn("no proxies can be made", "err", err)
	}
	return nil
}

// media finds what films need.
func (c *command) media(x *cli.Context, roots map[string]string, t *kinds.Tools) error {
	name := x.String("transcriber")
	known := append([]string{autoTranscriber}, transcriberNames...)
	for _, v := range x.StringSlice("speech") {
		n, _, _ := strings.Cut(v, "=")
		known = append(known, n)
	}
	if !slices.Contains(known, name) {
		return usagef("--transcriber %q is not known; there are %s", name, strings.Join(known, ", "))
	}
	if err := c.renderers(x, roots, t); err != nil {
		return err
	}
	free, paid, err := c.speechServers(x, t.FFmpeg)
	if err != nil {
		return err
	}
	// Who names a server means it before what happens to be installed.
	for _, s := range free {
		if name == autoTranscriber || name == s.Name {
			t.Transcribers = append(t.Transcribers, s)
		}
	}
	var faults []string
	for _, n := range transcriberNames {
		if name != autoTranscriber && name != n {
			continue
		}
		tr, err := c.transcriber(x, n, t.FFmpeg)
		if err != nil && n == whisperCLI && x.IsSet("whisper-model") {
			return err // who names a model does not mean another engine
		}
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		t.Transcribers = append(t.Transcribers, kinds.Transcriber{Name: n, Transcriber: tr})
	}
	for _, s := range paid {
		if name == autoTranscriber || name == s.Name {
			t.Transcribers = append(t.Transcribers, s)
		}
	}
	if len(t.Transcribers) == 0 {
		return fmt.Errorf("no speech engine is ready: %s", strings.Join(faults, "; "))
	}
	return nil
}

func (c *command) transcriber(x *cli.Context, name, ffmpeg string) (transcribe.Transcriber, error) {
	if name == pocketSphinx {
		return pocketsphinx.Find(pocketsphinx.Options{FFmpeg: ffmpeg})
	}
	var dirs []string
	if home, ok := c.env("HOME"); ok {
		dirs = append(dirs, filepath.Join(home, ".local/share/whisper"), filepath.Join(home, ".cache/whisper"), filepath.Join(home, "Library/Application Support/whisper"))
	}
	dirs = append(dirs, "/opt/homebrew/share/whisper-cpp/models", "/opt/homebrew/share/whisper-cpp", "/usr/local/share/whisper-cpp", "/usr/share/whisper.cpp/models")
	return whispercli.Find(whispercli.Options{FFmpeg: ffmpeg, Model: x.String("whisper-model"), ModelDirs: dirs})
}

// libraryFlags are the parameters of a job over films.
func libraryFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "language", Usage: "`CODE` of the language spoken or written, such as en (default: it is found out)"},
		&cli.StringFlag{Name: "audio-lang", Category: "Films:", Usage: "audio `TRACKS` wanted, best first, such as rus,eng,default or a track's number"},
		&cli.DurationFlag{Name: "chunk", Category: "Films:", Usage: "`TIME` of the pieces that a long film is cut into", Value: 10 * time.Minute},
		&cli.StringFlag{Name: "preset", Category: "Films:", Usage: "transcode: `PRESET`, " + string(transcode.Proxy) + " (the film again, small) or " + string(transcode.Sheet) + " (a page of stills)"},
		&cli.BoolFlag{Name: "fresh", Usage: "do all work anew, reuse no earlier result"},
	}
}

// libraryParams reads the parameters of a job over films from its flags.
func libraryParams(x *cli.Context, kind lease.Kind, root string, sub inventory.Path) (*pipeline.LibraryParams, error) {
	p := &pipeline.LibraryParams{Root: root, Sub: sub, Fresh: x.Bool("fresh")}
	for _, l := range strings.Split(x.String("audio-lang"), ",") {
		if l = strings.TrimSpace(l); l != "" {
			p.AudioLang = append(p.AudioLang, l)
		}
	}
	if kind == pipeline.Transcode {
		if p.Preset = transcode.Preset(x.String("preset")); p.Preset != transcode.Proxy && p.Preset != transcode.Sheet {
			return nil, usagef("--preset %q: must be %s or %s", string(p.Preset), transcode.Proxy, transcode.Sheet)
		}
		return p, nil
	}
	p.Language, p.ChunkMS = x.String("language"), x.Duration("chunk").Milliseconds()
	if p.ChunkMS < pipeline.MinChunkMS || p.ChunkMS > pipeline.MaxChunkMS {
		return nil, usagef("--chunk %v: must be %ds to %dh", x.Duration("chunk"), pipeline.MinChunkMS/1000, pipeline.MaxChunkMS/3600_000)
	}
	if name := x.String("transcriber"); name != autoTranscriber {
		p.Transcriber = name
	}
	return p, nil
}

// folder checks that a path names a folder that can be listed.
func folder(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(abs)
	if err != nil {
		return "", fmt.Errorf("folder %q: %w", path, errors.Unwrap(err))
	}
	if !fi.IsDir() {
		return "", fmt.Errorf("folder %q: it is a file", path)
	}
	return abs, nil
}

// parseRoots reads NAME=FOLDER pairs.
func parseRoots(pairs []string) (map[string]string, error) {
	roots := map[string]string{}
	for _, p := range pairs {
		name, dir, ok := strings.Cut(p, "=")
		if !ok || name == "" || dir == "" || strings.ContainsAny(name, ":/ \t\n") {
			return nil, usagef("--root %q: must be NAME=FOLDER, the name without colon, slash or space", p)
		}
		if _, twice := roots[name]; twice {
			return nil, usagef("--root %q: the name is given twice", p)
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		roots[name] = abs
	}
	return roots, nil
}
