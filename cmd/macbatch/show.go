package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

func configCommand(c *command) *cli.Command {
	return verbs("config", "settings: what flags are when they are not given",
		&cli.Command{
			Name: "show", Usage: "tell what is set, and where", UsageText: "macbatch config show [COMMAND] [--json]",
			Description: "A flag counts first, then the environment (--token-file is MACBATCH_TOKEN_FILE; several values stand on\n" +
				"lines of their own), then config.toml beside the credential, or the file that MACBATCH_CONFIG names:\n" +
				"token-file = \"FILE\" at its top is for all commands, below [command.serve] for one. With COMMAND all of\n" +
				"its flags are told, defaults too.",
			Flags:  []cli.Flag{jsonFlag("print a JSON object a line")},
			Action: func(x *cli.Context) error { return c.showConfig(x) },
		},
	)
}

// shown is a setting as it is told.
type shown struct {
	Command string   `json:"command"`
	Flag    string   `json:"flag"`
	Values  []string `json:"values"`
	From    string   `json:"from"`
}

func (c *command) showConfig(x *cli.Context) error {
	asked := strings.Join(x.Args().Slice(), " ")
	s, err := c.settings(x.App)
	if err != nil {
		return err
	}
	var out []shown
	found := asked == ""
	var each func(prefix string, cmds []*cli.Command)
	each = func(prefix string, cmds []*cli.Command) {
		for _, cmd := range cmds {
			name := strings.TrimSpace(prefix + " " + cmd.Name)
			each(name, cmd.Subcommands)
			if asked != "" && asked != name || cmd.Hidden {
				continue
			}
			found = true
			for _, f := range cmd.Flags {
				if !settable(f) {
					continue
				}
				values, from := c.setting(s, name, f)
				if from == "" {
					if values, from = c.joined(f.Names()[0]); from == "" && asked != "" {
						from = "default"
						if d, ok := f.(cli.DocGenerationFlag); ok && d.GetDefaultText() != "" {
							values = []string{strings.Trim(d.GetDefaultText(), `"`)}
						}
					}
				}
				if from != "" {
					out = append(out, shown{name, f.Names()[0], values, from})
				}
			}
		}
	}
	each("", x.App.Commands)
	if !found {
		return usagef("command %q is not known", asked)
	}
	if asked == "" && !x.Bool("json") {
		out = once(out)
	}
	return list(c, x, out, []string{"COMMAND", "FLAG", "VALUE", "FROM"}, func(s *shown) []string {
		return []string{s.Command, s.Flag, strings.Join(s.Values, " "), s.From}
	})
}

// once folds what is the same for several commands.
func once(list []shown) (out []shown) {
	at := map[string]int{}
	for _, s := range list {
		key := s.Flag + "\x00" + strings.Join(s.Values, "\x00") + "\x00" + s.From
		if i, ok := at[key]; ok {
			out[i].Command = "…"
			continue
		}
		at[key] = len(out)
		out = append(out, s)
	}
	return out
}

// joined is what joining a control plane, or running one here, says of a flag. A
// token is never told, but the file that holds it.
func (c *command) joined(flag string) (values []string, from string) {
	known, err := c.parties()
	if err != nil || len(known) == 0 {
		return nil, ""
	}
	p := known[0]
	switch flag {
	case "control":
		values = p.urls
	case "token-file":
		values = []string{p.file}
	case "pin":
		values = []string{p.pin}
	default:
		return nil, ""
	}
	if p.token == "" {
		return values, "control plane of this host"
	}
	return values, "joined: " + p.file
}
