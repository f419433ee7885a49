package lease

// Selection is what of a job to do again. A zero one is all that failed or was
// canceled; else it is the items and shards named.
type Selection struct {
	Items  []uint32 `json:"items,omitempty"`  // their failed shards; of an item that is done, all of it
	Shards []uint32 `json:"shards,omitempty"` // by number; a superseded one stands for what superseded it
	// Resend takes in what sent a paid request and never told its outcome: it may be
	// paid twice. Parked shards among it go back into the queue as they are.
	Resend bool `json:"resend,omitempty"`
	// With names the engine or model that is to do it instead; "": the one before. It
	// is for kinds whose planner knows how.
	With string `json:"with,omitempty"`
}

// Retried tells what a page of a retry did.
type Retried struct {
	Added int `json:"added"`          // new shards
	Found int `json:"found"`          // items or shards that were meant
	Busy  int `json:"busy,omitempty"` // of these: work on them is under way
	Lost  int `json:"lost,omitempty"` // of these: their input is gone, and nothing here brings it again

	Resent  int `json:"resent,omitempty"`  // of these: parked shards that are in the queue again
	Unknown int `json:"unknown,omitempty"` // of these: left alone, for a paid request of theirs has an unknown outcome

	// Next is the number after which the rest of the job is still to be looked
	// at; 0: nothing is.
	Next uint32 `json:"next,omitempty"`
}
