package service

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// readUnitFile takes over what a unit that UnitFile wrote says.
func (u *Unit) readUnitFile(text string) error {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		var words []string
		var err error
		switch key {
		case "ExecStart":
			if words, err = split(strings.ReplaceAll(value, "$$", "$")); err == nil && len(words) > 0 {
				u.Program, u.Args = words[0], words[1:]
			}
		case "Environment":
			words, err = split(value)
			u.Env = append(u.Env, words...)
		case "ReadWritePaths":
			u.Writes, err = split(value)
		case "User":
			u.User = strings.ReplaceAll(value, "%%", "%")
		case "WorkingDirectory":
			u.Home = strings.ReplaceAll(value, "%%", "%")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errWords is returned for words that this package did not write.
var errWords = errors.New("it was changed by hand: its words are not each in double quotes")

// split takes words in quotes apart.
func split(s string) (words []string, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " ") {
		if s[0] != '"' {
			return nil, errWords
		}
		var b strings.Builder
		i := 1
		for ; i < len(s) && s[i] != '"'; i++ {
			if (s[i] == '\\' || s[i] == '%') && i+1 < len(s) {
				i++
			}
			b.WriteByte(s[i])
		}
		if i >= len(s) {
			return nil, errWords
		}
		words, s = append(words, b.String()), s[i+1:]
	}
	return words, nil
}

// readPlist takes over what a property list says, by the keys and strings in their
// order: dictionaries are flattened.
func (u *Unit) readPlist(text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	key, in := "", "" // the last key, and that of the array or dictionary around it
	var argv []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			var s string
			switch token.Name.Local {
			case "array", "dict":
				in = key
				continue
			case "key", "string":
				if err := d.DecodeElement(&s, &token); err != nil {
					return err
				}
			default:
				continue
			}
			switch {
			case token.Name.Local == "key":
				key = s
			case in == "ProgramArguments":
				argv = append(argv, s)
			case in == "EnvironmentVariables":
				u.Env = append(u.Env, key+"="+s)
			case key == "UserName":
				u.User = s
			case key == "WorkingDirectory":
				u.Home = s
			case key == "ProcessType":
				u.process = s
			}
		case xml.EndElement:
			if token.Name.Local == "array" || token.Name.Local == "dict" {
				in = ""
			}
		}
	}
	if len(argv) > 0 {
		u.Program, u.Args = argv[0], argv[1:]
	}
	return nil
}
