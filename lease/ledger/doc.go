// Package ledger reads the rows and the events of a store and yields what does
// not agree, as typed problems. It repairs nothing, and it shares no code with
// what wrote them: its rules are stated here a second time.
//
// # Checkpoints
//
// A ledger that was cut begins behind its newest checkpoint's cut, with the
// digest of the chain that the checkpoint keeps. Every shard and job that was
// there at the cut has a carried event as its first one behind it, with the row
// as of the cut; that row is the base on which the later events are folded. A
// carried event of which the earlier history is still there must agree with it.
//
// # Memory
//
// Histories are folded in passes over ascending ids. A pass takes what fits, up
// to a limit, and leaves the rest to the next: memory is bounded whatever the
// store holds, and a store below the limit is read once. A history of a shard
// takes about 100 bytes.
//
// # Problems
//
// Their subject is a shard, a job, a project, an actor or the ledger:
//
//	no_creation_event         a shard, job, project or actor without a first event
//	two_terminal_events       a shard that ended twice
//	terminal_without_event    a terminal row whose last event is not one
//	terminal_events_disagree  a row ended otherwise than its last event says
//	event_without_terminal    an ended history of a row that is not terminal
//	fence_not_monotonic       a grant whose fence is not above the one before
//	fence_disagrees           a row with another fence than its last grant
//	ready_after_claim         a ready row whose last event is a grant
//	orphan_events             events of a shard, job, project or actor that is not there
//	leased_without_claim      a leased row whose last event is not a grant
//	done_without_claim        a result under no grant, or not under the newest
//	event_after_terminal      a history that goes on after its end
//	history_gap               events of one of these that are not numbered 1, 2, 3, …
//	row_edited                a row whose bytes are not those its last event left
//	row_unreadable            a row that cannot be decoded
//	event_unreadable          a ledger record that cannot be decoded
//	chain_broken              a record whose digest does not follow from the one before
//	head_disagrees            a ledger that does not end where its head says
//	counts_disagree           a job whose counters are not what its shards add up to
//	result_missing            a done shard without its result's bytes
//	result_edited             a result whose bytes differ from its digest
//	input_missing             a list job without its input
//	input_not_covered         a list job whose shards leave out some of its input, or number its items otherwise
//	shard_without_job         a shard whose job is not there
//	successor_disagrees       a shard that supersedes others by its row or by what is noted only
//	pause_disagrees           a kind or worker that is paused by its row or by its events only
//	carried_disagrees         a carried row that is not what its history says
//	checkpoint_disagrees      a checkpoint that is not where, or does not count what, it should
//	key_missing               a job whose idempotency key leads nowhere, or entries of keys that are gone
//	key_disagrees             an entry that leads to a job of another key or not to the newest, or is not one that was made
//	orphan_key                an entry of a key that leads to a job that is not there
//	reuse_missing             entries of reusable work that are gone
//	reuse_disagrees           an entry that leads to a shard of other work, or is not one that was made
//	orphan_reuse              an entry that leads to a shard that is not there
//	identity_edited           a store whose identity is not the one it was made with
//	end_disagrees             a job that ended without a time, or has one though it is open
//	prune_disagrees           a pruned job that is there, or whose rows nobody is removing
//	more_problems             how many more than the 10,000 listed there are
package ledger
