// Package guard tells when a worker should claim nothing: outside its hours, on
// battery, under load, short of memory. What already runs goes on.
//
// A Check is asked now and then, and answers with the reason to rest, as people
// read it in the list of workers; no reason means that work is welcome. A check
// that can't tell, because the system does not say, is in nobody's way: what can
// be known to be unanswerable is told by the function that makes the check.
package guard

import "context"

// Check returns why no work is to be claimed now; empty: it may be.
type Check func(ctx context.Context) (why string)
