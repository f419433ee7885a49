package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

func reportCommand(c *command) *cli.Command {
	return &cli.Command{
		Name:        "report",
		Usage:       "count jobs, shards, leases and results",
		UsageText:   "macbatch report [--json]",
		Description: "It reads only, and counts what is in your projects. Shards and results that a retry superseded are\ncounted apart.",
		Flags:       append(clientFlags(), jsonFlag("print it as one JSON object")),
		Action:      func(x *cli.Context) error { return c.census(x) },
	}
}

func (c *command) census(x *cli.Context) error {
	if _, err := args(x, 0, 0, "no arguments"); err != nil {
		return err
	}
	ctl, err := c.dial(x)
	if err != nil {
		return err
	}
	n, err := ctl.Census(x.Context)
	if err != nil {
		return err
	}
	if x.Bool("json") {
		return printJSON(c.stdout, &n)
	}
	return c.printCensus(&n)
}

func (c *command) printCensus(n *lease.Census) error {
	sections := [][][]string{jobRows(n.Jobs), shardRows(n.Shards)}
	if len(n.Leases) > 0 {
		rows := [][]string{{"WORKER", "LEASES", "LAPSED"}}
		for _, l := range n.Leases {
			rows = append(rows, []string{string(l.Worker), fmt.Sprint(l.Leases), fmt.Sprint(l.Lapsed)})
		}
		sections = append(sections, rows)
	}
	if len(n.Makers) > 0 {
		rows := [][]string{{"RESULTS OF", "ENGINE", "MODEL", "SERVER", "COUNT", "REUSED"}}
		for _, m := range n.Makers {
			rows = append(rows, []string{string(m.Kind), dash(m.Engine), dash(m.Model), dash(m.Server), fmt.Sprint(m.Results), fmt.Sprint(m.Reused)})
		}
		sections = append(sections, rows)
	}
	if len(n.Pauses) > 0 {
		rows := [][]string{{"PAUSED", "SINCE", "BY"}}
		for _, p := range n.Pauses {
			rows = append(rows, []string{p.Target.String(), p.Since.Local().Format(time.DateTime), strings.TrimPrefix(p.String(), "paused by ")})
		}
		sections = append(sections, rows)
	}
	if s := n.Store; s != (lease.StoreFigures{}) {
		rows := [][]string{{"STORE", ""}, {"bytes", fmt.Sprint(s.Bytes)}, {"events", fmt.Sprint(s.Events)}, {"commits", fmt.Sprint(s.Commits)},
			{"blobs", fmt.Sprintf("%d of %d bytes", s.Blobs, s.BlobBytes)}}
		sections = append(sections, rows)
	}
	for i, rows := range sections {
		if i > 0 {
			if _, err := fmt.Fprintln(c.stdout); err != nil {
				return err
			}
		}
		if err := table(c.stdout, rows); err != nil {
			return err
		}
	}
	return nil
}

// jobStates in the order of the table.
var jobStates = []lease.JobState{lease.JobRunning, lease.JobPaused, lease.JobDone, lease.JobPartial, lease.JobFailed, lease.JobCanceled}

func jobRows(jobs []lease.JobCount) [][]string {
	head := []string{"JOBS"}
	for _, s := range jobStates {
		head = append(head, strings.ToUpper(string(s)))
	}
	rows := [][]string{append(head, "ITEMS", "DONE", "FAILED", "REUSED", "WORK DONE", "COST")}
	for _, j := range jobs {
		row := []string{string(j.Kind)}
		for _, s := range jobStates {
			row = append(row, fmt.Sprint(j.Jobs[s]))
		}
		rows = append(rows, append(row, fmt.Sprint(j.Items.Total), fmt.Sprint(j.Items.Done), fmt.Sprint(j.Items.Failed), fmt.Sprint(j.Reused), work(j.Kind, j.Work), dash(bill(&j.Cost))))
	}
	return rows
}

func shardRows(shards []lease.ShardCount) [][]string {
	head := []string{"SHARDS"}
	for _, s := range lease.States {
		head = append(head, strings.ToUpper(s.String()))
	}
	rows := [][]string{append(head, "LAPSED", "SUPERSEDED")}
	for i := range shards {
		s := &shards[i]
		row := []string{string(s.Kind)}
		for _, st := range lease.States {
			row = append(row, fmt.Sprint(*s.Of(st)))
		}
		rows = append(rows, append(row, fmt.Sprint(s.Lapsed), fmt.Sprint(s.Old)))
	}
	return rows
}

// mediaKinds are the kinds of job whose work is counted in milliseconds of film.
var mediaKinds = []lease.Kind{pipeline.Library, pipeline.Transcode}

// work shows how much of a kind's work is done: of films the hours.
func work(k lease.Kind, p lease.Progress) string {
	if slices.Contains(mediaKinds, k) {
		return clock(media(p.Done)) + "/" + clock(media(p.Total))
	}
	return fmt.Sprintf("%d/%d", p.Done, p.Total)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
