package lease

// StoreID is the random identity of a store: 32 hexadecimal digits. A copy of a
// store has it too.
type StoreID string

// Mark says how far a store has come. The control plane tells it with each answer
// to a worker; the worker keeps the highest and shows it with each request, so
// that a store that was rolled back, or is an older copy, learns of it. The zero
// Mark says nothing.
type Mark struct {
	Store StoreID `json:"store"`
	Epoch uint32  `json:"epoch"`
	Seq   uint64  `json:"seq"`   // of its newest durable event
	Proof string  `json:"proof"` // that the store itself said so
}

// Beyond reports whether m is further along than n. Both are of one store.
func (m Mark) Beyond(n Mark) bool {
	return m.Epoch > n.Epoch || m.Epoch == n.Epoch && m.Seq > n.Seq
}

// Foreign reports whether two stores are known and are not the same.
func (s StoreID) Foreign(to StoreID) bool { return s != "" && to != "" && s != to }
