package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"macbatch/transcode/child"
)

// SSH is the system's own, and how it is called.
type SSH struct {
	Program string        // absolute path
	Config  string        // a file instead of the system's; "" for those
	Env     []string      // "NAME=value" of what it needs to find the agent
	Connect time.Duration // how long a connection may take
}

// step is one command on a host.
type step struct {
	when   string // on what it depends, for who reads the plan; "" for always
	stdin  string // what it reads, for the same
	script string
	args   []string
}

// sum defines a function that prints the SHA-256 of a file.
const sum = `sum() { if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d" " -f1; }
`

// The scripts. The first argument is the program's path, seen from the home.
const (
	probeScript = sum + `p=$1; cd || exit 1
echo "system $(uname -sm)"
case $(uname -s) in Darwin) c="$HOME/Library/Application Support/macbatch" ;; *) c="${XDG_CONFIG_HOME:-$HOME/.config}/macbatch" ;; esac
if [ -x "$p" ]; then
	echo "digest $(sum "$p")"
	echo "version $("$p" --version 2>/dev/null)"
	echo "service $("$p" service status serve --json 2>/dev/null)"
fi
if [ -f "$c/credential.json" ]; then echo "joined $(tr "," " " <"$c/credential.json")"; fi`

	uploadScript = sum + `set -eu
p=$1 want=$2; cd
case $p in */*) d=${p%/*} ;; *) d=. ;; esac
mkdir -p "$d"
t="$d/.macbatch-$$"
mkdir "$t"
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$t/macbatch"
got=$(sum "$t/macbatch")
if [ "$got" != "$want" ]; then echo "the program arrived damaged: its SHA-256 is $got" >&2; exit 1; fi
chmod 755 "$t/macbatch"
v=$("$t/macbatch" --version)
echo "$v"
mv -f "$t/macbatch" "$p"`

	runScript = `p=$1; shift; cd || exit 1
case $p in /*) ;; *) p=$HOME/$p ;; esac
exec "$p" "$@"`
)

func probeStep(h *Host) step { return step{script: probeScript, args: []string{h.Program}} }

func uploadStep(h *Host, digest string) step {
	return step{when: "its program is another one", stdin: "the program", script: uploadScript, args: []string{h.Program, digest}}
}

func joinStep(h *Host) step {
	s := runStep(h, "join", "use")
	s.when, s.stdin = "it has not joined this control plane", "a join string"
	return s
}

func runStep(h *Host, words ...string) step {
	return step{script: runScript, args: append([]string{h.Program}, words...)}
}

// Quote makes one word of s for a shell.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// remote is the command that the login shell of a host gets.
func (s *step) remote() string {
	words := []string{"/bin/sh", "-c", Quote(s.script), "sh"}
	for _, a := range s.args {
		words = append(words, Quote(a))
	}
	return strings.Join(words, " ")
}

// args are ssh's arguments for a step.
func (c *SSH) args(host string, s *step) []string {
	args := []string{
		"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" + strconv.Itoa(max(1, int(c.Connect/time.Second))), "-o", "ConnectionAttempts=1",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ForwardAgent=no", "-o", "ForwardX11=no",
	}
	if c.Config != "" {
		args = append([]string{"-F", c.Config}, args...)
	}
	return append(args, "--", host, s.remote())
}

// ErrDown is returned when ssh did not get through to a host.
var ErrDown = errors.New("not reached")

// maxOutput bounds what a host may say, in bytes.
const maxOutput = 4 << 20

// run does a step, and returns what it printed.
func (c *SSH) run(ctx context.Context, host string, s step, stdin io.Reader) (string, error) {
	var out bounded
	_, err := child.Run(ctx, child.Command{Path: c.Program, Args: c.args(host, &s), Env: c.Env, Stdin: stdin, Out: &out})
	var exit *child.ExitError
	if errors.As(err, &exit) {
		text := exit.Stderr
		if text == "" {
			text = exit.Status
		}
		if exit.Status == "exit status 255" { // ssh's own
			return "", fmt.Errorf("%w: %s", ErrDown, text)
		}
		return out.String(), errors.New(text)
	}
	return out.String(), err
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	b.Builder.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}
