package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease/wire"
	"macbatch/lease/worker/kinds"
	"macbatch/transcribe"
	"macbatch/transcribe/openai"
)

const speechForm = "NAME=openai:URL[,model=M][,key-file=F][,paid[,minute=USD]][,max-bytes=N][,max-time=D][,parallel=N]"

func speechFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "speech", Usage: "a speech server of OpenAI's protocol, as `NAME=openai:URL` and behind it ,model=M ,key-file=F ,paid ,minute=USD ,max-bytes=N ,max-time=D ,parallel=N; " +
		"jobs ask for it by NAME; one that is paid serves no others, minute is its price of a minute of sound; may be repeated"}
}

// speech is what one --speech says.
type speech struct {
	name, keyFile string
	minute        float64
	openai.Options
}

var speechName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// parseSpeech reads the value of a --speech.
func parseSpeech(s string) (out speech, err error) {
	name, rest, ok := strings.Cut(s, "=")
	rest, protocol := strings.CutPrefix(rest, "openai:")
	if !ok || !protocol || !speechName.MatchString(name) {
		return out, usagef("--speech %q: must be %s", s, speechForm)
	}
	if name == autoTranscriber || slices.Contains(transcriberNames, name) {
		return out, usagef("--speech %q: the name %s is taken", s, name)
	}
	parts := strings.Split(rest, ",")
	out.name, out.URL = name, parts[0]
	for _, p := range parts[1:] {
		key, value, has := strings.Cut(p, "=")
		err := error(nil)
		switch {
		case key == "paid" && !has:
			out.Paid = true
		case key == "minute" && has:
			out.minute, err = price(value)
		case key == "model" && value != "":
			out.Model = value
		case key == "key-file" && value != "":
			out.keyFile = value
		case key == "max-bytes" && has:
			out.MaxBytes, err = strconv.ParseInt(value, 10, 64)
		case key == "max-time" && has:
			var d time.Duration
			d, err = time.ParseDuration(value)
			out.MaxMS = d.Milliseconds()
		case key == "parallel" && has:
			if out.Parallel, err = strconv.Atoi(value); err == nil && (out.Parallel < 1 || out.Parallel > 256) {
				err = errors.New("must be 1 to 256")
			}
		default:
			err = errors.New("not known")
		}
		if err != nil {
			return out, usagef("--speech %s: %q: %v", name, p, err)
		}
	}
	if out.minute > 0 && !out.Paid {
		return out, usagef("--speech %s: minute belongs to one that is paid", name)
	}
	return out, nil
}

// speechServers are the engines that --speech names: those that cost nothing, and
// those that are paid.
func (c *command) speechServers(x *cli.Context, ffmpeg string) (free, paid []kinds.Transcriber, err error) {
	seen := map[string]bool{}
	for _, v := range x.StringSlice("speech") {
		s, err := parseSpeech(v)
		if err != nil {
			return nil, nil, err
		}
		if seen[s.name] {
			return nil, nil, usagef("--speech %s is given twice", s.name)
		}
		seen[s.name] = true
		if s.keyFile != "" {
			if s.Key, err = readToken(s.keyFile); err != nil {
				return nil, nil, fmt.Errorf("speech server %s: %w", s.name, err)
			}
		}
		s.FFmpeg = ffmpeg
		s.HTTP = wire.NewClient(wire.ClientOptions{Header: transcribe.Silence(1<<40) + time.Minute})
		tr, err := openai.New(s.Options)
		if err != nil {
			return nil, nil, usagef("--speech %s: %v", s.name, err)
		}
		if t := (kinds.Transcriber{Name: s.name, Paid: s.Paid, Minute: s.minute, Transcriber: tr}); s.Paid {
			paid = append(paid, t)
		} else {
			free = append(free, t)
		}
	}
	return free, paid, nil
}
