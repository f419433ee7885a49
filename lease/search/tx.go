package search

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"macbatch/lease"
	"macbatch/lease/gather/survey"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/transcribe"
)

// tx is one page of following: what the index is to know, and the films of which
// other parts may count now.
type tx struct {
	ctx   context.Context
	ix    *Index
	ctl   lease.Control
	sql   *sql.Tx
	jobs  map[lease.JobID]*job
	films map[int64]bool
}

// job is what of a job matters here.
type job struct {
	library bool
	gone    bool // pruned, or canceled
	project lease.Project
	root    string
}

func newTx(ctx context.Context, ix *Index, ctl lease.Control, t *sql.Tx) *tx {
	return &tx{ctx: ctx, ix: ix, ctl: ctl, sql: t, jobs: map[lease.JobID]*job{}, films: map[int64]bool{}}
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.sql.ExecContext(t.ctx, query, args...)
	return err
}

// number is the one integer that a query gives, or 0.
func (t *tx) number(query string, args ...any) (n int64, err error) {
	err = t.sql.QueryRowContext(t.ctx, query, args...).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return n, err
}

// event takes in one event of the ledger.
func (t *tx) event(ev *lease.Event) error {
	switch ev.Kind { //nolint:exhaustive // nothing of the others is searched for
	case lease.EventCanceled, lease.EventPruned, lease.EventRetried:
		if ev.Job == 0 || ev.Shard != 0 {
			return nil
		}
		return t.exec("INSERT OR REPLACE INTO work VALUES(?, 0)", int64(ev.Job))
	case lease.EventDone, lease.EventReused:
		j, err := t.job(ev.Job)
		if err != nil || !j.library || j.gone {
			return err
		}
		row, err := t.shard(ev.ShardID())
		if err != nil || row == nil {
			return err
		}
		return t.add(j, row)
	default:
		return nil
	}
}

// job looks a job up.
func (t *tx) job(id lease.JobID) (*job, error) {
	if j := t.jobs[id]; j != nil {
		return j, nil
	}
	row, err := t.ctl.Job(t.ctx, id)
	if errors.Is(err, lease.ErrNotFound) {
		t.jobs[id] = &job{gone: true}
		return t.jobs[id], nil
	}
	if err != nil {
		return nil, err
	}
	t.jobs[id] = known(&row)
	return t.jobs[id], nil
}

func known(row *lease.Job) *job {
	j := &job{gone: row.Canceled, project: row.Project}
	if p, err := pipeline.Params(row.Params); err == nil && row.Kind == pipeline.Library {
		j.library, j.root = true, p.Root
	}
	return j
}

// shard reads a row with its result; nil: it is gone.
func (t *tx) shard(id lease.ShardID) (*lease.Shard, error) {
	rows, err := t.ctl.Shards(t.ctx, id.Job, id.Seq-1, 1, false)
	if errors.Is(err, lease.ErrNotFound) || err == nil && (len(rows) == 0 || rows[0].ID != id) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &rows[0], nil
}

// add notes what a done shard tells of a film.
func (t *tx) add(j *job, row *lease.Shard) error {
	if row.State != lease.Done {
		return nil
	}
	id := row.ID
	switch row.Need.Kind {
	case pipeline.Transcode:
		var in pipeline.TranscodePayload
		if err := wire.Unmarshal(row.Payload, &in); err != nil {
			return t.strange(id, err)
		}
		path, err := in.Path.MarshalText()
		if err != nil {
			return t.strange(id, err)
		}
		_, err = t.take(j, row, string(path), row.Planned == 0)
		return err
	case pipeline.Transcribe:
		return t.part(j, row)
	case pipeline.Summarize:
		film, err := t.number("SELECT film FROM takes WHERE job = ? AND item = ?", int64(id.Job), row.Item)
		if err != nil || film == 0 {
			return err
		}
		t.films[film] = true
		return t.exec("UPDATE takes SET ended = 1 WHERE job = ? AND item = ?", int64(id.Job), row.Item)
	}
	return nil
}

// strange logs a shard that can't be read, and passes it over.
func (t *tx) strange(id lease.ShardID, err error) error {
	t.ix.log.Warn("not to be searched", "shard", id.String(), "error", err)
	return nil
}

// take notes that a job's item is a film, and returns its number.
func (t *tx) take(j *job, row *lease.Shard, path string, ended bool) (film int64, err error) {
	project, err := t.project(j.project)
	if err != nil {
		return 0, err
	}
	if err := t.exec("INSERT OR IGNORE INTO films(project, root, path) VALUES(?, ?, ?)", project, j.root, path); err != nil {
		return 0, err
	}
	if film, err = t.number("SELECT id FROM films WHERE project = ? AND root = ? AND path = ?", project, j.root, path); err != nil {
		return 0, err
	}
	t.films[film] = true
	return film, t.exec("INSERT INTO takes VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET ended = max(ended, ?4)", int64(row.ID.Job), row.Item, film, ended)
}

// part notes an accepted transcript. Its words follow when the film is settled.
func (t *tx) part(j *job, row *lease.Shard) error {
	var in pipeline.TranscribePayload
	if err := wire.Unmarshal(row.Payload, &in); err != nil {
		return t.strange(row.ID, err)
	}
	path, err := in.Path.MarshalText()
	if err != nil {
		return t.strange(row.ID, err)
	}
	film, err := t.take(j, row, string(path), false)
	if err != nil {
		return err
	}
	project, err := t.project(j.project)
	if err != nil {
		return err
	}
	return t.exec("INSERT OR IGNORE INTO parts VALUES(?, ?, ?, ?, ?, ?, ?, ?, 0, 0)",
		int64(row.ID.Job), row.ID.Seq, row.Item, row.Generation, film, project, in.Part.FromMS, in.Part.ToMS)
}

// words names the table of a project's segments.
func words(project int64) string { return fmt.Sprintf("words_%d", project) }

// project returns a project's number; it has a table from then on.
func (t *tx) project(name lease.Project) (id int64, err error) {
	if id, err = t.number("SELECT id FROM projects WHERE name = ?", string(name)); err != nil || id != 0 {
		return id, err
	}
	if err := t.exec("INSERT INTO projects(name, next) VALUES(?, 1)", string(name)); err != nil {
		return 0, err
	}
	if id, err = t.number("SELECT id FROM projects WHERE name = ?", string(name)); err != nil {
		return 0, err
	}
	return id, t.exec("CREATE VIRTUAL TABLE " + words(id) + ` USING fts5(text, start UNINDEXED, stop UNINDEXED, tokenize = "unicode61 remove_diacritics 2", prefix = '2 3 4', columnsize = 0)`)
}

// part is a row of parts.
type part struct {
	id         lease.ShardID
	item       uint32
	generation uint32
	from, to   int64
	project    int64
	lo, hi     int64
	live       bool
}

// newer orders parts: those that count first.
func newer(a, b *part) int {
	return cmp.Or(-cmp.Compare(a.id.Job, b.id.Job), -cmp.Compare(a.item, b.item), -cmp.Compare(a.generation, b.generation), -cmp.Compare(a.id.Seq, b.id.Seq))
}

// settle sees to it that of each film that was touched the parts are searched that count.
func (t *tx) settle() error {
	for _, film := range slices.Sorted(maps.Keys(t.films)) {
		if err := t.settleFilm(film); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) settleFilm(film int64) error {
	parts, err := t.parts(film)
	if err != nil {
		return err
	}
	var endedJob, endedItem int64 // the newest take that is through
	err = t.sql.QueryRowContext(t.ctx, "SELECT job, item FROM takes WHERE film = ? AND ended = 1 ORDER BY job DESC, item DESC LIMIT 1", film).Scan(&endedJob, &endedItem)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	slices.SortFunc(parts, newer)
	var live []*part
	for _, p := range parts {
		old := int64(p.id.Job) < endedJob || int64(p.id.Job) == endedJob && int64(p.item) < endedItem
		p.live = !old && !slices.ContainsFunc(live, func(q *part) bool { return p.from < q.to && q.from < p.to || p.from == q.from })
		if p.live {
			live = append(live, p)
		}
	}
	for _, p := range parts {
		if !p.live && p.lo > 0 {
			if err := t.forget(p); err != nil {
				return err
			}
			if err := t.exec("UPDATE parts SET lo = 0, hi = 0 WHERE job = ? AND seq = ?", int64(p.id.Job), p.id.Seq); err != nil {
				return err
			}
		}
	}
	for _, p := range live {
		if p.lo == 0 {
			if err := t.learn(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) parts(film int64) (list []*part, err error) {
	rows, err := t.sql.QueryContext(t.ctx, "SELECT job, seq, item, generation, from_ms, to_ms, project, lo, hi FROM parts WHERE film = ?", film)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		p := &part{}
		if err := rows.Scan(&p.id.Job, &p.id.Seq, &p.item, &p.generation, &p.from, &p.to, &p.project, &p.lo, &p.hi); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// forget removes a part's segments.
func (t *tx) forget(p *part) error {
	return t.exec("DELETE FROM "+words(p.project)+" WHERE rowid BETWEEN ? AND ?", p.lo, p.hi)
}

// learn adds a part's segments. A part that has none gets a number all the same.
func (t *tx) learn(p *part) error {
	segments, err := t.segments(p)
	if err != nil {
		return err
	}
	lo, err := t.number("SELECT next FROM projects WHERE id = ?", p.project)
	if err != nil {
		return err
	}
	insert, err := t.sql.PrepareContext(t.ctx, "INSERT INTO "+words(p.project)+"(rowid, text, start, stop) VALUES(?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	hi := lo
	for i, s := range segments {
		hi = lo + int64(i)
		if _, err := insert.ExecContext(t.ctx, hi, s.Text, s.StartMS, s.EndMS); err != nil {
			return err
		}
	}
	if err := t.exec("UPDATE projects SET next = ? WHERE id = ?", hi+1, p.project); err != nil {
		return err
	}
	return t.exec("UPDATE parts SET lo = ?, hi = ? WHERE job = ? AND seq = ?", lo, hi, int64(p.id.Job), p.id.Seq)
}

// segments reads those of a part's transcript that say something in its stretch, on
// the film's time line.
func (t *tx) segments(p *part) (list []transcribe.Segment, err error) {
	row, err := t.shard(p.id)
	if err != nil || row == nil || row.State != lease.Done {
		return nil, err // pruned: the event is to come
	}
	var in pipeline.TranscribePayload
	var res transcribe.Transcript
	if err = wire.Unmarshal(row.Payload, &in); err == nil {
		err = survey.Result(t.ctx, t.ctl, row, &res)
	}
	switch {
	case errors.Is(err, lease.ErrUnreachable), errors.Is(err, lease.ErrUnknownOutcome), t.ctx.Err() != nil:
		return nil, err
	case errors.Is(err, lease.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, t.strange(p.id, err)
	}
	for _, s := range res.Segments {
		says := slices.ContainsFunc(s.Spoken(), func(w transcribe.Word) bool {
			mid := in.Part.StartMS + (w.StartMS+w.EndMS)/2
			return mid >= p.from && mid <= p.to
		})
		if says {
			list = append(list, transcribe.Segment{StartMS: s.StartMS + in.Part.StartMS, EndMS: s.EndMS + in.Part.StartMS, Text: s.Text})
		}
	}
	return list, nil
}
