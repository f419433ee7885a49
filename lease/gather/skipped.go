package gather

import (
	"path"
	"strings"

	"macbatch/transcode/inventory"
)

// skip takes over what the scan skipped, instead of what earlier scans of the
// same folder did.
func (g *Gatherer) skip(sub inventory.Path, list []inventory.Skipped) {
	for k, l := range g.lines {
		inside := sub == "" || strings.HasPrefix(string(k.path), string(sub)+"/")
		if k.root == g.root && inside && l.Outcome == Skipped && l.Name == "" {
			delete(g.lines, k)
		}
	}
	g.skipped = nil
	for _, s := range list {
		reason := string(s.Reason)
		if s.Of != "" {
			reason += " as " + text(s.Of)
		}
		if s.Detail != "" {
			reason += ": " + s.Detail
		}
		g.skipped = append(g.skipped, &Line{Source: Source{Root: g.root, Path: s.Path}, Outcome: Skipped, Reason: reason})
	}
}

// skippedLines are the lines of what the scan skipped and no line tells of. Where
// the output folder lies inside the root, its own files are not among them: they
// would make every gathering differ from the one before.
func (g *Gatherer) skippedLines() []*Line {
	within := g.within()
	var own map[string]bool
	if len(within) > 0 {
		own = map[string]bool{manifestName: true}
		for _, l := range g.lines {
			for _, o := range l.Outputs {
				own[string(o.Path)] = true
			}
		}
	}
	var lines []*Line
next:
	for _, l := range g.skipped {
		if g.lines[l.key()] != nil {
			continue
		}
		for dir := range within {
			rest, ok := strings.CutPrefix(string(l.Source.Path), dir)
			if ok && (own[rest] || rest == workDir || strings.HasPrefix(rest, workDir+"/")) {
				continue next
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// within is where in the root the output folder may lie, each with its slash. The
// worker that scanned may be another machine: only the names tell.
func (g *Gatherer) within() map[string]bool {
	within := map[string]bool{}
	for _, l := range g.skipped {
		p := string(l.Source.Path)
		if path.Base(p) == manifestName {
			within[strings.TrimSuffix(p, manifestName)] = true
		}
		if i := strings.Index("/"+p+"/", "/"+workDir+"/"); i >= 0 {
			within[p[:i]] = true
		}
	}
	return within
}
