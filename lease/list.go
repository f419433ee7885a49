package lease

// A list job works on the lines of its input, one item each. The input is one
// blob, uploaded before the job is submitted, and a shard is a range of its
// bytes: a million items cost as many small rows as they make shards, and no
// copy of a line.

// Input is a list input: a blob of lines. Each ends with "\n", none is empty, and
// their bytes are whatever the submitter wrote.
type Input struct {
	Digest Digest `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// Range is consecutive lines of a list input: the bytes From ≤ offset < To.
type Range struct {
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Digest Digest `json:"digest"` // of these bytes
}

// Lines is the work of a list shard, as a grant tells it: Items lines of a job's
// input, of which the first is item First of the job. [Control.Input] opens them.
type Lines struct {
	Input Digest `json:"input"`
	Range
	First uint32 `json:"first"`
	Items uint32 `json:"items"`
}

// Lines returns what a shard of j answers for; nil for one that is no list shard.
func (s *Shard) Lines(j *Job) *Lines {
	if s.Range == (Range{}) {
		return nil
	}
	return &Lines{Input: j.Input.Digest, Range: s.Range, First: s.Item, Items: s.Opens}
}

// Packing says how the lines of an input become shards. A shard has at most Items
// lines and Bytes bytes, but at least one line.
type Packing struct {
	Need  Need
	Items int   // at least 1
	Bytes int64 // at least 1
	Line  int64 // bytes of the longest line that is allowed, its end included
	// Reuse identifies the work but for its lines: kind, parameters, and what else
	// decides a result. Zero when a result is never to be reused.
	Reuse Digest
}

// Acceptance is what a valid result means.
type Acceptance struct {
	Plan   Plan   // the shards that follow from it
	Failed uint32 // items of a list shard whose outcome is an error
	Maker  Maker
	Keeps  []Digest // blobs of its report that stay for as long as the result does
}
