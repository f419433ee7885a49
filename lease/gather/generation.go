package gather

import (
	"slices"

	"macbatch/lease"
	"macbatch/lease/pipeline"
)

// item is all shards of one item, of every generation.
type item struct {
	shards []*lease.Shard
	newest uint32 // generation
}

func (i *item) add(s *lease.Shard) {
	s.Next, s.Inputs = nil, nil // there may be a great many of them
	if s.Need.Kind != pipeline.Transcode && s.Need.Kind != pipeline.Render {
		s.Payload = nil
	}
	i.shards = append(i.shards, s)
	i.newest = max(i.newest, s.Generation)
}

// current is the film as its outputs are to be made from it: the best of what its
// generations came to, the newest of equals. A failure is told of only when no
// further attempt is under way. Nil: not yet. last tells that nothing will change.
// With only, a generation and 1, it is what that came to and nothing else.
func (i *item) current(only uint32) (best *film, generation uint32, last bool) {
	if only > 0 {
		generation = min(only-1, i.newest)
		if best = i.as(generation); !best.settled() {
			return nil, 0, false
		}
		return best, generation, true
	}
	for g := i.newest; ; g-- {
		f := i.as(g)
		settled := f.settled()
		if g == i.newest {
			last = settled
		}
		if settled && (last || f.rank() > 0) && (best == nil || f.rank() > best.rank()) {
			best, generation = f, g
		}
		if g == 0 {
			return best, generation, last
		}
	}
}

// as is the film of one generation: the shards up to it that none up to it supersedes.
func (i *item) as(generation uint32) *film {
	old := map[uint32]bool{}
	for _, s := range i.shards {
		if s.Generation <= generation {
			for _, seq := range s.Supersedes {
				old[seq] = true
			}
		}
	}
	f := &film{}
	for _, s := range i.shards {
		if s.Generation <= generation && !old[s.ID.Seq] {
			f.add(s)
		}
	}
	if f.summary != nil { // a part that came again has a later number
		place := map[uint32]int{}
		for n, seq := range f.summary.After {
			place[seq] = n
		}
		slices.SortStableFunc(f.parts, func(a, b *lease.Shard) int { return place[a.ID.Seq] - place[b.ID.Seq] })
	}
	return f
}

// rank orders how films end: with all outputs, with some, with none.
func (f *film) rank() int {
	switch o, _ := f.end(); o {
	case Done, NoAudio, NoSpeech, NoImage:
		return 2
	case Partial:
		return 1
	case Failed, Canceled, Skipped:
	}
	return 0
}
