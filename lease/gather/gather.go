package gather

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/transcode/inventory"
)

// Report counts what a pass met and did.
type Report struct {
	Films     int // that are settled: all of the outcomes below but skipped
	ByOutcome map[Outcome]int
	Pending   int // films still being worked on
	Written   int // films whose outputs were written now
	Unchanged int // films whose outputs were right already
}

// Gatherer writes the results of one job into one folder.
type Gatherer struct {
	ctl     lease.Control
	job     lease.Job
	root    string // the job's
	folder  *folder
	lines   map[sourceKey]*Line
	names   *names
	had     []byte                    // the manifest as it is on disk
	sizes   map[inventory.Path]Source // what the scan saw
	written int
	settled map[uint32]bool // items that an earlier pass dealt with
}

// New takes over the folder out, which is made when it is not there.
func New(ctl lease.Control, job lease.Job, out string) (*Gatherer, error) {
	p, err := pipeline.Params(job.Params)
	if err != nil || job.Kind != pipeline.Library {
		return nil, fmt.Errorf("gather job %v: not a library job: %w", job.ID, errors.Join(err, lease.ErrInvalid))
	}
	f, err := openFolder(out)
	if err != nil {
		return nil, err
	}
	g := &Gatherer{ctl: ctl, job: job, root: p.Root, folder: f, settled: map[uint32]bool{}}
	if g.lines, err = readManifest(f.root); err != nil {
		return nil, errors.Join(err, f.close())
	}
	for _, l := range g.lines {
		for _, o := range l.Outputs {
			f.ours(string(o.Path), o.SHA256)
		}
	}
	if g.had, err = encodeManifest(g.lines); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return g, nil
}

// Close gives the folder back.
func (g *Gatherer) Close() error { return g.folder.close() }

// Pass writes what is settled and not written yet, and brings the manifest up to
// date. It may be called again and again while the job runs.
func (g *Gatherer) Pass(ctx context.Context) (Report, error) {
	scan, films, err := g.read(ctx)
	if err != nil {
		return Report{}, err
	}
	if scan == nil || scan.State != lease.Done {
		return Report{ByOutcome: map[Outcome]int{}}, nil
	}
	if g.names == nil {
		if err := g.readScan(ctx, scan); err != nil {
			return Report{}, err
		}
	}
	rep := Report{}
	items := make([]uint32, 0, len(films))
	for item := range films {
		items = append(items, item)
	}
	slices.Sort(items)
	unchanged := 0
	for _, item := range items {
		f := films[item]
		switch {
		case f.open || f.transcode == nil || f.transcode.Planned > 0 && f.summary == nil:
			rep.Pending++
			continue
		case g.settled[item]:
			continue
		}
		wrote, err := g.film(ctx, f)
		if err != nil {
			return rep, err
		}
		if g.settled[item] = true; !wrote {
			unchanged++
		}
	}
	if err := g.writeManifest(); err != nil {
		return rep, err
	}
	rep.ByOutcome = map[Outcome]int{}
	for _, l := range g.lines {
		if l.Source.Root == g.root {
			if _, now := g.sizes[l.Source.Path]; now || l.Outcome == Skipped {
				rep.ByOutcome[l.Outcome]++
			}
		}
	}
	rep.Films = len(g.settled)
	rep.Written, rep.Unchanged = g.written, rep.Films-g.written
	return rep, nil
}

// read pages through the job's shards.
func (g *Gatherer) read(ctx context.Context) (scan *lease.Shard, films map[uint32]*film, err error) {
	films = map[uint32]*film{}
	for after := uint32(0); ; {
		page, err := g.ctl.Shards(ctx, g.job.ID, after, 0, false)
		if err != nil {
			return nil, nil, fmt.Errorf("gather job %v: %w", g.job.ID, err)
		}
		if len(page) == 0 {
			return scan, films, nil
		}
		for i := range page {
			s := &page[i]
			after = s.ID.Seq
			if s.Need.Kind == pipeline.Scan {
				scan = s
				continue
			}
			if films[s.Item] == nil {
				films[s.Item] = &film{}
			}
			films[s.Item].add(s)
		}
	}
}

// readScan names the films and notes what the scan skipped.
func (g *Gatherer) readScan(ctx context.Context, scan *lease.Shard) error {
	var res inventory.Result
	if _, err := g.fetch(ctx, scan, &res); err != nil {
		return err
	}
	g.sizes = make(map[inventory.Path]Source, len(res.Sources))
	paths := make([]inventory.Path, 0, len(res.Sources))
	for i := range res.Sources {
		s := &res.Sources[i]
		g.sizes[s.Path] = Source{Root: g.root, Path: s.Path, Size: s.Identity.Size, MtimeNS: s.Identity.MtimeNS, Inode: s.Identity.Inode}
		paths = append(paths, s.Path)
	}
	for _, s := range res.Skipped {
		reason := string(s.Reason)
		if s.Of != "" {
			of, err := s.Of.MarshalText()
			if err != nil {
				return err
			}
			reason += " as " + string(of)
		}
		if s.Detail != "" {
			reason += ": " + s.Detail
		}
		l := &Line{Source: Source{Root: g.root, Path: s.Path}, Outcome: Skipped, Reason: reason}
		if old := g.lines[l.Source.key()]; old == nil || len(old.Outputs) == 0 {
			g.lines[l.Source.key()] = l
		}
	}
	g.names = assign(g.root, paths, g.lines)
	return nil
}

// film brings the outputs and the line of one settled film up to date.
func (g *Gatherer) film(ctx context.Context, f *film) (wrote bool, err error) {
	var in pipeline.TranscodePayload
	if err := wire.Unmarshal(f.transcode.Payload, &in); err != nil {
		return false, fmt.Errorf("payload of shard %v: %w", f.transcode.ID, err)
	}
	src, ok := g.sizes[in.Path]
	if !ok {
		return false, fmt.Errorf("film %q is not in its job's scan", string(in.Path))
	}
	old := g.lines[src.key()]
	l := &Line{Source: src, Of: f.of()}
	l.Outcome, l.Reason = f.end()
	if l.Outcome != Done && l.Outcome != Partial {
		if old != nil { // what an earlier job wrote stays, and stays known
			l.Name, l.Outputs = old.Name, old.Outputs
		}
		l.Of = ""
		g.lines[src.key()] = l
		return false, nil
	}
	if old != nil && old.Of == l.Of && g.there(old) {
		old.Source, old.Reason = src, l.Reason
		return false, nil
	}
	c, err := g.assemble(ctx, f, src)
	if err != nil {
		return false, fmt.Errorf("film %q: %w", string(in.Path), err)
	}
	if l.DurationMS = c.durationMS; c.noSpeech && l.Outcome == Done {
		l.Outcome, l.Reason = NoSpeech, "nobody speaks in it"
	}
	if wrote, err = g.put(src.key(), l, c); err != nil {
		return false, fmt.Errorf("film %q: %w", string(in.Path), err)
	}
	if g.lines[src.key()] = l; wrote {
		g.written++
	}
	return wrote, nil
}

// there reports whether all outputs of a line exist. Whether somebody edited them
// since is not our business.
func (g *Gatherer) there(l *Line) bool {
	for _, o := range l.Outputs {
		if fi, err := g.folder.root.Lstat(string(o.Path)); err != nil || !fi.Mode().IsRegular() {
			return false
		}
	}
	return len(l.Outputs) > 0
}

// put writes a film's outputs under its name, or under its next one where a
// stranger's file is in the way.
func (g *Gatherer) put(k sourceKey, l *Line, c *contents) (wrote bool, err error) {
	name := g.names.of[k]
	for {
		l.Name, l.Outputs = inventory.Path(name), nil
		wrote, err = g.putAs(name, l, c)
		if !errors.Is(err, errStranger) {
			return wrote, err
		}
		name = g.names.move(k)
	}
}

func (g *Gatherer) putAs(name string, l *Line, c *contents) (wrote bool, err error) {
	var files []file
	var states []state
	for _, suffix := range suffixes {
		b, ok := c.bodies[suffix]
		if !ok {
			continue
		}
		x := newFile(name+suffix, b)
		if err := clean(x.path); err != nil {
			return false, err
		}
		st, err := g.folder.look(&x)
		if err != nil {
			return false, err
		}
		l.Outputs = append(l.Outputs, Output{inventory.Path(x.path), x.digest, int64(len(b))})
		if st != same {
			files, states = append(files, x), append(states, st)
		}
	}
	if len(files) == 0 {
		return false, nil
	}
	if err := g.folder.intend(files); err != nil {
		return false, fmt.Errorf("write down what comes: %w", err)
	}
	for i := range files {
		if err := g.folder.write(&files[i], states[i]); err != nil {
			return false, fmt.Errorf("write %q: %w", files[i].path, err)
		}
	}
	return true, g.folder.sync(path.Dir(files[0].path))
}

// writeManifest replaces the manifest when its bytes change, and ends the journal.
func (g *Gatherer) writeManifest() error {
	b, err := encodeManifest(g.lines)
	if err != nil {
		return err
	}
	if !bytes.Equal(b, g.had) || len(b) == 0 {
		if err := g.folder.root.MkdirAll(tmpDir, 0o755); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
		x := newFile(manifestName, b)
		if err := g.folder.write(&x, ours); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
		if err := g.folder.sync("."); err != nil {
			return fmt.Errorf("write manifest: %w", err)
		}
		g.had = b
	}
	return g.folder.endJournal()
}
