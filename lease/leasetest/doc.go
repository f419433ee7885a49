// Package leasetest opens control stores for tests: in memory, with a clock of
// their own, and with a verifier that runs when the test ends. TestControl is the
// contract of lease.Control as a test, for the store and for what stands in front
// of it alike.
package leasetest
