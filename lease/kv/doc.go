// Package kv is the storage contract of the control plane: one ordered map and
// one append-only log that commit together. It is small enough that an embedded
// file and a replicated cluster can both keep it. Engines are its sub-packages;
// kvtest is the suite each of them must pass.
//
// The contract asks of callers: one write per key and transaction, no writing
// while iterating, values left unchanged until the commit.
package kv
