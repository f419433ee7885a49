// Package survey compares what a scan found in a folder with what earlier jobs of a
// project made of it, and estimates what is left to do.
//
// Each file that the scan met is counted once: as new, changed (another content was
// seen under its path), done (its results are there and would be taken over by a job
// with the same parameters), or skipped, with the reason. Times are milliseconds,
// sizes bytes.
//
// Errors: those of lease.Control.
package survey

import (
	"macbatch/lease/pipeline"
	"macbatch/transcode"
	"macbatch/transcode/inventory"
)

// Report is what a job over a folder would find.
type Report struct {
	Root      string         `json:"root"`
	Sub       inventory.Path `json:"sub,omitempty"`
	Found     int            `json:"found"`
	New       int            `json:"new"`
	Changed   int            `json:"changed"`
	Done      int            `json:"done"`
	Skipped   int            `json:"skipped"`
	SkippedBy map[string]int `json:"skipped_by,omitempty"` // reason → files
	Failed    int            `json:"failed_before"`        // of the new ones: unchanged since a job failed on them
	MediaMS   int64          `json:"media_ms"`             // of what is new or changed
	DoneMS    int64          `json:"done_ms"`
	Estimate  Estimate       `json:"estimate"`
}

// Estimate is what a job would take and write.
type Estimate struct {
	TimeMS int64   `json:"time_ms,omitempty"` // 0: not known, or nothing to do
	Speed  float64 `json:"speed,omitempty"`   // media time by time; of all workers together
	Basis  string  `json:"basis"`             // where the speed comes from: the job, or "typical"
	Files  int     `json:"files"`
	Bytes  int64   `json:"bytes"`
}

// Reasons for which a file that a scan took for media is nothing to work on.
const (
	Unusable = "not usable"
	NoSound  = "no sound"
	NoImage  = "no picture"
)

// What is typical where nothing was measured: bytes of outputs for an hour of speech.
const typicalBytes = 1_200_000

// Compare makes the report. files is how many outputs a film has, speed what to
// expect where no earlier job tells; 0: nothing.
func (p *Past) Compare(params *pipeline.LibraryParams, res *inventory.Result, files int, speed float64) Report {
	r := Report{Root: params.Root, Sub: params.Sub, SkippedBy: map[string]int{}}
	skip := func(reason string) {
		r.Skipped++
		r.SkippedBy[reason]++
	}
	for i := range res.Skipped {
		skip(string(res.Skipped[i].Reason))
	}
	for i := range res.Sources {
		s := &res.Sources[i]
		before, known := p.known[s.Path]
		film := p.films[s.Path]
		switch {
		case s.Error != "":
			skip(Unusable)
		case params.Preset != "" && !s.Video:
			skip(NoImage)
		case params.Preset == "" && len(s.Tracks) == 0:
			skip(NoSound)
		case !params.Fresh && film.done && film.id.Same(s.Identity):
			r.Done++
			r.DoneMS += s.DurationMS
		default:
			if known && !before.Same(s.Identity) {
				r.Changed++
			} else {
				r.New++
				if film.failed && film.id.Same(s.Identity) {
					r.Failed++
				}
			}
			r.MediaMS += s.DurationMS
		}
	}
	r.Found = r.New + r.Changed + r.Done + r.Skipped
	r.Estimate = p.estimate(&r, files, speed)
	if params.Preset == transcode.Sheet {
		r.Estimate.Bytes = int64(r.Estimate.Files) * transcode.Estimate(params.Preset, 0) / 2
	} else if params.Preset != "" {
		r.Estimate.Bytes = transcode.Estimate(params.Preset, r.MediaMS) / 2
	}
	return r
}

func (p *Past) estimate(r *Report, files int, speed float64) Estimate {
	e := Estimate{Basis: "typical", Speed: speed, Files: files * (r.New + r.Changed)}
	if p.tookMS > 0 && p.spokenMS > 0 {
		e.Speed, e.Basis = float64(p.spokenMS)/float64(p.tookMS), p.job.String()
	}
	if e.Speed > 0 {
		e.TimeMS = int64(float64(r.MediaMS) / e.Speed)
	}
	perHour := float64(typicalBytes)
	if p.wordsMS > 0 {
		// The JSON holds what was accepted; the other forms are half as much again.
		perHour = 1.5 * float64(p.wordBytes) * 3600_000 / float64(p.wordsMS)
	}
	e.Bytes = int64(perHour * float64(r.MediaMS) / 3600_000)
	return e
}
