package gather

import (
	"context"
	"errors"
	"fmt"
	"path"

	"macbatch/lease"
	"macbatch/transcode/inventory"
)

// film brings the outputs and the line of one settled film up to date.
func (g *Gatherer) film(ctx context.Context, f *film) (src Source, did deed, err error) {
	path, err := f.path()
	if err != nil {
		return src, did, err
	}
	src, ok := g.sources[path]
	if !ok {
		return src, did, fmt.Errorf("film %q is not in its job's scan", string(path))
	}
	outcome, reason := f.end()
	if outcome != Done && outcome != Partial {
		g.without(src, outcome, reason)
		return src, did, nil
	}
	bring := g.outputs
	if f.render != nil {
		bring = g.rendition
	}
	if did, err = bring(ctx, f, &Line{Source: src, Preset: g.preset, Outcome: outcome, Reason: reason, Of: f.of()}); err != nil {
		return src, did, fmt.Errorf("film %q: %w", string(path), err)
	}
	return src, did, nil
}

// deed is what was done for a film's outputs.
type deed struct {
	wrote  bool
	edited int // outputs that somebody changed, and that were left alone
}

// without notes a film that has no outputs. What an earlier job wrote for it
// stays, and stays known.
func (g *Gatherer) without(src Source, outcome Outcome, reason string) {
	l := &Line{Source: src, Preset: g.preset, Outcome: outcome, Reason: reason}
	if old := g.lines[g.key(&src)]; old != nil && old.Name != "" {
		l.Name, l.Outputs = old.Name, old.Outputs
		if l.DurationMS, l.Sound = old.DurationMS, old.Sound; len(l.Outputs) > 0 && (old.Source.Size != src.Size || old.Source.MtimeNS != src.MtimeNS) {
			l.Reason += "; the outputs are of what was there before"
		} else if len(l.Outputs) > 0 {
			l.Reason += "; the outputs are of an earlier job"
		}
	}
	g.lines[g.key(&src)] = l
}

// outputs brings a film's outputs up to date and sets its line.
func (g *Gatherer) outputs(ctx context.Context, f *film, l *Line) (did deed, err error) {
	old := g.lines[l.key()]
	if old != nil && (old.Of != l.Of || len(old.Outputs) == 0) {
		old = nil
	}
	if old != nil { // made from these very results
		missing, edited, err := g.check(old)
		if err != nil {
			return did, err
		}
		if !missing && !g.lacks(old) {
			if old.Source = l.Source; old.Outcome == Partial {
				old.Reason = l.Reason
			}
			return deed{edited: edited}, nil
		}
	}
	c, err := g.assemble(ctx, f, l.Source)
	if err != nil {
		return did, err
	}
	l.DurationMS, l.Flags, l.Sound = c.whole.DurationMS, c.whole.Flags, c.sound
	l.Doubts = c.whole.Doubts[:min(len(c.whole.Doubts), maxDoubts)]
	if score := c.whole.Score(); score < 1 {
		l.Score = &score
	}
	if len(c.whole.Segments) == 0 && l.Outcome == Done {
		l.Outcome, l.Reason = NoSpeech, "nobody speaks in it"
	}
	if did, err = g.put(l, c, old); err != nil {
		return did, err
	}
	g.lines[l.key()] = l
	return did, nil
}

// check compares a line's outputs with the files.
func (g *Gatherer) check(l *Line) (missing bool, edited int, err error) {
	for _, o := range l.Outputs {
		digest, err := digestOf(g.folder.root, string(o.Path))
		switch {
		case errors.Is(err, errNoFile):
			missing = true
		case err != nil:
			return missing, edited, err
		case digest != o.SHA256:
			edited++
		}
	}
	return missing, edited, nil
}

// put writes a film's outputs under its name, or under its next one where
// something that is not this film's is in the way. What old, which was made from
// the same results, has and somebody edited is left alone.
func (g *Gatherer) put(l *Line, c *contents, old *Line) (did deed, err error) {
	k := l.key().film()
	name, tried, flat := g.names.of[k], map[string]bool{}, false
	for name != "" {
		did, err = g.putAs(name, l, c, old)
		if err == nil {
			g.names.of[k], l.Name = name, inventory.Path(name)
			g.keep(l)
			return did, nil
		}
		blocked := isBlocked(err)
		if !blocked && !errors.Is(err, errStranger) {
			return did, err
		}
		tried[name], flat = true, flat || blocked
		name = g.names.next(k, tried, flat)
	}
	return did, fmt.Errorf("no name is free for its outputs: %w", errors.Join(err, errStranger))
}

// keep has a line stay in charge of the outputs of an earlier job under the same
// name that this one has no successors for: an old summary, when the new one failed.
func (g *Gatherer) keep(l *Line) {
	before := g.lines[l.key()]
	if before == nil || before.Name != l.Name {
		return
	}
	for _, o := range before.Outputs {
		if l.output(string(o.Path)) == nil {
			l.Outputs = append(l.Outputs, o)
		}
	}
}

func (g *Gatherer) putAs(name string, l *Line, c *contents, old *Line) (did deed, err error) {
	l.Outputs = nil
	var files []file
	var states []state
	for _, suffix := range suffixes {
		x, ok := c.file(name, suffix)
		if !ok {
			continue
		}
		st, err := g.folder.look(&x)
		if o := old.output(x.path); o != nil && errors.Is(err, errStranger) {
			l.Outputs, did.edited = append(l.Outputs, *o), did.edited+1
			continue
		}
		if err != nil {
			return did, err
		}
		l.Outputs = append(l.Outputs, Output{inventory.Path(x.path), x.digest, x.size})
		if st != same {
			files, states = append(files, x), append(states, st)
		}
	}
	if len(files) == 0 {
		return did, nil
	}
	if err := g.folder.intend(files); err != nil {
		return did, fmt.Errorf("write down what comes: %w", err)
	}
	for i := range files {
		if err := g.folder.write(&files[i], states[i]); err != nil {
			return did, fmt.Errorf("write %q: %w", files[i].path, err)
		}
	}
	did.wrote = true
	return did, g.folder.sync(path.Dir(files[0].path))
}

// unplanned settles what a job that is over never got to.
func (g *Gatherer) unplanned() {
	for p, src := range g.sources {
		if _, ok := g.ends[p]; ok {
			continue
		}
		if g.job.State == lease.JobCanceled {
			g.without(src, Canceled, g.job.Reason)
		} else {
			g.without(src, Failed, "the job ended without having planned its work")
		}
		g.ends[p] = g.lines[g.key(&src)].Outcome
	}
}
