package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

func init() { cli.FlagStringer = flagText }

// flagWidth is how wide the explanation of a flag gets in a command's help, in bytes.
const flagWidth = 80

// flagText is a flag in a command's help: its names, and in a second column what
// it is for. A default that says nothing, such as false or 0, is left out.
func flagText(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	holder, usage := "", d.GetUsage()
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		if name, after, ok := strings.Cut(rest, "`"); ok {
			holder, usage = " "+name, before+name+after
		}
	}
	if holder == "" && d.TakesValue() {
		holder = " VALUE"
	}
	var names []string
	for _, n := range d.Names() {
		dashes := "--"
		if len(n) == 1 {
			dashes = "-"
		}
		names = append(names, dashes+n+holder)
	}
	switch text := d.GetDefaultText(); text {
	case "", "false", "0", "0s":
	default:
		usage += " (default: " + strings.ReplaceAll(text, "m0s", "m") + ")"
	}
	for _, e := range d.GetEnvVars() {
		usage += " [$" + e + "]"
	}
	return strings.Join(names, ", ") + "\t" + strings.Join(folded(usage, flagWidth), "\n\t")
}

// folded is text in lines of at most width bytes, but for longer words.
func folded(text string, width int) (lines []string) {
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}

// under puts flags below a heading of their own in a command's help.
func under(heading string, flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			f.Category = heading
		case *cli.StringSliceFlag:
			f.Category = heading
		case *cli.BoolFlag:
			f.Category = heading
		case *cli.IntFlag:
			f.Category = heading
		case *cli.Int64Flag:
			f.Category = heading
		case *cli.Float64Flag:
			f.Category = heading
		case *cli.DurationFlag:
			f.Category = heading
		}
	}
	return flags
}
