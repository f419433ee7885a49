package lines

import (
	"encoding/json"
	"fmt"
	"strconv"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

// result is an item and what became of it.
type result struct {
	job     lease.JobID
	seq     uint32
	number  uint32 // of the item, from 0
	id      string
	batch   bool
	by      *pipeline.Maker
	outcome *pipeline.Outcome
}

// plain is a line of a plain item.
type plain struct {
	ID     string              `json:"custom_id"`
	Output json.RawMessage     `json:"output"`
	Error  *pipeline.ItemError `json:"error"`
	By     maker               `json:"made_by"`
}

// maker is what of a result's maker is each item's own.
type maker struct {
	Engine string `json:"engine,omitempty"`
	Model  string `json:"model,omitempty"`
	Digest string `json:"digest,omitempty"`
	Tier   string `json:"tier,omitempty"`
}

// batched is a line of the Batch API.
type batched struct {
	ID       string              `json:"id"`
	CustomID string              `json:"custom_id"`
	Response *response           `json:"response"`
	Error    *pipeline.ItemError `json:"error"`
}

type response struct {
	Status  int             `json:"status_code"`
	Request string          `json:"request_id"`
	Body    json.RawMessage `json:"body"`
}

func (g *gatherer) write(l *result) error {
	value := l.outcome.Value
	if g.job.Kind == pipeline.Embed && !l.batch && value != nil {
		v, err := pipeline.Vector(value)
		if err != nil {
			return fmt.Errorf("item %d: %w", l.number, err)
		}
		if g.o.NPY {
			if err := g.out.row(l.id, v); err != nil {
				return fmt.Errorf("item %d: %w", l.number, err)
			}
		}
		value = g.embedding(v)
	}
	var line any
	if l.batch {
		b := batched{ID: fmt.Sprintf("batch_req_%v_%d", l.job, l.number), CustomID: l.id, Error: l.outcome.Error}
		if value != nil {
			b.Response = &response{200, fmt.Sprintf("%v/%d", l.job, l.seq), value}
		}
		line = b
	} else {
		line = plain{l.id, value, l.outcome.Error, maker{l.by.Engine, l.by.Model, l.by.Digest, l.by.Tier}}
	}
	to, count := g.out.output, &g.report.Output
	if l.outcome.Error != nil {
		to, count = g.out.errors, &g.report.Errors
	}
	*count++
	return to.json(line)
}

// embedding is the output of a plain embed item.
func (g *gatherer) embedding(v []float32) json.RawMessage {
	b := []byte(`{"embedding":`)
	if g.o.Base64 {
		b = append(b, pipeline.VectorValue(v)...)
	} else {
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
