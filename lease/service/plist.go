package service

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// plist writes a property list, key by key.
type plist struct {
	bytes.Buffer
	depth int
}

func (p *plist) line(format string, args ...any) {
	p.WriteString(strings.Repeat("\t", p.depth))
	p.WriteString(fmt.Sprintf(format, args...))
	p.WriteByte('\n')
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes all
	return b.String()
}

func (p *plist) key(name string) { p.line("<key>%s</key>", escaped(name)) }

func (p *plist) text(key, value string) {
	p.key(key)
	p.line("<string>%s</string>", escaped(value))
}

func (p *plist) number(key string, n int64) {
	p.key(key)
	p.line("<integer>%d</integer>", n)
}

func (p *plist) truth(key string, v bool) {
	p.key(key)
	p.line("<%t/>", v)
}

func (p *plist) list(key string, values []string) {
	p.key(key)
	p.line("<array>")
	p.depth++
	for _, v := range values {
		p.line("<string>%s</string>", escaped(v))
	}
	p.depth--
	p.line("</array>")
}

func (p *plist) dict(key string, body func()) {
	p.key(key)
	p.line("<dict>")
	p.depth++
	body()
	p.depth--
	p.line("</dict>")
}

// openFiles is how many descriptors a service may have.
const openFiles = 65536

// Plist is the unit as launchd reads it; log is where its output goes.
func (u *Unit) Plist(log string) ([]byte, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	p := &plist{}
	p.line(`<?xml version="1.0" encoding="UTF-8"?>`)
	p.line(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">`)
	p.line(`<plist version="1.0">`)
	p.line("<dict>")
	p.depth++
	p.text("Label", label(u.Name))
	p.list("ProgramArguments", append([]string{u.Program}, u.Args...))
	if len(u.Env) > 0 {
		p.dict("EnvironmentVariables", func() {
			for _, e := range u.Env {
				name, value, _ := strings.Cut(e, "=")
				p.text(name, value)
			}
		})
	}
	if u.User != "" {
		p.text("UserName", u.User)
	}
	p.text("WorkingDirectory", u.Home)
	p.truth("RunAtLoad", true)
	p.truth("KeepAlive", !u.Once)
	p.number("ThrottleInterval", 10)
	p.number("ExitTimeOut", seconds(u.Leave))
	process := u.process
	switch {
	case process != "":
	case u.Answers:
		process = "Interactive"
	default:
		process = "Standard"
	}
	p.text("ProcessType", process)
	p.number("Umask", 0o077)
	for _, limit := range []string{"SoftResourceLimits", "HardResourceLimits"} {
		p.dict(limit, func() { p.number("NumberOfFiles", openFiles) })
	}
	p.text("StandardOutPath", log)
	p.text("StandardErrorPath", log)
	p.depth--
	p.line("</dict>")
	p.line("</plist>")
	return p.Bytes(), nil
}
