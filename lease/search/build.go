package search

import (
	"database/sql"
	"errors"

	"macbatch/lease"
)

// work does a page of the first job that is to be dropped or looked through, and
// reports whether there was one.
func (t *tx) work() (busy bool, err error) {
	var id lease.JobID
	var after uint32
	err = t.sql.QueryRowContext(t.ctx, "SELECT job, after FROM work ORDER BY job DESC LIMIT 1").Scan(&id, &after)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j, err := t.job(id)
	if err != nil {
		return false, err
	}
	// What an event said may be over by now: the row decides.
	var done bool
	if j.gone {
		done, err = t.drop(id)
	} else {
		done, after, err = t.look(id, j, after)
	}
	if err == nil && done {
		return true, t.exec("DELETE FROM work WHERE job = ?", int64(id))
	}
	if err == nil {
		err = t.exec("UPDATE work SET after = ? WHERE job = ?", after, int64(id))
	}
	return true, err
}

// drop removes a page of a job's parts, and at last its takes.
func (t *tx) drop(id lease.JobID) (done bool, err error) {
	rows, err := t.sql.QueryContext(t.ctx, "SELECT seq, film, project, lo, hi FROM parts WHERE job = ? LIMIT ?", int64(id), pageRows)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var parts []*part
	for rows.Next() {
		p := &part{id: lease.ShardID{Job: id}}
		var film int64
		if err := rows.Scan(&p.id.Seq, &film, &p.project, &p.lo, &p.hi); err != nil {
			return false, err
		}
		parts = append(parts, p)
		t.films[film] = true
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return false, err
	}
	for _, p := range parts {
		if p.lo > 0 {
			if err := t.forget(p); err != nil {
				return false, err
			}
		}
		if err := t.exec("DELETE FROM parts WHERE job = ? AND seq = ?", int64(p.id.Job), p.id.Seq); err != nil {
			return false, err
		}
	}
	if len(parts) == pageRows {
		return false, nil
	}
	return t.dropTakes(id)
}

// dropTakes removes a page of a job's takes, and the films that no job has any more.
func (t *tx) dropTakes(id lease.JobID) (done bool, err error) {
	rows, err := t.sql.QueryContext(t.ctx, "SELECT item, film FROM takes WHERE job = ? LIMIT ?", int64(id), pageRows)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	type take struct{ item, film int64 }
	var takes []take
	for rows.Next() {
		var k take
		if err := rows.Scan(&k.item, &k.film); err != nil {
			return false, err
		}
		takes = append(takes, k)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return false, err
	}
	for _, k := range takes {
		t.films[k.film] = true
		if err := t.exec("DELETE FROM takes WHERE job = ? AND item = ?", int64(id), k.item); err != nil {
			return false, err
		}
		if err := t.exec("DELETE FROM films WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM takes WHERE film = ?1)", k.film); err != nil {
			return false, err
		}
	}
	return len(takes) < pageRows, nil
}

// look takes in a page of a job's shards.
func (t *tx) look(id lease.JobID, j *job, after uint32) (done bool, next uint32, err error) {
	if !j.library {
		return true, 0, nil
	}
	rows, err := t.ctl.Shards(t.ctx, id, after, pageRows, false)
	if errors.Is(err, lease.ErrNotFound) {
		return true, 0, nil
	}
	if err != nil {
		return false, after, err
	}
	for i := range rows {
		if after = rows[i].ID.Seq; rows[i].State != lease.Done {
			continue
		}
		if err := t.add(j, &rows[i]); err != nil {
			return false, after, err
		}
	}
	return len(rows) == 0, after, nil
}

// build puts the next older jobs on the list of those to look through.
func (t *tx) build(at *state) error {
	jobs, err := t.ctl.Jobs(t.ctx, at.below, pageRows)
	if err != nil {
		return err
	}
	for i := range jobs {
		row := &jobs[i]
		at.below = row.ID
		if j := known(row); !j.library || j.gone {
			continue
		}
		// Jobs come newest first, and the newest of the list is looked through first: one is enough.
		return t.exec("INSERT OR IGNORE INTO work VALUES(?, 0)", int64(row.ID))
	}
	if len(jobs) == 0 {
		at.below = 0
	}
	return nil
}
