package search

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"

	"modernc.org/sqlite"

	"macbatch/lease"
)

// version of the file's form. Another one is built anew.
const version = 1

const schema = `
CREATE TABLE state(one INTEGER PRIMARY KEY CHECK(one = 1), store TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, print BLOB NOT NULL, below INTEGER NOT NULL);
CREATE TABLE work(job INTEGER PRIMARY KEY, after INTEGER NOT NULL);
CREATE TABLE projects(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, next INTEGER NOT NULL);
CREATE TABLE films(id INTEGER PRIMARY KEY, project INTEGER NOT NULL, root TEXT NOT NULL, path TEXT NOT NULL, UNIQUE(project, root, path));
CREATE TABLE takes(job INTEGER NOT NULL, item INTEGER NOT NULL, film INTEGER NOT NULL, ended INTEGER NOT NULL, PRIMARY KEY(job, item)) WITHOUT ROWID;
CREATE INDEX takes_film ON takes(film);
CREATE TABLE parts(job INTEGER NOT NULL, seq INTEGER NOT NULL, item INTEGER NOT NULL, generation INTEGER NOT NULL, film INTEGER NOT NULL, project INTEGER NOT NULL,
	from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL, lo INTEGER NOT NULL, hi INTEGER NOT NULL, PRIMARY KEY(job, seq)) WITHOUT ROWID;
CREATE INDEX parts_film ON parts(film);
CREATE INDEX parts_lo ON parts(project, lo) WHERE lo > 0;
`

const pragmas = "_pragma=busy_timeout(5000)&_pragma=cache_size(-8192)&_pragma=temp_store(2)&_pragma=synchronous(NORMAL)"

// Index is the words of a control plane's films. Its methods may be called by several
// goroutines; one of them follows the ledger.
type Index struct {
	path string
	log  *slog.Logger
	mark func() lease.Mark // how far the store is; set by what follows it

	mu      sync.RWMutex // held while the files are used; locked while they are replaced
	writer  *sql.DB
	readers *sql.DB

	checked bool  // the follower's: that the remembered event is one of this store
	hurt    error // what a reader found damaged; under wound
	wake    context.CancelFunc
	wound   sync.Mutex
}

// Open opens the index in a file, or makes one. A file that is damaged, or of another
// version, is replaced.
func Open(path string, log *slog.Logger) (*Index, error) {
	ix := &Index{path: path, log: log, mark: func() lease.Mark { return lease.Mark{} }}
	if log == nil {
		ix.log = slog.New(slog.DiscardHandler)
	}
	err := ix.open()
	if damaged(err) {
		ix.log.Warn("search index is built anew", "file", path, "error", err)
		if err = ix.remove(); err == nil {
			err = ix.open()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open search index %q: %w", path, err), ix.close())
	}
	return ix, nil
}

// View opens an index that another process follows with, to read it as it is.
func View(path string) (*Index, error) {
	ix := &Index{path: path, log: slog.New(slog.DiscardHandler), mark: func() lease.Mark { return lease.Mark{} }}
	_, err := os.Stat(path)
	if err == nil {
		ix.readers, err = openReaders(fileURL(path))
	}
	var have int
	if err == nil {
		err = ix.readers.QueryRow("PRAGMA user_version").Scan(&have)
	}
	if err == nil && have != version {
		err = errVersion
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open search index %q: %w", path, err), ix.close())
	}
	return ix, nil
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(path)}).String()
}

// errVersion is returned for a file of another form.
var errVersion = errors.New("it is of another version, or not all there")

// damaged reports whether the file is to blame for an error, or its form.
func damaged(err error) bool {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case 1: // of SQL, such as a table that is missing; but not an expression that can't be read
			return !strings.Contains(e.Error(), "fts5: syntax")
		case 11, 20, 26: // CORRUPT, MISMATCH, NOTADB
			return true
		}
	}
	return errors.Is(err, errVersion)
}

// open opens the files, and makes them where they are not there. The caller holds mu, or
// nobody else knows ix.
func (ix *Index) open() (err error) {
	if err = ix.close(); err != nil {
		return err
	}
	// Its words are the films': nobody else is to read them.
	f, err := os.OpenFile(ix.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	name := fileURL(ix.path)
	if ix.writer, err = sql.Open("sqlite", name+"?"+pragmas+"&_pragma=journal_mode(WAL)"); err != nil {
		return err
	}
	ix.writer.SetMaxOpenConns(1)
	var have int
	if err = ix.writer.QueryRow("PRAGMA user_version").Scan(&have); err != nil {
		return err
	}
	if have == 0 {
		var tables int
		if err = ix.writer.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables); err == nil && tables > 0 {
			return errVersion
		}
		if err == nil {
			_, err = ix.writer.Exec(fmt.Sprintf("BEGIN; %s PRAGMA user_version = %d; COMMIT", schema, version))
		}
	} else if have != version {
		err = errVersion
	}
	var tables int
	if err == nil {
		err = ix.writer.QueryRow("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('state', 'work', 'projects', 'films', 'takes', 'parts')").Scan(&tables)
	}
	if err == nil && tables != 6 {
		err = errVersion
	}
	if err != nil {
		return err
	}
	if ix.readers, err = openReaders(name); err != nil {
		return err
	}
	_, err = ix.state(context.Background())
	return err
}

func openReaders(name string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", name+"?"+pragmas+"&_pragma=query_only(1)")
	if err == nil {
		db.SetMaxOpenConns(4)
	}
	return db, err
}

// Close gives the files back. What was followed is kept.
func (ix *Index) Close() error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.close()
}

func (ix *Index) close() (err error) {
	for _, db := range []**sql.DB{&ix.readers, &ix.writer} {
		if *db != nil {
			err = errors.Join(err, (*db).Close())
			*db = nil
		}
	}
	return err
}

// remove deletes the files.
func (ix *Index) remove() error {
	err := ix.close()
	if damaged(err) {
		err = nil
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if rm := os.Remove(ix.path + end); !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}
	return err
}

// replace makes the index an empty one, to be built anew because of why.
func (ix *Index) replace(why error) error {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.log.Warn("search index is built anew", "file", ix.path, "error", why)
	err := ix.remove()
	if err == nil {
		ix.checked = false
		err = ix.open()
	}
	if err != nil {
		return fmt.Errorf("build search index %q anew: %w", ix.path, err)
	}
	return nil
}

// harm tells the follower that a reader found the file damaged.
func (ix *Index) harm(err error) {
	ix.wound.Lock()
	defer ix.wound.Unlock()
	ix.hurt = err
	if ix.wake != nil {
		ix.wake()
	}
}

// harmed is what a reader found, once.
func (ix *Index) harmed() error {
	ix.wound.Lock()
	defer ix.wound.Unlock()
	err := ix.hurt
	ix.hurt = nil
	return err
}

// waking is a context that also ends when a reader finds damage.
func (ix *Index) waking(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	ix.wound.Lock()
	defer ix.wound.Unlock()
	if ix.wake = stop; ix.hurt != nil {
		stop()
	}
	return ctx, stop
}

// state is how far the index is.
type state struct {
	store lease.StoreID // empty: nothing was followed yet
	epoch uint32
	seq   uint64
	print []byte
	below lease.JobID // a build goes on with the newest job below it; 0: it is whole
}

func (ix *Index) state(ctx context.Context) (s state, err error) {
	err = ix.readers.QueryRowContext(ctx, "SELECT store, epoch, seq, print, below FROM state").Scan(&s.store, &s.epoch, &s.seq, &s.print, &s.below)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return s, err
}

func (s *state) save(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO state VALUES(1, ?, ?, ?, ?, ?)", string(s.store), s.epoch, int64(s.seq), s.print, int64(s.below))
	return err
}

// update runs fn in one transaction of the writer.
func (ix *Index) update(ctx context.Context, fn func(tx *sql.Tx) error) error {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if ix.writer == nil {
		return sql.ErrConnDone
	}
	tx, err := ix.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err = fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
