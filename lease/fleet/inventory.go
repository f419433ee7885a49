package fleet

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"
)

// Host is one machine of an inventory.
type Host struct {
	Host    string            `toml:"host"`
	Name    string            `toml:"name"`
	Project string            `toml:"project"`
	Labels  []string          `toml:"labels"`
	Roots   map[string]string `toml:"roots"`
	Flags   []string          `toml:"flags"`
	Program string            `toml:"program"`
}

// program is where it is kept when nothing else is said.
const program = ".local/bin/macbatch"

var (
	hostName = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_\[][A-Za-z0-9._:%\]-]*$`)
	rootName = regexp.MustCompile(`^[^:/ \t\n=]+$`)
	notName  = regexp.MustCompile(`[^a-z0-9._-]+`)
)

// ReadInventory reads a file.
func ReadInventory(file string) ([]Host, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("inventory: %w", err)
	}
	hosts, err := ParseInventory(string(b))
	if err != nil {
		return nil, fmt.Errorf("inventory %q: %w", file, err)
	}
	return hosts, nil
}

// ParseInventory reads the text of an inventory; every fault is an error.
func ParseInventory(text string) ([]Host, error) {
	var all struct {
		Project string   `toml:"project"`
		Flags   []string `toml:"flags"`
		Host    []Host   `toml:"host"`
	}
	if err := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(&all); err != nil {
		var unknown *toml.StrictMissingError
		if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
			line, _ := unknown.Errors[0].Position()
			return nil, fmt.Errorf("line %d: %q is not known", line, strings.Join(unknown.Errors[0].Key(), "."))
		}
		var wrong *toml.DecodeError
		if errors.As(err, &wrong) {
			line, _ := wrong.Position()
			return nil, fmt.Errorf("line %d: %s", line, strings.TrimPrefix(wrong.Error(), "toml: "))
		}
		return nil, err
	}
	if len(all.Host) == 0 {
		return nil, errors.New("it has no [[host]]")
	}
	seen := map[string]bool{}
	for i := range all.Host {
		h := &all.Host[i]
		if h.Project == "" {
			h.Project = all.Project
		}
		if h.Project == "" {
			h.Project = "default"
		}
		if h.Program == "" {
			h.Program = program
		}
		if h.Name == "" {
			_, at, _ := strings.Cut("@"+h.Host, "@")
			if _, rest, ok := strings.Cut(at, "@"); ok {
				at = rest
			}
			h.Name = strings.Trim(notName.ReplaceAllString(strings.ToLower(at), "-"), "-.")
		}
		h.Flags = append(slices.Clone(all.Flags), h.Flags...)
		if err := h.check(); err != nil {
			return nil, fmt.Errorf("host %q: %w", h.Host, err)
		}
		for _, k := range []string{"host " + h.Host, "name " + h.Name} {
			if seen[k] {
				return nil, fmt.Errorf("%q is there twice", k)
			}
			seen[k] = true
		}
	}
	return all.Host, nil
}

func (h *Host) check() error {
	switch {
	case !hostName.MatchString(h.Host):
		return errors.New("it is no name that ssh could know")
	case h.Name == "":
		return errors.New("it needs a name")
	case strings.HasPrefix(h.Program, "-") || path.Clean(h.Program) != h.Program || strings.HasSuffix(h.Program, "/"):
		return fmt.Errorf("program %q is no path", h.Program)
	}
	for name, dir := range h.Roots {
		if !rootName.MatchString(name) || !path.IsAbs(dir) {
			return fmt.Errorf("root %q = %q: it must be a name without colon, slash or space, and an absolute folder", name, dir)
		}
	}
	for _, f := range h.Flags {
		if !strings.HasPrefix(f, "-") {
			return fmt.Errorf("flag %q: write it as one word, --name=value", f)
		}
	}
	for _, s := range append(append([]string{h.Program}, h.Flags...), fmt.Sprint(h.Roots)) {
		if strings.ContainsFunc(s, unicode.IsControl) {
			return fmt.Errorf("%q has a line break or another control character in it", s)
		}
	}
	return nil
}

// Select returns the hosts of which one of names is the host or name, and which have
// one of labels; none of either means all.
func Select(hosts []Host, names, labels []string) (out []Host, err error) {
	for _, n := range names {
		if !slices.ContainsFunc(hosts, func(h Host) bool { return h.Host == n || h.Name == n }) {
			return nil, fmt.Errorf("host %q is not in the inventory", n)
		}
	}
	for _, h := range hosts {
		if len(names) > 0 && !slices.Contains(names, h.Host) && !slices.Contains(names, h.Name) {
			continue
		}
		if len(labels) > 0 && !slices.ContainsFunc(labels, func(l string) bool { return slices.Contains(h.Labels, l) }) {
			continue
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		return nil, errors.New("no host of the inventory has that label")
	}
	return out, nil
}

// serveFlags are the words behind "service install serve" for a host.
func (h *Host) serveFlags() []string {
	words := []string{"--name=" + h.Name}
	var names []string
	for n := range h.Roots {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		words = append(words, "--root="+n+"="+h.Roots[n])
	}
	return append(words, h.Flags...)
}
