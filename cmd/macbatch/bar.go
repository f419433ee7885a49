package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

// bar shows how far a job is: one moving line on a terminal, a plain line now and
// then elsewhere.
type bar struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil: plain lines
	began time.Time
	first uint64    // work that was done before this process looked
	at    uint64    // work done; a bar never goes back
	last  string    // plain line printed last
	next  time.Time // when another plain line is due
	job   lease.JobID
}

func (c *command) newBar() *bar {
	b := &bar{w: c.stderr, began: time.Now()}
	if isTerminal(c.stderr) {
		b.bar = progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(c.stderr), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionFullWidth(),
		)
	}
	return b
}

// show brings the display up to date with a job.
func (b *bar) show(j *lease.Job) {
	total := j.Work.Total
	at := min(j.Work.Done+j.Work.Failed+j.Work.Running, total)
	if b.job != j.ID {
		b.job, b.first, b.began, b.at = j.ID, at, time.Now(), 0
	}
	at = max(at, min(b.at, total))
	b.at = at
	noun := "films"
	if pipeline.IsList(j.Kind) {
		noun = "items"
	}
	line := fmt.Sprintf("%d/%d %s", j.Items.Done+j.Items.Failed, j.Items.Total, noun)
	if noun == "items" {
		if left, ok := b.left(at, total); ok {
			line += ", " + clock(left) + " left"
		}
	} else if total == 0 {
		line = "looking for films"
	} else {
		line += fmt.Sprintf(", %s of %s", clock(media(at)), clock(media(total)))
		if left, ok := b.left(at, total); ok {
			line += ", " + clock(left) + " left"
		}
	}
	if b.bar != nil {
		b.bar.ChangeMax64(max(int64(total), 1))
		b.bar.Describe(line)
		_ = b.bar.Set64(int64(at)) // it cannot fail below its maximum
		return
	}
	if now := time.Now(); line != b.last && (now.After(b.next) || j.State.Terminal()) {
		fmt.Fprintln(b.w, line)
		// Ever rarer: a log of days stays readable.
		b.last, b.next = line, now.Add(min(5*time.Minute, max(5*time.Second, now.Sub(b.began)/20)))
	}
}

// left estimates the time to go from the speed since the display began.
func (b *bar) left(at, total uint64) (time.Duration, bool) {
	spent := time.Since(b.began)
	if at <= b.first || spent < 5*time.Second || at >= total {
		return 0, false
	}
	return time.Duration(float64(spent) * float64(total-at) / float64(at-b.first)), true
}

func (b *bar) close() {
	if b.bar != nil {
		_ = b.bar.Clear() // the terminal's loss
	}
}

func media(ms uint64) time.Duration { return time.Duration(ms) * time.Millisecond }
