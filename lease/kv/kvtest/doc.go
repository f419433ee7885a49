// Package kvtest holds the suite that every storage engine passes, and a guard
// that watches whether callers keep their side of the contract.
package kvtest
