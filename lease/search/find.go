package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"macbatch/lease"
)

// Bounds of an answer.
const (
	Candidates = 500             // segments that match, and are ranked
	Patience   = 2 * time.Second // of one query
	maxRanges  = 256             // stretches of segments that are looked through one by one
	textBytes  = 400             // of a hit, about
)

// Marks that highlight puts around what matches: no transcript holds them.
const (
	markOn  = "\x02"
	markOff = "\x03"
)

// Find looks for q in the films of some projects; nil: of all. Errors wrap
// lease.ErrInvalid where the query is to blame. Hits that the store has given up
// meanwhile may be among them.
func (ix *Index) Find(ctx context.Context, q lease.Query, projects []lease.Project) (out lease.Found, err error) {
	expr, err := match(q.Words)
	if err != nil {
		return out, err
	}
	switch {
	case q.Limit < 0 || q.Limit > lease.MaxPage:
		return out, fmt.Errorf("search: limit %d: must be 1 to %d: %w", q.Limit, lease.MaxPage, lease.ErrInvalid)
	case len(q.Film) > lease.MaxQuery || !utf8.ValidString(q.Film):
		return out, fmt.Errorf("search: film pattern of %d bytes: too long, or no UTF-8: %w", len(q.Film), lease.ErrInvalid)
	}
	limit := cmp.Or(q.Limit, 20)
	ix.mu.RLock()
	mark := ix.mark()
	defer ix.mu.RUnlock()
	out = lease.Found{Hits: []lease.Hit{}, Behind: mark.Seq}
	if ix.readers == nil {
		return out, nil // it could not be made anew: nothing is known
	}
	f := &finder{expr: expr, film: q.Film, want: max(Candidates, limit)}
	err = f.read(ctx, ix.readers, projects)
	switch {
	case damaged(err):
		ix.harm(err)
		return out, nil
	case ctx.Err() != nil:
		return lease.Found{}, context.Cause(ctx)
	case err != nil:
		return lease.Found{}, fmt.Errorf("search for %q: %w", clip(q.Words), err)
	}
	out.Behind = mark.Seq - min(mark.Seq, f.at.seq)
	if f.at.below > 0 || f.at.store == "" {
		out.Behind = max(out.Behind, 1)
	}
	out.Looked, out.Capped = len(f.found), f.capped
	out.Hits = f.best(limit)
	return out, nil
}

// finder collects what matches one query.
type finder struct {
	expr   string
	film   string
	want   int
	at     state
	found  []candidate
	capped bool
}

// candidate is a segment that matches.
type candidate struct {
	lease.Hit
	film    int64
	row     int64
	marked  string
	variety int // how many different words of it match
	share   float64
}

// read collects the candidates, as of one moment.
func (f *finder) read(ctx context.Context, db *sql.DB, projects []lease.Project) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it only read
	var below int64
	err = tx.QueryRowContext(ctx, "SELECT store, epoch, seq, below FROM state").Scan(&f.at.store, &f.at.epoch, &f.at.seq, &below)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	f.at.below = lease.JobID(below)
	here, err := f.projects(ctx, tx, projects)
	if err != nil {
		return err
	}
	within, stop := context.WithTimeout(ctx, Patience)
	defer stop()
	for id, name := range here {
		from := len(f.found)
		err := f.project(within, tx, id, name)
		if within.Err() != nil { // what was found in time counts
			f.capped, err = true, nil
		}
		if err == nil {
			err = f.locate(ctx, tx, id, f.found[from:])
		}
		if err != nil {
			return err
		}
	}
	// Each project gave its newest: those of all are the newest of these.
	if slices.SortFunc(f.found, newest); len(f.found) > f.want {
		f.found, f.capped = f.found[:f.want], true
	}
	return nil
}

// newest orders by the time of acceptance as far as it is known: by job, and within a
// project by number.
func newest(a, b candidate) int {
	return cmp.Or(-cmp.Compare(a.Shard.Job, b.Shard.Job), -cmp.Compare(a.row, b.row))
}

// projects are those to look in, by number.
func (f *finder) projects(ctx context.Context, tx *sql.Tx, wanted []lease.Project) (map[int64]lease.Project, error) {
	rows, err := tx.QueryContext(ctx, "SELECT id, name FROM projects")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	here := map[int64]lease.Project{}
	for rows.Next() {
		var id int64
		var name lease.Project
		if err := rows.Scan(&id, &name); err != nil {
			return nil, err
		}
		if wanted == nil || slices.Contains(wanted, name) {
			here[id] = name
		}
	}
	return here, rows.Err()
}

// project collects the newest candidates of a project.
func (f *finder) project(ctx context.Context, tx *sql.Tx, id int64, name lease.Project) error {
	query := matching(id)
	if f.film == "" {
		return f.collect(ctx, tx, name, f.want, query+" ORDER BY rowid DESC LIMIT ?2", f.expr, f.want+1)
	}
	ranges, err := f.ranges(ctx, tx, id)
	if err != nil {
		return err
	}
	if len(ranges) > maxRanges {
		return f.among(ctx, tx, id, name)
	}
	left := f.want
	for _, r := range ranges {
		before := len(f.found)
		err := f.collect(ctx, tx, name, left, query+" AND rowid BETWEEN ?3 AND ?4 ORDER BY rowid DESC LIMIT ?2", f.expr, left+1, r[0], r[1])
		if err != nil || f.capped {
			return err
		}
		left -= len(f.found) - before
	}
	return nil
}

// matching is the query for the segments of a project that match.
func matching(id int64) string {
	return fmt.Sprintf("SELECT rowid, start, stop, highlight(%[1]s, 0, char(2), char(3)) FROM %[1]s WHERE %[1]s MATCH ?1", words(id))
}

// among looks through all that matches for the films that are meant: these are many.
func (f *finder) among(ctx context.Context, tx *sql.Tx, id int64, name lease.Project) error {
	query := matching(id) + fmt.Sprintf(` AND (SELECT film FROM parts WHERE project = ?3 AND lo > 0 AND lo <= %s.rowid ORDER BY lo DESC LIMIT 1)
		IN (SELECT id FROM films WHERE project = ?3 AND path GLOB ?4) ORDER BY rowid DESC LIMIT ?2`, words(id))
	return f.collect(ctx, tx, name, f.want, query, f.expr, f.want+1, id, f.film)
}

// ranges are the numbers of the segments of the films that are meant, newest first: so
// a few films are looked through at once, however common the words.
func (f *finder) ranges(ctx context.Context, tx *sql.Tx, project int64) (list [][2]int64, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT lo, hi FROM parts WHERE lo > 0 AND film IN (SELECT id FROM films WHERE project = ? AND path GLOB ?)`, project, f.film)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r [2]int64
		if err := rows.Scan(&r[0], &r[1]); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b [2]int64) int { return -cmp.Compare(a[0], b[0]) })
	joined := list[:0]
	for _, r := range list {
		if n := len(joined); n > 0 && r[1]+1 == joined[n-1][0] {
			joined[n-1][0] = r[0]
		} else {
			joined = append(joined, r)
		}
	}
	return joined, rows.Err()
}

// collect adds up to want of the segments that a query gives; it asks for one more.
func (f *finder) collect(ctx context.Context, tx *sql.Tx, name lease.Project, want int, query string, args ...any) error {
	from := len(f.found)
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if len(f.found)-from == want {
			f.capped = true
			break
		}
		c := candidate{}
		if err = rows.Scan(&c.row, &c.StartMS, &c.EndMS, &c.marked); err != nil {
			return err
		}
		c.Project = name
		f.found = append(f.found, c)
	}
	return rows.Err()
}

// locate tells of what film, and of what shard, segments are.
func (f *finder) locate(ctx context.Context, tx *sql.Tx, project int64, list []candidate) error {
	find, err := tx.PrepareContext(ctx, `SELECT p.job, p.seq, p.film, p.lo, p.hi, f.root, f.path FROM parts p JOIN films f ON f.id = p.film WHERE p.project = ? AND p.lo > 0 AND p.lo <= ? ORDER BY p.lo DESC LIMIT 1`)
	if err != nil {
		return err
	}
	defer find.Close()
	var lo, hi int64
	for i := range list {
		c := &list[i]
		if i > 0 && c.row >= lo && c.row <= hi { // they come in order
			p := &list[i-1]
			c.Shard, c.film, c.Root, c.Path = p.Shard, p.film, p.Root, p.Path
			continue
		}
		if err := find.QueryRowContext(ctx, project, c.row).Scan(&c.Shard.Job, &c.Shard.Seq, &c.film, &lo, &hi, &c.Root, &c.Path); err != nil {
			return err
		}
	}
	return nil
}

// best ranks the candidates.
func (f *finder) best(limit int) []lease.Hit {
	for i := range f.found {
		f.found[i].score()
	}
	slices.SortStableFunc(f.found, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.variety, b.variety), -cmp.Compare(a.share, b.share), newest(a, b))
	})
	hits := []lease.Hit{}
	at := map[int64][]*lease.Hit{} // by film
	for i := range f.found {
		c := &f.found[i]
		twin := slices.ContainsFunc(at[c.film], func(h *lease.Hit) bool {
			return h.Shard != c.Shard && h.StartMS < c.EndMS && c.StartMS < h.EndMS
		})
		if twin { // across a cut both sides heard it
			continue
		}
		at[c.film] = append(at[c.film], &c.Hit)
		if hits = append(hits, c.Hit); len(hits) == limit {
			break
		}
	}
	return hits
}

// score takes the marks out of a candidate's text, and judges by them.
func (c *candidate) score() {
	different := map[string]bool{}
	marked := 0
	var b strings.Builder
	for rest := c.marked; rest != ""; {
		plain, more, on := strings.Cut(rest, markOn)
		b.WriteString(plain)
		if !on {
			break
		}
		hit, after, _ := strings.Cut(more, markOff)
		c.Marks = append(c.Marks, [2]int{b.Len(), b.Len() + len(hit)})
		b.WriteString(hit)
		marked += len(hit)
		different[strings.ToLower(hit)] = true
		rest = after
	}
	c.Text, c.marked = b.String(), ""
	c.variety = len(different)
	if n := len(c.Text); n > 0 {
		c.share = float64(marked) / float64(n+40) // a lone word is not the best there is
	}
	c.shorten()
}

// shorten leaves of a long text what is around the first mark.
func (c *candidate) shorten() {
	if len(c.Text) <= textBytes {
		return
	}
	from := 0
	if len(c.Marks) > 0 {
		from = max(0, c.Marks[0][0]-textBytes/4)
	}
	to := min(len(c.Text), from+textBytes)
	for from > 0 && !utf8.RuneStart(c.Text[from]) {
		from--
	}
	for to < len(c.Text) && !utf8.RuneStart(c.Text[to]) {
		to++
	}
	c.Text = c.Text[from:to]
	marks := c.Marks[:0]
	for _, m := range c.Marks {
		if m[0] >= from && m[1] <= to {
			marks = append(marks, [2]int{m[0] - from, m[1] - from})
		}
	}
	c.Marks = marks
}
