package lease

// Selection is what of a job to do again. A zero one is all that failed or was
// canceled; else it is the items and shards named.
type Selection struct {
	Items  []uint32 `json:"items,omitempty"`  // their failed shards; of an item that is done, all of it
	Shards []uint32 `json:"shards,omitempty"` // by number; a superseded one stands for what superseded it
}

// Retried tells what a page of a retry did.
type Retried struct {
	Added int `json:"added"`          // new shards
	Found int `json:"found"`          // items or shards that were meant
	Busy  int `json:"busy,omitempty"` // of these: work on them is under way
	Lost  int `json:"lost,omitempty"` // of these: their input is gone, and nothing here brings it again

	// Next is the number after which the rest of the job is still to be looked
	// at; 0: nothing is.
	Next uint32 `json:"next,omitempty"`
}
