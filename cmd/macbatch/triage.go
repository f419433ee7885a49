package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"macbatch/lease"
	"macbatch/lease/gather/survey"
	"macbatch/lease/pipeline"
	"macbatch/lease/wire"
	"macbatch/transcribe"
)

// suspect is a transcript of one stretch of a film that is in doubt.
type suspect struct {
	Shard lease.ShardID `json:"shard"`
	Item  uint32        `json:"item"`
	pipeline.TranscribePayload
	Engine string             `json:"engine"`
	Model  string             `json:"model,omitempty"`
	Score  float64            `json:"score"`  // share of it that is not in doubt
	Doubts []transcribe.Doubt `json:"doubts"` // on the film's time line
}

// suspects calls fn for each current transcript of a job that is in doubt.
func suspects(ctx context.Context, ctl lease.Control, id lease.JobID, fn func(s *suspect) error) error {
	job, err := ctl.Job(ctx, id)
	if err != nil {
		return fmt.Errorf("job %v: %w", id, err)
	}
	if job.Kind != pipeline.Library {
		return usagef("job %v is of kind %s, which has no transcripts", id, job.Kind)
	}
	for after := uint32(0); ; {
		rows, err := ctl.Shards(ctx, id, after, 0, true)
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			row := &rows[i]
			after = row.ID.Seq
			if row.Need.Kind != pipeline.Transcribe || row.State != lease.Done || row.Successor != 0 {
				continue
			}
			var t transcribe.Transcript
			if err := survey.Result(ctx, ctl, row, &t); err != nil {
				return err
			}
			if !t.Has(transcribe.Suspicious) {
				continue
			}
			s := &suspect{Shard: row.ID, Item: row.Item, Engine: t.Engine, Model: t.Model, Score: t.Score(), Doubts: t.Doubts}
			if err := wire.Unmarshal(row.Payload, &s.TranscribePayload); err != nil {
				return fmt.Errorf("payload of shard %v: %w", row.ID, err)
			}
			for i := range s.Doubts {
				s.Doubts[i].FromMS += s.Part.StartMS
				s.Doubts[i].ToMS += s.Part.StartMS
			}
			if err := fn(s); err != nil {
				return err
			}
		}
	}
}

// suspicious lists the doubts of a job's transcripts, a line each.
func (c *command) suspicious(x *cli.Context, ctl lease.Control, id lease.JobID) error {
	at := func(ms int64) string { return clock(time.Duration(ms) * time.Millisecond) }
	rows := [][]string{{"SHARD", "FILM", "FROM", "TO", "DOUBT", "EVIDENCE"}}
	n := 0
	err := suspects(x.Context, ctl, id, func(s *suspect) error {
		if n++; x.Bool("json") {
			return printJSON(c.stdout, s)
		}
		for _, d := range s.Doubts {
			rows = append(rows, []string{s.Shard.String(), string(s.Path), at(d.FromMS), at(d.ToMS), d.Kind, d.Evidence})
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		fmt.Fprintln(c.stderr, "no transcript is in doubt")
		return nil
	case x.Bool("json"):
		return nil
	}
	return table(c.stdout, rows)
}

// doubtful selects the transcripts of a job that are in doubt.
func (c *command) doubtful(x *cli.Context, ctl lease.Control, id lease.JobID) (list []lease.Selection, err error) {
	var shards []uint32
	err = suspects(x.Context, ctl, id, func(s *suspect) error {
		shards = append(shards, s.Shard.Seq)
		return nil
	})
	for part := range slices.Chunk(shards, lease.MaxPage) {
		list = append(list, lease.Selection{Shards: part})
	}
	return list, err
}
