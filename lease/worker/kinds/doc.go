// Package kinds is what a worker can do: for each compiled-in kind, the way from
// a shard's payload to the media tools and back to a result. Roots, programs and
// models come from the worker's own configuration only; a payload names them and
// is refused when it names others.
package kinds
