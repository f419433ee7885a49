package gather

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
	"macbatch/transcribe"
)

// Report counts what a Gatherer met and did, in all of its passes.
type Report struct {
	Films      int             // that are settled
	ByOutcome  map[Outcome]int // of those films; and of the files that the scan skipped
	Growing    int             // files that the scan left for later: they are being written to
	Pending    int             // films still being worked on
	Written    int             // films of which outputs were written
	Unchanged  int             // films whose outputs were right already
	Edited     int             // outputs that somebody changed since, and that were left alone
	Suspicious int             // films whose transcripts are in doubt
}

// Gatherer writes the results of one job into one folder.
type Gatherer struct {
	ctl     lease.Control
	job     lease.Job
	formats []Format
	root    string         // the job's
	sub     inventory.Path // and the folder of it
	preset  transcode.Preset
	folder  *folder
	lines   map[sourceKey]*Line
	had     []byte // the manifest as it is on disk; nil when there is none
	names   *names
	sources map[inventory.Path]Source  // what the scan saw; nil before it ended
	paths   map[uint32]inventory.Path  // and the paths of the items
	latest  map[inventory.Path]uint32  // the newest item of a path: a watched film may have changed
	scans   map[uint32]bool            // that were read, by number
	skipped []*Line                    // what the last scan skipped
	only    uint32                     // 1 + the generation that is wanted; 0: the best
	items   map[uint32]uint32          // that an earlier pass dealt with: 1 + the newest generation there was
	shown   map[uint32]uint32          // those that have outputs: 1 + the generation they are of
	ends    map[inventory.Path]Outcome // of these and others
	report  Report
}

// New takes over the folder out, which is made when it is not there.
func New(ctl lease.Control, job lease.Job, out string, formats []Format) (*Gatherer, error) {
	return open(ctl, job, out, formats, nil)
}

func open(ctl lease.Control, job lease.Job, out string, formats []Format, step func(f *folder, op, name string) error) (*Gatherer, error) {
	p, err := pipeline.Params(job.Params)
	if err != nil || !pipeline.OfFilms(job.Kind) {
		return nil, fmt.Errorf("gather job %v: not a job over films: %w", job.ID, errors.Join(err, lease.ErrInvalid))
	}
	f, err := openFolder(out, step)
	if err != nil {
		return nil, err
	}
	g := &Gatherer{
		ctl: ctl, job: job, formats: formats, root: p.Root, sub: p.Sub, preset: p.Preset, folder: f,
		paths: map[uint32]inventory.Path{}, latest: map[inventory.Path]uint32{}, scans: map[uint32]bool{},
		items: map[uint32]uint32{}, shown: map[uint32]uint32{}, ends: map[inventory.Path]Outcome{},
	}
	if g.lines, g.had, err = readManifest(f.root); err != nil {
		return nil, errors.Join(fmt.Errorf("output folder %q: %w", out, err), f.close())
	}
	if g.had != nil {
		f.ours(manifestName, newFile(manifestName, g.had).digest)
	}
	for _, l := range g.lines {
		for _, o := range l.Outputs {
			f.ours(string(o.Path), o.SHA256)
		}
	}
	return g, nil
}

// Generation makes g write what a generation came to, 0 being the first, instead of
// the best there is: of an item that has no such generation its newest below.
func (g *Gatherer) Generation(n uint32) { g.only = n + 1 }

// Close gives the folder back.
func (g *Gatherer) Close() error { return g.folder.close() }

// maxErrors is after how many films that can't be gathered a pass gives up.
const maxErrors = 10

// Pass writes what is settled and not written yet, and brings the manifest up to
// date. It may be called again and again while the job runs; what an earlier pass
// dealt with is not fetched again. A film that can't be gathered does not keep the
// others from it; the next pass tries it anew.
func (g *Gatherer) Pass(ctx context.Context) (Report, error) {
	job, err := g.ctl.Job(ctx, g.job.ID)
	if err != nil {
		return g.counts(), fmt.Errorf("gather job %v: %w", g.job.ID, err)
	}
	g.job = job // before its shards: when it is over, so are they
	scans, films, again, err := g.read(ctx)
	if again { // something that was dealt with was asked for anew: its earlier shards count, too
		scans, films, _, err = g.read(ctx)
	}
	if err != nil {
		return g.counts(), err
	}
	for _, scan := range scans {
		if g.scans[scan.ID.Seq] {
			continue
		}
		if err := g.readScan(ctx, scan); err != nil {
			return g.counts(), err
		}
		g.scans[scan.ID.Seq] = true
	}
	if g.sources == nil {
		return g.counts(), nil
	}
	var errs []error
	for _, item := range inOrder(films) {
		if err := g.item(ctx, item, films[item]); err != nil {
			if errs = append(errs, err); hopeless(ctx, err) || len(errs) == maxErrors {
				break
			}
		}
	}
	if job.State.Terminal() && errs == nil {
		g.unplanned()
	}
	errs = append(errs, g.writeManifest(errs == nil))
	return g.counts(), errors.Join(errs...)
}

// hopeless reports whether an error would meet the other films too.
func hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, lease.ErrUnreachable) || errors.Is(err, lease.ErrUnknownOutcome) ||
		errors.Is(err, lease.ErrUnauthorized)
}

func inOrder(films map[uint32]*item) []uint32 {
	items := make([]uint32, 0, len(films))
	for item := range films {
		items = append(items, item)
	}
	slices.Sort(items)
	return items
}

// item deals with a film that has something to show.
func (g *Gatherer) item(ctx context.Context, n uint32, it *item) error {
	if path, ok := g.paths[n]; ok && g.latest[path] != n {
		g.items[n] = it.newest + 1 // the film is another one by now
		return nil
	}
	f, generation, last := it.current(g.only)
	if f == nil {
		return nil // if the job is over, its plan was never carried out
	}
	if g.shown[n] == generation+1 {
		if last {
			g.items[n] = it.newest + 1
		}
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	src, did, err := g.film(ctx, f)
	if err != nil {
		return err
	}
	g.shown[n] = generation + 1
	if last {
		g.items[n] = it.newest + 1
	}
	g.ends[src.Path] = g.lines[g.key(&src)].Outcome
	switch {
	case did.wrote:
		g.report.Written++
	case (f.summary != nil || f.render != nil && len(g.lines[g.key(&src)].Outputs) > 0) && len(g.lines[g.key(&src)].Of) > 0:
		g.report.Unchanged++
	}
	g.report.Edited += did.edited
	return nil
}

// counts is the report as of now.
func (g *Gatherer) counts() Report {
	r := g.report
	r.Films, r.ByOutcome = len(g.ends), map[Outcome]int{}
	for p, o := range g.ends {
		r.ByOutcome[o]++
		if src := g.sources[p]; g.lines[g.key(&src)] != nil && slices.Contains(g.lines[g.key(&src)].Flags, transcribe.Suspicious) {
			r.Suspicious++
		}
	}
	for _, l := range g.skippedLines() {
		if strings.HasPrefix(l.Reason, string(inventory.StillGrowing)) {
			r.Growing++
		}
		r.ByOutcome[Skipped]++
	}
	r.Pending = len(g.sources) - len(g.ends)
	return r
}

// read pages through the job's shards. again: an item that was dealt with has new
// ones, and its earlier ones were passed over.
func (g *Gatherer) read(ctx context.Context) (scans []*lease.Shard, films map[uint32]*item, again bool, err error) {
	films = map[uint32]*item{}
	for after := uint32(0); ; {
		page, err := g.ctl.Shards(ctx, g.job.ID, after, 0, false)
		if err != nil {
			return nil, nil, false, fmt.Errorf("gather job %v: %w", g.job.ID, err)
		}
		if len(page) == 0 {
			return scans, films, again, nil
		}
		for i := range page {
			s := page[i] // a copy: the page is not kept for it
			after = s.ID.Seq
			if g.job.Canceled && !s.State.Terminal() { // the mark decides, rows follow
				s.State, s.Reason = lease.Canceled, g.job.Reason
			}
			switch {
			case s.Need.Kind == pipeline.Scan && s.State == lease.Done:
				scans = append(scans, &s)
			case s.Need.Kind == pipeline.Scan:
			case s.Generation < g.items[s.Item]: // dealt with
			case g.items[s.Item] > 0:
				delete(g.items, s.Item)
				again = true
			default:
				if films[s.Item] == nil {
					films[s.Item] = &item{}
				}
				films[s.Item].add(&s)
			}
		}
	}
}

// readScan names the films and notes what the scan skipped.
func (g *Gatherer) readScan(ctx context.Context, scan *lease.Shard) error {
	var res inventory.Result
	if _, _, err := g.fetch(ctx, scan, &res); err != nil {
		return err
	}
	if g.sources == nil {
		g.sources = make(map[inventory.Path]Source, len(res.Sources))
	}
	for i := range res.Sources {
		s := &res.Sources[i]
		g.sources[s.Path] = Source{Root: g.root, Path: s.Path, Size: s.Identity.Size, MtimeNS: s.Identity.MtimeNS, Inode: s.Identity.Inode}
		n := scan.Item + uint32(i) // items are numbered on from scan to scan
		g.paths[n], g.latest[s.Path] = s.Path, n
		delete(g.ends, s.Path)
	}
	g.skip(g.sub, res.Skipped)
	g.names = assign(g.root, slices.Sorted(maps.Keys(g.sources)), g.lines, g.preset)
	return nil
}
