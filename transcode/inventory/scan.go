package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"macbatch/transcode/child"
)

// Source is one media file. One with an Error is a file that claims to be media
// and can't be used; it has no tracks.
type Source struct {
	Path     Path     `json:"path"`
	Identity Identity `json:"identity"`
	Media
	Error string `json:"error,omitempty"`
}

// Reason says why a file was skipped.
type Reason string

const (
	NotMedia     Reason = "not media"
	AppleDouble  Reason = "apple double"       // "._film.mp4", the Finder's shadow of a film
	NotRegular   Reason = "not a regular file" // a pipe, a device, a socket
	SymbolicLink Reason = "symbolic link"
	SameFile     Reason = "same file" // a hard link; Skipped.Of is the path that counts
	Unreadable   Reason = "unreadable"
	StillGrowing Reason = "still growing"
	SystemFolder Reason = "system folder" // a trash, a snapshot, an index
	FolderLoop   Reason = "folder loop"   // a folder mounted inside itself
	OwnOutput    Reason = "own output"    // a manifest of macbatch's beside or above it says that it made it
)

// Skipped is a file or folder that the scan met and left alone.
type Skipped struct {
	Path   Path   `json:"path"`
	Reason Reason `json:"reason"`
	Of     Path   `json:"of,omitzero"`
	Detail string `json:"detail,omitempty"`
}

// Result is all that was met, each list sorted by the bytes of the paths.
type Result struct {
	Sources   []Source  `json:"sources"`
	Skipped   []Skipped `json:"skipped"`
	Unchanged int       `json:"unchanged,omitempty"` // files that Options.Known told of, not among the sources
	Listing   *Listing  `json:"listing,omitempty"`   // in a result that the next scan goes on from
	Passed    []Path    `json:"-"`                   // the unchanged files
}

// Listing names the file that tells what was there: a JSON array of Seen.
type Listing struct {
	Digest string `json:"digest"` // SHA-256, hexadecimal
	Films  int    `json:"films"`
}

// Seen is a source as a listing tells of it.
type Seen struct {
	Path Path `json:"path"`
	Identity
}

var (
	// ErrNoRoot is returned when the root is not there or is no folder.
	ErrNoRoot = errors.New("not there: is it mounted?")
	// ErrEmptyRoot is returned when the folder to scan holds no file at all, as
	// the place of an unmounted disk does.
	ErrEmptyRoot = errors.New("empty: is it mounted?")
	// ErrNoFilms is returned when Options.Had films were there before, and none is.
	ErrNoFilms = errors.New("has no film any more: is it mounted?")
)

// Options of Scan.
type Options struct {
	FFprobe  string                                     // absolute path of the program
	Sub      string                                     // a folder of the root to scan instead of all of it; "" for all
	Had      int                                        // films that an earlier scan found
	Known    map[Path]Identity                          // files that are passed over while they are the same
	Settle   time.Duration                              // a film must not have changed for so long; 0: two seconds
	Parallel int                                        // files probed at a time; 0: by the number of processors, at most 4
	Progress func(n int, p Path)                        // after the n-th file was probed; calls don't overlap
	Now      func() time.Time                           // nil: time.Now
	Wait     func(context.Context, time.Duration) error // sleeps; nil: by a timer
}

const (
	youngAge  = 2 * time.Second  // a file changed this shortly ago may still be growing,
	brokenAge = 60 * time.Second // and one that can't be read for longer
	settle    = time.Second
)

// Scan walks the folder root and probes each media file in it.
//
// It fails as a whole when the root is not there, empty, or goes away under it:
// a result that lacks half of the films would read as if they were deleted.
func Scan(ctx context.Context, root string, opts Options) (Result, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Wait == nil {
		opts.Wait = wait
	}
	if opts.Parallel <= 0 {
		opts.Parallel = min(runtime.NumCPU(), 4)
	}
	opts.Settle = max(opts.Settle, youngAge)
	start := opts.Now()
	r, err := OpenRoot(root)
	if err != nil {
		return Result{}, fmt.Errorf("scan %w", err)
	}
	defer r.Close()
	w := walk{ctx: ctx, root: r}
	if err := w.from(Path(opts.Sub)); err != nil {
		return Result{}, fmt.Errorf("scan root %q: %w", root, err)
	}
	if opts.Had > 0 && len(w.candidates) == 0 {
		return Result{}, fmt.Errorf("scan root %q: had %d films and %w", root, opts.Had, ErrNoFilms)
	}
	s := scan{walk: &w, opts: opts, start: start}
	s.passOver()
	if err := s.probeAll(ctx); err != nil {
		return Result{}, fmt.Errorf("scan root %q: %w", root, err)
	}
	if err := s.settleYoung(ctx); err != nil {
		return Result{}, fmt.Errorf("scan root %q: %w", root, err)
	}
	if err := stillThere(r); err != nil {
		return Result{}, fmt.Errorf("scan root %q: %w", root, err)
	}
	return s.result(), nil
}

// OpenRoot opens the folder root, which must exist, by its absolute path.
func OpenRoot(root string) (*os.Root, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("root %q: %w", root, err)
	}
	fi, err := os.Stat(abs)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		return nil, fmt.Errorf("root %q: %w", root, ErrNoRoot)
	}
	if err != nil {
		return nil, fmt.Errorf("root %q: %w", root, bare(err))
	}
	r, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("root %q: %w", root, bare(err))
	}
	return r, nil
}

// stillThere reports an error when the path of r is another folder by now, as
// after an unmount.
func stillThere(r *os.Root) error {
	held, err := r.Stat(".")
	if err != nil {
		return bare(err)
	}
	now, err := os.Stat(r.Name())
	if err != nil || !os.SameFile(held, now) {
		return fmt.Errorf("went away: %w", ErrNoRoot)
	}
	return nil
}

// scan is one run of Scan after the walk.
type scan struct {
	*walk
	opts    Options
	start   time.Time
	sources []found // in the order of walk.candidates
	passed  []Path  // candidates that are known
}

// found is a candidate after probing: a source, a skip, or nothing when the file
// was removed meanwhile.
type found struct {
	source  *Source
	skipped *Skipped
	died    bool // what probed it was killed, again and again
	mtime   time.Time
}

// passOver takes the candidates that are as they are known off the list.
func (s *scan) passOver() {
	s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool {
		id, ok := s.opts.Known[c.path]
		if ok = ok && id.Same(c.id); ok {
			s.passed = append(s.passed, c.path)
		}
		return ok
	})
}

func (s *scan) probeAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.sources = make([]found, len(s.candidates))
	var (
		next   atomic.Int64
		mu     sync.Mutex
		probed int
		all    sync.WaitGroup
	)
	for range min(s.opts.Parallel, len(s.candidates)) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(s.candidates) {
					return
				}
				f, err := s.probe(ctx, s.candidates[i].path)
				if err != nil {
					cancel(err)
					return
				}
				s.sources[i] = f
				mu.Lock()
				probed++
				if s.opts.Progress != nil {
					s.opts.Progress(probed, s.candidates[i].path)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	usable := func(f found) bool { return f.source != nil }
	if i := slices.IndexFunc(s.sources, func(f found) bool { return f.died }); i >= 0 && !slices.ContainsFunc(s.sources, usable) {
		bad := s.sources[i].skipped // it may be ffprobe itself: not a word on what is in the folder
		return fmt.Errorf("probe %q, and all others: %s", string(bad.Path), bad.Detail)
	}
	return nil
}

// probe looks at one candidate; its error ends the scan.
func (s *scan) probe(ctx context.Context, p Path) (found, error) {
	skip := func(r Reason, err error) (found, error) {
		return found{skipped: &Skipped{Path: p, Reason: r, Detail: detail(err)}}, nil
	}
	f, id, err := Open(s.root, p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found{}, nil
	case errors.Is(err, ErrNotRegular):
		return skip(NotRegular, nil)
	case err != nil:
		return skip(Unreadable, err)
	}
	defer f.Close()
	m, err := Probe(ctx, s.opts.FFprobe, f)
	for tries := 1; died(err) && tries < maxProbes && ctx.Err() == nil; tries++ {
		if _, err = f.Seek(0, io.SeekStart); err == nil { // the program may share our place in it
			m, err = Probe(ctx, s.opts.FFprobe, f)
		}
	}
	src := &Source{Path: p, Identity: id, Media: m}
	var bad *MediaError
	switch {
	case errors.As(err, &bad):
		if judged := sniff(f); sharedExt[ext(p)] && errors.As(judged, &bad) && id.Size > 0 {
			return skip(NotMedia, nil)
		}
		src.Error, src.Media = bad.Reason, Media{Tracks: []AudioTrack{}}
	case errors.Is(err, ErrUnreadable), died(err) && ctx.Err() == nil: // a file that kills ffprobe costs no other
		return found{skipped: &Skipped{Path: p, Reason: Unreadable, Detail: detail(err)}, died: died(err)}, nil
	case err != nil:
		return found{}, fmt.Errorf("probe %q: %w", string(p), err)
	}
	after, err := f.Stat()
	if err != nil {
		return skip(Unreadable, err)
	}
	if !IdentityOf(after).Same(id) {
		return skip(StillGrowing, nil)
	}
	return found{source: src, mtime: after.ModTime()}, nil
}

// maxProbes is how often a file is probed whose ffprobe was killed, be it by the file.
const maxProbes = 3

// died reports whether a program was ended by a signal.
func died(err error) bool {
	var exit *child.ExitError
	return errors.As(err, &exit) && strings.HasPrefix(exit.Status, "signal:")
}

// settleYoung looks a second time at the files that changed shortly before the
// scan. There is no waiting when there are none.
func (s *scan) settleYoung(ctx context.Context) error {
	var young []int
	for i, f := range s.sources {
		if f.source == nil {
			continue
		}
		age := s.opts.Settle
		if f.source.Error != "" {
			age = max(age, brokenAge)
		}
		if f.mtime.After(s.start.Add(-age)) {
			young = append(young, i)
		}
	}
	if len(young) == 0 {
		return nil
	}
	if s.opts.Settle > youngAge { // there will be another scan
		for _, i := range young {
			s.sources[i] = found{skipped: &Skipped{Path: s.sources[i].source.Path, Reason: StillGrowing}}
		}
		return nil
	}
	if err := s.opts.Wait(ctx, settle); err != nil {
		return err
	}
	for _, i := range young {
		src := s.sources[i].source
		fi, err := s.root.Lstat(string(src.Path))
		if errors.Is(err, fs.ErrNotExist) {
			s.sources[i] = found{}
		} else if err != nil || !IdentityOf(fi).Same(src.Identity) {
			s.sources[i] = found{skipped: &Skipped{Path: src.Path, Reason: StillGrowing}}
		}
	}
	return nil
}

func (s *scan) result() Result {
	res := Result{Sources: []Source{}, Skipped: append([]Skipped{}, s.skipped...), Unchanged: len(s.passed), Passed: s.passed}
	for _, f := range s.sources {
		switch {
		case f.source != nil:
			res.Sources = append(res.Sources, *f.source)
		case f.skipped != nil:
			res.Skipped = append(res.Skipped, *f.skipped)
		}
	}
	slices.SortFunc(res.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Path, b.Path) })
	return res
}

func detail(err error) string {
	if err == nil {
		return ""
	}
	return clip(bare(err).Error(), 200)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
