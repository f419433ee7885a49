// Package kinds is what a worker can do: for each compiled-in kind, the way from
// a shard's payload to the media tools and back to a result. Roots, programs and
// models come from the worker's own configuration only; a payload names them and
// is refused when it names others.
//
// The kinds of lists (embed, classify, generate, ocr, summarize-text) turn the
// lines of a shard into one outcome each. What decides about an item that got no
// answer is what became of the others: a request that fails is made smaller until
// one item is alone, and only when the server did well by some is the rest called
// guilty. A server that does well by none costs an attempt and is withdrawn; one
// that is full, away or lacks the model costs none. A server that is paid is asked
// only while the lease surely holds and within an intent that the control plane
// knows of, which covers what the request costs at most; nothing is asked of it twice.
//
// The items of a shard are asked about together, as many as the server takes at
// once. Shards that began earlier go first: so the report of one is on its way while
// the next one keeps the server busy.
package kinds
