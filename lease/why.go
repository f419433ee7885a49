package lease

import "time"

// MaxWithdrawn bounds the withdrawals in a heartbeat.
const MaxWithdrawn = 200

// Withdrawal is something that a worker is set up for and does not offer at the
// moment: a kind, a root or a model; with none of them set, everything.
type Withdrawal struct {
	Kind   Kind          `json:"kind,omitempty"`
	Root   string        `json:"root,omitempty"`
	Model  string        `json:"model,omitempty"`
	Reason string        `json:"reason"`
	Age    time.Duration `json:"age_ns,omitempty"`   // for so long
	Again  time.Duration `json:"again_ns,omitempty"` // it is looked at again in so long; 0: not by itself
}

// All reports whether everything is withdrawn: the worker takes no work.
func (w *Withdrawal) All() bool { return w.Kind == "" && w.Root == "" && w.Model == "" }

// Of reports whether what n needs is withdrawn.
func (w *Withdrawal) Of(n Need) bool {
	return w.All() || w.Kind != "" && w.Kind == n.Kind || w.Root != "" && w.Root == n.Root || w.Model != "" && w.Model == n.Model
}

// Why tells in sentences, for people, what keeps a shard from ending.
type Why struct {
	Shard   ShardID    `json:"shard,omitzero"` // zero: of a job of which no shard waits
	Kind    Kind       `json:"kind,omitempty"`
	State   State      `json:"state,omitempty"`
	Text    string     `json:"text"`              // what there is to tell of the shard itself, or of its job
	Workers []WhyThere `json:"workers,omitempty"` // by name; none when no worker can change anything
}

// WhyThere tells why a shard does not run on a worker, or that it does.
type WhyThere struct {
	Worker WorkerID `json:"worker"`
	Text   string   `json:"text"`
}
