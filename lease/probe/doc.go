// Package probe qualifies a storage engine on the disk it will live on, with
// real processes: a control plane that serves the real protocol on the loopback,
// workers that are its clients, and this process, which starts them, kills them
// and counts. It passes only when every count is exactly what it must be.
//
// # Scenarios
//
//	concurrent-queue  Workers drain one queue at the same time, one shard at a
//	                  time, the report of each riding on the next claim. Each
//	                  shard must be granted once and end once.
//	kill-and-reclaim  Workers claim everything, tell it through a pipe and wait
//	                  to be killed (SIGKILL); so is the control plane. Before a
//	                  full term nobody may get anything; then others take over,
//	                  and the control plane is killed once more. Every shard must
//	                  be granted exactly twice, every report of the dead must be
//	                  stale, every acknowledged result must be there.
//	power-loss        A store lives in this process, and what each of its commits
//	                  wrote is recorded. Power losses are made from it: unsynced
//	                  writes lost, kept and torn. Each image must open, verify,
//	                  and hold exactly the commits it may hold.
//
// # The parts
//
// A process of a scenario reads one line of JSON on its standard input, which
// says what it is to be, and writes lines of JSON on its standard output. When
// its input ends it ends: whatever becomes of this process, nothing goes on. A
// control plane whose input ends without the word to stop removes its store.
//
// # The model of a power loss
//
// The store's file is compared before and after each commit. bbolt writes data
// pages, syncs, writes one of the two meta pages, syncs, and then the commit is
// acknowledged; a file that must grow was lengthened and synced before that. So
// a loss within the commit leaves the file as it was with any part of the data
// pages, or with all of them and any part of the meta page. A part is any set of
// sectors (512 or 4,096 bytes), and of a meta page also any number of its bytes.
// That syncs are where this says, and that a sync does what it promises, is not
// shown here: the first is tested with the engine, the second is the disk's word.
package probe
