package service

import (
	"fmt"
	"strings"
)

// word is one argument as systemd reads it: in quotes, so that spaces, quotes and
// backslashes stand for themselves, with its specifiers (%) doubled.
func word(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s) + `"`
}

// argument is a word of a command line, where $ would stand for a variable.
func argument(s string) string { return strings.ReplaceAll(word(s), "$", "$$") }

// bare is the value of a setting that is one path, which has no quotes.
func bare(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// UnitFile is the unit as systemd reads it, of the machine if wide.
func (u *Unit) UnitFile(wide bool) ([]byte, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]")
	line("Description=macbatch %s", u.Name)
	if wide {
		line("Wants=network-online.target")
		line("After=network-online.target")
	}
	if !u.Once {
		line("StartLimitIntervalSec=0")
	}
	line("")
	line("[Service]")
	words := []string{argument(u.Program)}
	for _, a := range u.Args {
		words = append(words, argument(a))
	}
	line("ExecStart=%s", strings.Join(words, " "))
	for _, e := range u.Env {
		line("Environment=%s", word(e))
	}
	if wide {
		line("User=%s", bare(u.User))
	}
	line("WorkingDirectory=%s", bare(u.Home))
	if u.Once {
		line("Type=oneshot")
		line("TimeoutStartSec=infinity")
	} else {
		line("Restart=always")
		line("RestartSec=5")
		line("RestartPreventExitStatus=2")
	}
	line("TimeoutStopSec=%d", seconds(u.Leave))
	line("KillMode=mixed")
	line("OOMPolicy=continue")
	line("UMask=0077")
	line("LimitNOFILE=%d", openFiles)
	line("NoNewPrivileges=yes")
	line("LockPersonality=yes")
	line("RestrictRealtime=yes")
	line("RestrictSUIDSGID=yes")
	line("SystemCallArchitectures=native")
	if wide {
		line("PrivateTmp=yes")
		line("ProtectSystem=strict")
		line("ProtectHome=read-only")
		line("ProtectControlGroups=yes")
		line("ProtectKernelModules=yes")
		line("ProtectKernelTunables=yes")
		if len(u.Writes) > 0 {
			var paths []string
			for _, w := range u.Writes {
				paths = append(paths, word(w))
			}
			line("ReadWritePaths=%s", strings.Join(paths, " "))
		}
	}
	if !u.Once {
		line("")
		line("[Install]")
		if wide {
			line("WantedBy=multi-user.target")
		} else {
			line("WantedBy=default.target")
		}
	}
	return []byte(b.String()), nil
}
