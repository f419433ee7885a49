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

	"macbatch/lease"
	"macbatch/lease/wire"
	"macbatch/lease/worker/kinds"
	"macbatch/summarize/model"
	"macbatch/summarize/model/ollama"
	"macbatch/summarize/model/openai"
	"macbatch/transcribe/ocr"
)

// runtimes is the closed table of what model servers may speak.
var runtimes = map[string]func(model.Server) model.Runtime{
	"ollama": ollama.New,
	"openai": openai.New,
}

// defaultRuntime is looked for when none is named. It need not be there.
const defaultRuntime = "local=ollama:http://127.0.0.1:11434"

const runtimeForm = "TIER=ollama|openai:URL[,key-file=F][,paid[,in=USD][,out=USD]][,parallel=N][,wait=D]"

func runtimeFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "runtime", EnvVars: []string{"MACBATCH_RUNTIME"}, Usage: "a server of models, as `TIER=ollama:URL` or TIER=openai:URL, and behind it ,key-file=F ,paid ,in=USD ,out=USD ,parallel=N ,wait=D; " +
		"jobs ask for it by TIER; one that is paid serves no others, in and out are its prices of a million tokens; it is sent parallel requests at once; it may be silent for wait; may be repeated (default: " + defaultRuntime + ", if it is there)"}
}

var tierName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// parseRuntime reads the value of a --runtime.
func parseRuntime(s string) (*kinds.Server, error) {
	tier, rest, ok := strings.Cut(s, "=")
	engine, rest, ok2 := strings.Cut(rest, ":")
	make, known := runtimes[engine]
	if !ok || !ok2 || !known || !tierName.MatchString(tier) {
		return nil, usagef("--runtime %q: must be %s", s, runtimeForm)
	}
	parts := strings.Split(rest, ",")
	url, err := model.ParseURL(parts[0])
	if err != nil {
		return nil, usagef("--runtime %s: %v", tier, err)
	}
	server := model.Server{URL: url}
	out := &kinds.Server{Tier: tier, Engine: engine}
	for _, p := range parts[1:] {
		key, value, has := strings.Cut(p, "=")
		err := error(nil)
		switch {
		case key == "paid" && !has:
			out.Paid = true
		case key == "in" && has:
			out.Price.In, err = price(value)
		case key == "out" && has:
			out.Price.Out, err = price(value)
		case key == "parallel" && has:
			if out.Parallel, err = strconv.Atoi(value); err == nil && (out.Parallel < 1 || out.Parallel > 256) {
				err = errors.New("must be 1 to 256")
			}
		case key == "key-file" && value != "":
			server.Key, err = readToken(value)
		case key == "wait" && has:
			server.Wait, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("not known")
		}
		if err != nil {
			return nil, usagef("--runtime %s: %q: %v", tier, p, err)
		}
	}
	if !out.Paid && out.Price != (kinds.Price{}) {
		return nil, usagef("--runtime %s: in and out belong to one that is paid", tier)
	}
	if server.Wait <= 0 {
		server.Wait = 5 * time.Minute
	}
	// The server itself bounds how long it is silent; this must not be shorter.
	server.HTTP = wire.NewClient(wire.ClientOptions{Header: server.Wait + time.Minute})
	out.Runtime = make(server)
	return out, nil
}

// price reads a number of dollars.
func price(s string) (float64, error) {
	_, err := lease.ParseCost(s)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimPrefix(s, "$"), 64)
}

// models finds what does the work of lists: the servers that are named, and, where
// pages are to be read, the programs for that.
func (c *command) models(x *cli.Context, t *kinds.Tools, pages bool) error {
	if err := checkParallel(x); err != nil {
		return err
	}
	named := x.StringSlice("runtime")
	tiers := []string{}
	for _, v := range named {
		s, err := parseRuntime(v)
		if err != nil {
			return err
		}
		if slices.Contains(tiers, s.Tier) {
			return usagef("--runtime %s is given twice", s.Tier)
		}
		tiers, t.Servers = append(tiers, s.Tier), append(t.Servers, s)
	}
	if len(named) == 0 {
		s, err := parseRuntime(defaultRuntime)
		if err != nil {
			return err
		}
		if only := (&kinds.Tools{Servers: []*kinds.Server{s}}); only.Look(x.Context) == nil {
			t.Servers = only.Servers
		}
	} else if err := t.Look(x.Context); err != nil {
		fmt.Fprintf(c.stderr, "macbatch: %s; going on without what is not there\n", printable(err.Error()))
	}
	for _, s := range t.Servers {
		if s.Parallel == 0 {
			s.Parallel = max(1, x.Int("parallel"))
		}
	}
	if !pages {
		return nil
	}
	if tools, err := ocr.Find(x.Context); err == nil {
		t.OCR = tools
	}
	return nil
}
