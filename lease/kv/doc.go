// Package kv is the storage contract of the control plane: one ordered map and
// one append-only log that commit together. It is small enough that an embedded
// file and a replicated cluster can both keep it. Engines are its sub-packages;
// kvtest is the suite each of them must pass, and kvtest.Guard watches callers.
//
// The contract asks of callers: one write per key and transaction, no writing
// while iterating, values left unchanged until the transaction ended, nothing
// kept of what a transaction handed out, no transaction inside another.
//
// Keys are 1 to MaxKey bytes; values and records may be empty. Sequences of the
// log start at 1.
package kv
