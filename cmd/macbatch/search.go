package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/kv/boltkv"
	"macbatch/lease/search"
	"macbatch/transcode/inventory"
)

func searchCommand(c *command) *cli.Command {
	return &cli.Command{
		Name: "search", Usage: "find words in the transcripts of films",
		UsageText: "macbatch search WORDS [--film GLOB] [--limit N] [--json]",
		Description: "It prints the film, when it is said and in what words, and the command that plays it from there. WORDS\n" +
			"are words, \"phrases\" and the beginnings of words (birth*); all of them are to be there, unless AND, OR, NOT\n" +
			"and parentheses say otherwise: '\"happy birthday\" OR (cake NOT carrot)'. Case and diacritics do not count.\n\n" +
			"Where very many segments match the newest " + fmt.Sprint(search.Candidates) + " are ranked, and it says so. What is accepted is found within\n" +
			"seconds. Without a control plane it looks into the store of macbatch run.",
		Flags: append(clientFlags(),
			dataFlag("`FOLDER` of a store on this machine to search, such as that of macbatch run", ""),
			&cli.StringFlag{Name: "film", Usage: "only films whose path in their root matches `GLOB`: * stands for any text, also for folders"},
			&cli.StringFlag{Name: "project", Usage: "only films of `PROJECT`"},
			&cli.IntFlag{Name: "limit", Usage: "show at most `N` places, up to 1000", Value: 20},
			&cli.StringSliceFlag{Name: "root", Usage: "where a media folder is mounted here, as `NAME=FOLDER`, for the commands that play; may be repeated"},
			jsonFlag("print a JSON object a line")),
		Action: func(x *cli.Context) error { return c.search(x) },
	}
}

// place of a hit, with the command that plays it.
type played struct {
	lease.Hit
	Play string `json:"play"`
}

func (c *command) search(x *cli.Context) error {
	a, err := args(x, 1, 1, `words to look for, as one argument: '"so it was" OR cake'`)
	if err != nil {
		return err
	}
	q := lease.Query{Words: a[0], Film: x.String("film"), Project: lease.Project(x.String("project")), Limit: x.Int("limit")}
	if q.Limit < 1 || q.Limit > lease.MaxPage {
		return usagef("--limit %d: must be 1 to %d", q.Limit, lease.MaxPage)
	}
	roots, err := parseRoots(x.StringSlice("root"))
	if err != nil {
		return err
	}
	found, err := c.find(x, q)
	if err != nil {
		return err
	}
	player, bare := "ffplay -ss", false
	if _, err := exec.LookPath("mpv"); err == nil {
		player = "mpv --start="
	}
	for i := range found.Hits {
		h := &found.Hits[i]
		file, whole := fileOf(roots, h)
		bare = bare || !whole
		p := played{*h, play(player, h.StartMS, file)}
		if x.Bool("json") {
			err = printJSON(c.stdout, &p)
		} else {
			err = c.printHit(&p)
		}
		if err != nil {
			return err
		}
	}
	c.tellFound(&found, bare)
	return nil
}

// find asks the control plane, or the store of this machine.
func (c *command) find(x *cli.Context, q lease.Query) (lease.Found, error) {
	dir := x.String("data")
	if dir == "" && x.String("control") == "" && x.String("token-file") == "" {
		known, err := c.parties()
		if err != nil {
			return lease.Found{}, err
		}
		if run, err := c.dataFolder("run"); err == nil && len(known) == 0 {
			if _, err := os.Stat(filepath.Join(run, storeName)); err == nil {
				dir = run
			}
		}
	}
	if dir != "" {
		return c.findHere(x, dir, q)
	}
	ctl, err := c.dial(x)
	if err != nil {
		return lease.Found{}, err
	}
	out, err := ctl.Search(x.Context, q)
	return out, about(err, "project %q", q.Project)
}

// findHere searches a store on this machine: one at rest is brought up to date first,
// of one that is in use the index is read as it is.
func (c *command) findHere(x *cli.Context, dir string, q lease.Query) (out lease.Found, err error) {
	if _, err := os.Stat(filepath.Join(dir, storeName)); err != nil {
		return out, fmt.Errorf("search %q: %w", dir, err)
	}
	s, err := openLocal(dir, c.logger(false))
	if errors.Is(err, boltkv.ErrHeld) {
		return c.findBeside(x.Context, dir, q, err)
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.words == nil {
		return out, fmt.Errorf("search %q: its index cannot be opened", dir)
	}
	if err := s.words.CatchUp(x.Context, s.As(indexer), s.Mark); err != nil {
		return out, err
	}
	return s.As(indexer).Search(x.Context, q)
}

// findBeside reads the index of a store that another process has open.
func (c *command) findBeside(ctx context.Context, dir string, q lease.Query, held error) (out lease.Found, err error) {
	ix, err := search.View(filepath.Join(dir, wordsName))
	if errors.Is(err, fs.ErrNotExist) {
		return out, held
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	var projects []lease.Project
	if q.Project != "" {
		projects = []lease.Project{q.Project}
	}
	return ix.Find(ctx, q, projects)
}

// printHit shows one place.
func (c *command) printHit(p *played) error {
	on, off := "", ""
	if isTerminal(c.stdout) {
		on, off = "\x1b[1m", "\x1b[0m"
	}
	var text strings.Builder
	at := 0
	for _, m := range p.Marks {
		if m[0] < at || m[1] < m[0] || m[1] > len(p.Text) {
			continue
		}
		text.WriteString(printable(p.Text[at:m[0]]) + on + printable(p.Text[m[0]:m[1]]) + off)
		at = m[1]
	}
	text.WriteString(printable(p.Text[at:]))
	where := ""
	if p.Project != lease.DefaultProject {
		where = "  project " + printable(string(p.Project))
	}
	_, err := fmt.Fprintf(c.stdout, "%s  %s%s\n    %s\n    %s\n", printable(p.Path), clock(time.Duration(p.StartMS)*time.Millisecond), where, &text, printable(p.Play))
	return err
}

// tellFound says what the hits alone do not.
func (c *command) tellFound(f *lease.Found, bare bool) {
	switch {
	case len(f.Hits) == 0:
		fmt.Fprintln(c.stderr, "nothing found")
	case f.Capped:
		fmt.Fprintf(c.stderr, "%d of many: the newest %s that match were ranked; name --film, or more words\n", len(f.Hits), plural(uint64(f.Looked), "segment"))
	case f.Looked > len(f.Hits):
		fmt.Fprintf(c.stderr, "%d of %s that match\n", len(f.Hits), plural(uint64(f.Looked), "segment"))
	}
	if f.Behind > 0 {
		fmt.Fprintf(c.stderr, "the index is still being brought up to date: %s to go\n", plural(f.Behind, "event"))
	}
	if bare {
		fmt.Fprintln(c.stderr, "films are named from their root on; --root NAME=FOLDER says where that is here")
	}
}

// fileOf is a film's file as this machine knows it, and whether it does: an embedded
// run's root is the folder itself.
func fileOf(roots map[string]string, h *lease.Hit) (file string, whole bool) {
	var p inventory.Path
	if err := p.UnmarshalText([]byte(h.Path)); err != nil {
		return h.Path, false
	}
	dir, ok := roots[h.Root]
	if !ok {
		dir = h.Root
		if enc, is := strings.CutPrefix(h.Root, "percent:"); is {
			if raw, err := url.PathUnescape(enc); err == nil {
				dir = raw
			}
		}
	}
	if !filepath.IsAbs(dir) {
		return "./" + string(p), false
	}
	return filepath.Join(dir, string(p)), true
}

// play is the command that plays a file from a moment on.
func play(player string, ms int64, file string) string {
	space := " "
	if strings.HasSuffix(player, "=") {
		space = ""
	}
	return fmt.Sprintf("%s%s%d.%d %s", player, space, ms/1000, ms%1000/100, shellWord(file))
}

// shellWord quotes a word for a shell. What a terminal must not see is escaped.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._/+:@,", r)
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case printable(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		if c := s[i]; plain(rune(c)) || c == ' ' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	b.WriteString("'")
	return b.String()
}
