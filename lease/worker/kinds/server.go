package kinds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"macbatch/lease"
	"macbatch/lease/pipeline"
	"macbatch/lease/worker"
	"macbatch/summarize/model"
	"macbatch/transcode"
)

// Server is a server of models under the tier that jobs ask for it by.
type Server struct {
	Tier   string
	Engine string // what it speaks, such as ollama
	Paid   bool   // costs money: for jobs that name its tier alone
	Price  Price  // of one that is paid
	// Parallel is how many requests it is sent at once; 0: one by each shard.
	Parallel int
	model.Runtime

	mu     sync.Mutex
	models []model.Model // as of the last look
	looked time.Time     // when that began; zero: it failed
	until  time.Time     // it is left alone until then
	full   int           // how often in a row it said that it is full
	lanes  lanes
}

// lookWithin bounds a look at which models there are.
const lookWithin = 10 * time.Second

// lookAge is for how long a look is good enough to begin with. Whether a model was
// the same all the time is seen when a shard is done: a look that is newer decides.
const lookAge = time.Minute

// look asks the server for its models.
func (s *Server) look(ctx context.Context) ([]model.Model, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, model.Errorf(model.ErrStalled, "no list of models within %v", lookWithin))
	defer cancel()
	began := time.Now()
	models, err := s.Models(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.looked = time.Time{}
		return nil, err
	}
	s.models, s.looked = models, began
	return models, nil
}

// lately are the models as of a look that is not old.
func (s *Server) lately(ctx context.Context) ([]model.Model, error) {
	s.mu.Lock()
	models, looked := s.models, s.looked
	s.mu.Unlock()
	if !looked.IsZero() && time.Since(looked) < lookAge {
		return models, nil
	}
	return s.look(ctx)
}

// known are the models as of the last look.
func (s *Server) known() []model.Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models
}

// rest leaves the server alone for as long as it asked, or else longer each time.
// All shards that use it wait.
func (s *Server) rest(asked time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := asked
	if d <= 0 {
		limit := min(time.Second<<min(s.full, 5), 30*time.Second)
		d = limit/2 + rand.N(limit/2)
	}
	s.full++
	if t := time.Now().Add(d); t.After(s.until) {
		s.until = t
	}
}

// answered ends the row of refusals.
func (s *Server) answered() {
	s.mu.Lock()
	s.full = 0
	s.mu.Unlock()
}

// wait waits until the server may be asked; it returns how long that would be,
// when it is longer than most.
func (s *Server) wait(ctx context.Context, most time.Duration) (left time.Duration, err error) {
	for {
		s.mu.Lock()
		left = time.Until(s.until)
		s.mu.Unlock()
		if left <= 0 || left > most {
			return max(0, left), nil
		}
		most -= left
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Look makes the servers tell their models. What is not there now may come later.
func (t *Tools) Look(ctx context.Context) error {
	errs := make([]error, len(t.Servers))
	var all sync.WaitGroup
	for i, s := range t.Servers {
		all.Go(func() {
			if _, err := s.look(ctx); err != nil {
				errs[i] = fmt.Errorf("runtime %s: %w", s.Tier, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Models are the speech engines and models that the tools offer now.
func (t *Tools) Models(ctx context.Context) []string {
	_ = t.Look(ctx) // a server that is away keeps what it had: its shards are given back
	return t.models()
}

// Loads tells whether a need is a model's that a server keeps in memory after its
// use, unlike an engine that reads its own for each shard.
func (t *Tools) Loads(need string) bool {
	for _, s := range t.Servers {
		for _, m := range s.known() {
			if !s.Paid && slices.Contains(pipeline.Offers(m.Name, m.Digest, s.Tier), need) {
				return true
			}
		}
	}
	return false
}

func (t *Tools) models() []string {
	var all []string
	for _, tr := range t.Transcribers {
		all = append(all, tr.Name)
	}
	if len(t.Encoders) > 0 {
		all = append(all, pipeline.PresetNeed(transcode.Proxy))
	}
	if t.OCR != nil {
		for _, l := range t.OCR.Languages {
			all = append(all, pipeline.TesseractNeed(l))
		}
	}
	for _, s := range t.Servers {
		for _, m := range s.known() {
			for _, o := range pipeline.Offers(m.Name, m.Digest, s.Tier) {
				if (!s.Paid || strings.HasSuffix(o, "@"+s.Tier)) && !slices.Contains(all, o) {
					all = append(all, o)
				}
			}
		}
	}
	return all
}

// Recheck implements worker.Config.Recheck.
func (t *Tools) Recheck(ctx context.Context, n lease.Need) error {
	if n.Root != "" {
		there, err := os.ReadDir(t.Roots[n.Root])
		if err == nil && len(there) == 0 {
			err = fmt.Errorf("root %q is empty", n.Root)
		}
		return err
	}
	if n.Model == "" || slices.ContainsFunc(t.Transcribers, func(tr Transcriber) bool { return tr.Name == n.Model }) {
		return nil
	}
	if slices.Contains(t.Models(ctx), n.Model) {
		return nil
	}
	return fmt.Errorf("model %q is not there", n.Model)
}

// server finds the server for a shard, and which model it has under the name, by
// what look tells.
func (t *Tools) server(ctx context.Context, p *pipeline.ModelParams, look func(*Server, context.Context) ([]model.Model, error)) (*Server, model.Model, error) {
	lacks := &worker.Released{
		Reason: fmt.Sprintf("model %q is not on this worker", p.Need()), Withdraw: lease.Need{Model: p.Need()},
	}
	for _, s := range t.Servers {
		if p.Tier != s.Tier && (p.Tier != "" || s.Paid) {
			continue
		}
		models, err := look(s, ctx)
		if cause := context.Cause(ctx); cause != nil {
			return nil, model.Model{}, cause
		}
		if err != nil {
			lacks.Reason = fmt.Sprintf("runtime %s: %v", s.Tier, err)
			continue
		}
		for _, m := range models {
			if m.Name == strings.TrimSuffix(p.Model, ":latest") && strings.HasPrefix(m.Digest, p.Digest) {
				return s, m, nil
			}
		}
	}
	return nil, model.Model{}, lacks
}
