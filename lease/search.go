package lease

// MaxQuery is how many bytes the words of a query may have.
const MaxQuery = 1000

// Query asks for what was said in films.
type Query struct {
	// Words are what to look for: words, "phrases", pref*, and AND, OR, NOT and
	// parentheses between them. What stands side by side must all be there.
	Words   string  `json:"words"`
	Film    string  `json:"film,omitempty"`    // of films whose path in the root matches: * any text, ? a character, [a-z] one of these
	Project Project `json:"project,omitempty"` // empty: all that the actor sees
	Limit   int     `json:"limit,omitempty"`   // hits wanted, at most MaxPage; 0: 20
}

// Hit is a segment of a film in which the words were said. StartMS and EndMS are
// on the film's time line.
type Hit struct {
	Project Project  `json:"project"`
	Root    string   `json:"root"`
	Path    string   `json:"path"` // in the root, in its text form
	Shard   ShardID  `json:"shard"`
	StartMS int64    `json:"start_ms"`
	EndMS   int64    `json:"end_ms"`
	Text    string   `json:"text"`
	Marks   [][2]int `json:"marks"` // where in Text the words are: from and to, in bytes
}

// Found answers a Query.
type Found struct {
	Hits   []Hit  `json:"hits"`             // best first
	Looked int    `json:"looked"`           // segments that match and were ranked
	Capped bool   `json:"capped,omitempty"` // more may match: the newest, or those found in time, were ranked alone
	Behind uint64 `json:"behind,omitempty"` // events of the ledger that the index has not followed yet
}
