package service_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"macbatch/lease/service"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// odd has what files quote: a space, a percent sign, quotes, a dollar, a backslash,
// and what XML does not let through.
const odd = `it's 100% "of" $HOME\n & <é>;#`

func worker() *service.Unit {
	return &service.Unit{
		Name: "serve", Program: "/Users/ann b/bin/macbatch", Args: []string{"serve", "--root=films=/Volumes/" + odd, "--hours=Mon-Fri 22:00-07:00", ""},
		Env: []string{"PATH=/opt/homebrew/bin:/usr/bin:/bin", "MACBATCH_CONFIG=/Users/ann b/" + odd}, Home: "/Users/ann b",
		Writes: []string{"/Users/ann b/Library/Application Support/macbatch/worker"}, Leave: 75 * time.Second,
	}
}

func control() *service.Unit {
	return &service.Unit{
		Name: "control", Program: "/usr/local/bin/macbatch", Args: []string{"control", "--listen=0.0.0.0:7373"},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/home/ann"}, Home: "/home/ann", User: "ann", UID: 501, GID: 20, Leave: 30 * time.Second, Answers: true,
		Writes: []string{"/home/ann/.local/share/macbatch/control", "/home/ann/100% \"x\""},
	}
}

func once() *service.Unit {
	u := worker()
	u.Name, u.Once, u.Args = "serve-doctor", true, []string{"doctor", "--json"}
	return u
}

// files are the golden ones and what they are made of.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	made := map[string][]byte{}
	put := func(name string, b []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		made[name] = b
	}
	b, err := worker().Plist("/Users/ann b/Library/Logs/macbatch/serve.log")
	put("agent.plist", b, err)
	b, err = control().Plist("/Library/Logs/macbatch/control.log")
	put("daemon.plist", b, err)
	b, err = once().Plist("/Users/ann b/Library/Logs/macbatch/serve-doctor.log")
	put("once.plist", b, err)
	b, err = worker().UnitFile(false)
	put("user.service", b, err)
	b, err = control().UnitFile(true)
	put("system.service", b, err)
	b, err = once().UnitFile(false)
	put("once.service", b, err)
	return made
}

func TestGolden(t *testing.T) {
	for name, got := range files(t) {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

// value is something in a property list: a string, int64, bool, []any or map[string]any.
func value(d *xml.Decoder, start xml.StartElement) (any, error) {
	switch name := start.Name.Local; name {
	case "true", "false":
		return name == "true", d.Skip()
	case "string", "integer", "key":
		var s string
		if err := d.DecodeElement(&s, &start); err != nil || name != "integer" {
			return s, err
		}
		return strconv.ParseInt(s, 10, 64)
	case "array", "dict":
		var list []any
		dict, key := map[string]any{}, ""
		for {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			switch token := token.(type) {
			case xml.EndElement:
				if name == "array" {
					return list, nil
				}
				if key != "" {
					return nil, fmt.Errorf("key %s has no value", key)
				}
				return dict, nil
			case xml.StartElement:
				v, err := value(d, token)
				if err != nil {
					return nil, err
				}
				switch {
				case name == "array":
					list = append(list, v)
				case (token.Name.Local == "key") != (key == ""):
					return nil, fmt.Errorf("%s out of turn, at key %q", token.Name.Local, key)
				case key == "":
					key = v.(string)
				default:
					if _, twice := dict[key]; twice {
						return nil, fmt.Errorf("key %s twice", key)
					}
					dict[key], key = v, ""
				}
			case xml.CharData:
				if len(bytes.TrimSpace(token)) > 0 {
					return nil, fmt.Errorf("stray text %q", token)
				}
			}
		}
	}
	return nil, fmt.Errorf("element %s is none of a property list", start.Name.Local)
}

// readPlist reads a property list as strictly as plutil -lint.
func readPlist(b []byte) (map[string]any, error) {
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local == "plist" {
			continue
		}
		v, err := value(d, start)
		if err != nil {
			return nil, err
		}
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
		}
		dict, ok := v.(map[string]any)
		if !ok {
			return nil, errors.New("it is no dictionary")
		}
		return dict, nil
	}
}

// rules are what launchd.plist(5) demands of the keys that are written.
var rules = map[string]func(any) bool{
	"Label":                func(v any) bool { s, ok := v.(string); return ok && strings.HasPrefix(s, "local.macbatch.") },
	"ProgramArguments":     func(v any) bool { l, ok := v.([]any); return ok && filepath.IsAbs(l[0].(string)) },
	"EnvironmentVariables": func(v any) bool { _, ok := v.(map[string]any); return ok },
	"UserName":             func(v any) bool { s, ok := v.(string); return ok && s != "" },
	"WorkingDirectory":     isPath,
	"StandardOutPath":      isPath,
	"StandardErrorPath":    isPath,
	"RunAtLoad":            func(v any) bool { _, ok := v.(bool); return ok },
	"KeepAlive":            func(v any) bool { _, ok := v.(bool); return ok },
	"ThrottleInterval":     func(v any) bool { n, ok := v.(int64); return ok && n > 0 },
	"ExitTimeOut":          func(v any) bool { n, ok := v.(int64); return ok && n > 0 }, // 0 is for ever
	"ProcessType": func(v any) bool {
		return slices.Contains([]any{"Standard", "Interactive", "Adaptive"}, v) // Background is throttled
	},
	"Umask":              func(v any) bool { return v == int64(0o077) }, // decimal 63: launchd reads no octal
	"SoftResourceLimits": func(v any) bool { return v.(map[string]any)["NumberOfFiles"] == int64(65536) },
	"HardResourceLimits": func(v any) bool { return v.(map[string]any)["NumberOfFiles"] == int64(65536) },
}

func isPath(v any) bool { s, ok := v.(string); return ok && filepath.IsAbs(s) }

func TestPlistRules(t *testing.T) {
	for name, b := range files(t) {
		if !strings.HasSuffix(name, ".plist") {
			continue
		}
		dict, err := readPlist(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for key, v := range dict {
			if rule, known := rules[key]; !known || !rule(v) {
				t.Errorf("%s: %s is %v", name, key, v)
			}
		}
		if plutil, err := exec.LookPath("plutil"); err == nil {
			cmd := exec.CommandContext(t.Context(), plutil, "-lint", "-")
			cmd.Stdin = bytes.NewReader(b)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: plutil: %v: %s", name, err, out)
			}
		}
	}
	b := files(t)["agent.plist"]
	dict, err := readPlist(b)
	if err != nil {
		t.Fatal(err)
	}
	u := worker()
	want := []any{u.Program}
	for _, a := range u.Args {
		want = append(want, a)
	}
	if got := dict["ProgramArguments"].([]any); !slices.Equal(got, want) {
		t.Errorf("arguments are %q, want %q", got, want)
	}
	if got := dict["EnvironmentVariables"].(map[string]any)["MACBATCH_CONFIG"]; "MACBATCH_CONFIG="+got.(string) != u.Env[1] {
		t.Errorf("the environment's is %q, want %q", got, u.Env[1])
	}
}

// TestUnitRules has systemd's own verifier read the files.
func TestUnitRules(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err) // the system has no systemd
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "mac batch")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, wide := range map[string]bool{"a.service": false, "b.service": true} {
		u := control()
		u.Program, u.Home, u.User, u.Args = program, dir, "root", worker().Args
		b, err := u.UnitFile(wide)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		arg := []string{"verify", "--man=no", path}
		if !wide {
			arg = append([]string{"--user"}, arg...)
		}
		cmd := exec.CommandContext(t.Context(), verify, arg...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte(name+":")) {
			t.Errorf("systemd-analyze %v: %v: %s", arg, err, out)
		}
	}
}

// TestRefusedUnits: what a file cannot say is refused, not written in part.
func TestRefusedUnits(t *testing.T) {
	for name, change := range map[string]func(*service.Unit){
		"a relative program":  func(u *service.Unit) { u.Program = "macbatch" },
		"a folder with ..":    func(u *service.Unit) { u.Writes = []string{"/a/../etc"} },
		"a newline":           func(u *service.Unit) { u.Args = []string{"serve", "--root=a=/b\nExecStart=/bin/sh"} },
		"a NUL":               func(u *service.Unit) { u.Args = []string{"serve\x00"} },
		"bytes of no text":    func(u *service.Unit) { u.Args = []string{"--root=a=/\xff"} },
		"a setting without =": func(u *service.Unit) { u.Env = []string{"PATH"} },
		"a name with a slash": func(u *service.Unit) { u.Name = "../serve" },
		"no time to leave":    func(u *service.Unit) { u.Leave = 0 },
		"a user with newline": func(u *service.Unit) { u.User = "ann\nUser=root" },
	} {
		u := worker()
		change(u)
		if b, err := u.Plist("/log"); err == nil {
			t.Errorf("%s: a property list was made: %s", name, b)
		}
		if b, err := u.UnitFile(true); err == nil {
			t.Errorf("%s: a unit was made: %s", name, b)
		}
	}
}

// TestInstalled: what a service's file runs is read back as it was asked for.
func TestInstalled(t *testing.T) {
	for _, system := range []string{"darwin", "linux"} {
		for _, wide := range []bool{false, true} {
			home := t.TempDir()
			m, err := service.New(service.Options{System: system, Wide: wide, Home: home, Config: filepath.Join(home, ".config"), Root: home, Run: silent})
			if err != nil {
				t.Fatal(err)
			}
			u := worker()
			u.Writes, u.Home = []string{filepath.Join(home, odd)}, home
			if wide {
				u.User, u.UID, u.GID = "ann", os.Getuid(), os.Getgid()
			}
			if _, err := m.Installed("serve"); !errors.Is(err, service.ErrAbsent) {
				t.Fatalf("none: %v", err)
			}
			if _, err := m.Install(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			got, err := m.Installed("serve")
			if err != nil || got.Program != u.Program || !slices.Equal(got.Args, u.Args) || !slices.Equal(got.Env, u.Env) || got.User != u.User || got.Home != u.Home {
				t.Errorf("%s, %v: Installed = %+v, %v, want %+v", system, wide, got, err, u)
			}
			if err := os.WriteFile(m.File(u), []byte("[Service]\nExecStart=/bin/sh -c x\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := m.Installed("serve"); err == nil {
				t.Errorf("%s: a file of another's = %+v", system, got)
			}
		}
	}
}

// silent is a system that does all that it is asked to.
func silent(context.Context, string, ...string) (string, error) { return "", nil }
