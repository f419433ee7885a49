package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"

	"macbatch/lease"
)

// settingsName is the file of settings in their folder.
const settingsName = "config.toml"

// A flag is what the command line says, or else the environment, or else the file
// of settings: in the table of the command, or at its top.

// settings are what a file of settings says: values as a flag takes them, by flag.
type settings struct {
	path     string
	top      map[string][]string
	commands map[string]map[string][]string // by the command's full name
}

// settable reports whether a flag may be set but on the command line.
func settable(f cli.Flag) bool {
	n := f.Names()[0]
	return n != "help" && n != "version"
}

// variable is the environment's name of a flag.
func variable(flag string) string {
	return "MACBATCH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configurable makes a command and those below it take settings, and has the
// library look into no environment: what comes first is decided in one place.
func (c *command) configurable(cmd *cli.Command) {
	for _, f := range cmd.Flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			f.EnvVars = nil
		case *cli.StringSliceFlag:
			f.EnvVars = nil
		case *cli.BoolFlag:
			f.EnvVars = nil
		case *cli.IntFlag:
			f.EnvVars = nil
		case *cli.Int64Flag:
			f.EnvVars = nil
		case *cli.Float64Flag:
			f.EnvVars = nil
		case *cli.DurationFlag:
			f.EnvVars = nil
		}
	}
	if len(cmd.Subcommands) == 0 {
		cmd.Before = c.settle
	}
	for _, sub := range cmd.Subcommands {
		c.configurable(sub)
	}
}

// settle gives the flags of a command that the command line lacks the values of
// the environment and the file.
func (c *command) settle(x *cli.Context) error { return c.settleAs(x, fullName(x)) }

// settleAs gives them the values that another command's would get.
func (c *command) settleAs(x *cli.Context, command string) error {
	s, err := c.settings(x.App)
	if err != nil {
		return err
	}
	for _, f := range x.Command.Flags {
		name := f.Names()[0]
		if !settable(f) || x.IsSet(name) {
			continue
		}
		values, from := c.setting(s, command, f)
		for _, v := range values {
			if err := x.Set(name, v); err != nil {
				return usagef("%s: %q for %s: %v", from, v, dashed(name), err)
			}
		}
	}
	return nil
}

// setting is what the environment or the file says of a flag, and which of them.
func (c *command) setting(s *settings, command string, f cli.Flag) (values []string, from string) {
	name := f.Names()[0]
	if v, ok := c.env(variable(name)); ok && v != "" {
		if _, many := f.(*cli.StringSliceFlag); many {
			return strings.Split(strings.Trim(v, "\n"), "\n"), "environment " + variable(name)
		}
		return []string{v}, "environment " + variable(name)
	}
	if v, ok := s.commands[command][name]; ok {
		return v, fmt.Sprintf("%s [command.%s]", s.path, strings.ReplaceAll(command, " ", "."))
	}
	if v, ok := s.top[name]; ok {
		return v, s.path
	}
	return nil, ""
}

// settings reads the file of settings; where there is none it says nothing.
func (c *command) settings(app *cli.App) (*settings, error) {
	path, named := c.env("MACBATCH_CONFIG")
	if !named || path == "" {
		dir, err := c.configFolder()
		if err != nil {
			return &settings{}, nil //nolint:nilerr // without a home there are none; who needs one says so
		}
		path, named = filepath.Join(dir, settingsName), false
	}
	s := &settings{path: path, top: map[string][]string{}, commands: map[string]map[string][]string{}}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("settings: %w", err)
	case fi.Mode().Perm()&0o022 != 0:
		return nil, hint(fmt.Errorf("settings %q can be changed by others (mode %04o): %w", path, fi.Mode().Perm(), lease.ErrForbidden), "chmod 600 %q", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	shape := reflect.New(fileShape(app))
	if err := toml.NewDecoder(strings.NewReader(string(b))).DisallowUnknownFields().Decode(shape.Interface()); err != nil {
		return nil, settingsError(path, err)
	}
	s.read(shape.Elem(), nil)
	return s, nil
}

// settingsError says what is wrong where.
func settingsError(path string, err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		e := &unknown.Errors[0]
		line, _ := e.Position()
		key := e.Key()
		err := usagef("settings %q, line %d: %q is not known", path, line, strings.Join(key, "."))
		if last := key[len(key)-1]; slices.Contains([]string{"token", "key", "password", "secret", "api-key"}, strings.ToLower(last)) {
			return hint(err, "secrets stay in files of their own: token-file names one")
		}
		return err
	}
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, _ := wrong.Position()
		what, _, _ := strings.Cut(strings.TrimPrefix(wrong.Error(), "toml: "), " into struct field") // no words of Go's
		return usagef("settings %q, line %d: %s", path, line, what)
	}
	return usagef("settings %q: %v", path, err)
}

// fileShape is the type of a file of settings: a field for each flag that has one
// type in all commands, and a table for each command with its own.
func fileShape(app *cli.App) reflect.Type {
	kinds := map[string]reflect.Type{}
	var order []string
	var each func(cmds []*cli.Command) []reflect.StructField
	each = func(cmds []*cli.Command) (tables []reflect.StructField) {
		for _, cmd := range cmds {
			var fields []reflect.StructField
			for _, f := range cmd.Flags {
				if !settable(f) {
					continue
				}
				name, t := f.Names()[0], flagShape(f)
				fields = append(fields, field(len(fields), name, t))
				if old, ok := kinds[name]; !ok {
					kinds[name] = t
					order = append(order, name)
				} else if old != t {
					kinds[name] = nil
				}
			}
			fields = append(fields, renumber(each(cmd.Subcommands), len(fields))...)
			tables = append(tables, field(len(tables), cmd.Name, reflect.PointerTo(reflect.StructOf(fields))))
		}
		return tables
	}
	tables := each(app.Commands)
	var top []reflect.StructField
	for _, name := range order {
		if kinds[name] != nil {
			top = append(top, field(len(top), name, kinds[name]))
		}
	}
	return reflect.StructOf(append(top, field(len(top), "command", reflect.PointerTo(reflect.StructOf(tables)))))
}

func field(n int, name string, t reflect.Type) reflect.StructField {
	return reflect.StructField{Name: "F" + strconv.Itoa(n), Type: t, Tag: reflect.StructTag(fmt.Sprintf("toml:%q", name))}
}

func renumber(fields []reflect.StructField, from int) []reflect.StructField {
	for i := range fields {
		fields[i].Name = "F" + strconv.Itoa(from+i)
	}
	return fields
}

// flagShape is how a file says a flag's value.
func flagShape(f cli.Flag) reflect.Type {
	switch f.(type) {
	case *cli.BoolFlag:
		return reflect.TypeFor[*bool]()
	case *cli.IntFlag, *cli.Int64Flag:
		return reflect.TypeFor[*int64]()
	case *cli.Float64Flag:
		return reflect.TypeFor[*float64]()
	case *cli.StringSliceFlag:
		return reflect.TypeFor[[]string]()
	}
	return reflect.TypeFor[*string]()
}

// read takes over what a table says; command names it, none is the top.
func (s *settings) read(v reflect.Value, command []string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Tag.Get("toml"), v.Field(i)
		switch {
		case f.IsNil():
			continue
		case f.Type().Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			if name != "command" || command != nil {
				name := append(slices.Clip(command), name)
				s.read(f.Elem(), name)
				continue
			}
			s.read(f.Elem(), []string{})
			continue
		}
		var values []string
		if list, ok := f.Interface().([]string); ok {
			values = list
		} else {
			values = []string{fmt.Sprint(f.Elem().Interface())}
		}
		if command == nil {
			s.top[name] = values
			continue
		}
		full := strings.Join(command, " ")
		if s.commands[full] == nil {
			s.commands[full] = map[string][]string{}
		}
		s.commands[full][name] = values
	}
}
