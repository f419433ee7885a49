// Package api is the wire between a control plane and everybody else: a handler
// over a lease.Control, and a client that is one. This page is the protocol.
//
// # Requests
//
// HTTP/1.1, paths below /v1. Every request carries "Authorization: Bearer TOKEN";
// without a token that is known, every path and method but GET /healthz (which
// answers "ok\n") gets the same 401, and the body is not read. A JSON body has
// "Content-Type: application/json" and at most 256 KiB, a heartbeat 1 MiB, an
// exchange 4 MiB ([MaxBody]). It is read strictly (package wire): an unknown,
// repeated or miscased name refuses the request, as does an unknown or repeated
// query parameter. Content-Encoding is refused. The Host must be a loopback name, one that the server was
// given, or the very address that the connection came to;
// requests that a browser marks as cross-origin are refused.
//
//	method and path                  role              query                body             answer
//	POST /v1/jobs                    submitter                              lease.Submission {"id":JOB}
//	GET  /v1/jobs                    reader            before=JOB limit=N                    {"jobs":[lease.Job…]}
//	GET  /v1/jobs/JOB                reader                                                  lease.Job
//	POST /v1/jobs/JOB/cancel         submitter                              {"reason":TEXT}  204
//	POST /v1/jobs/JOB/retry          submitter                              lease.Selection, lease.Retried
//	                                                                        "after":N
//	POST /v1/pause                   submitter; admin                       {TARGET,          204
//	                                 for all but a job                      "reason":TEXT,
//	                                                                        "for_ns":N}
//	POST /v1/resume                  as for pause                           {TARGET,          204
//	                                                                        "reason":TEXT}
//	GET  /v1/jobs/JOB/shards         reader            after=N limit=N      -                {"shards":[lease.Shard…]}
//	                                                   results=1
//	GET  /v1/jobs/JOB/input          worker, reader    shard=N from=N to=N                   the bytes
//	GET  /v1/events                  reader            of=JOB or JOB/N                       {"events":[lease.Event…]}
//	                                                   after=N limit=N
//	                                                   wait_ns=N
//	GET  /v1/jobs/JOB/why            reader            shard=N                               lease.Why
//	GET  /v1/workers                 reader                                                  {"workers":[lease.Worker…]}
//	GET  /v1/census                  reader                                                  lease.Census
//	POST /v1/search                  reader                                 lease.Query      lease.Found
//	GET  /v1/verify                  admin                                                   {"problems":[lease.Problem…]}
//	POST /v1/prune                   admin                                  {"jobs":[JOB…]}  204
//	GET  /v1/backup                  admin                                                   a tar archive, see package store
//	POST /v1/exchange                worker                                 lease.Exchange   lease.Exchanged
//	                                                                        (or compact)     (likewise)
//	GET  /v1/exchange/stream         worker                                                  101: see A stream of exchanges
//	POST /v1/intend                  worker                                 lease.Intention  204
//	POST /v1/heartbeat               worker                                 lease.Beat       lease.Beaten
//	GET  /v1/projects                any                                                     {"projects":[lease.Scope…]}
//	POST /v1/projects                admin                                  {"project":NAME} 204
//	POST /v1/projects/NAME/close     admin                                                   204
//	POST /v1/projects/NAME/open      admin                                                   204
//	PUT  /v1/projects/NAME/actors/ID admin                                                   204: assigned
//	DELETE …the same                 admin                                                   204: no more
//	GET  /v1/actors                  admin                                                   {"actors":[lease.Identity…]}
//	POST /v1/actors                  admin                                  lease.Actor and  204
//	                                                                        "token":DIGEST
//	POST /v1/actors/ID/revoke        admin                                                   204
//	PUT  /v1/actors/ID/token         admin                                  {"token":DIGEST, 204
//	                                                                        "overlap_ns":N}
//	POST /v1/invitations             admin                                  lease.Invitation lease.Reach
//	POST /v1/join                    guest                                  {"token":DIGEST} lease.Actor
//
// and blobs, which have no address of their own, as a digest is not a right:
//
//	PUT  /v1/jobs/JOB/shards/N/blobs/DIGEST   worker          fence=FENCE   the bytes        204
//	GET  /v1/jobs/JOB/shards/N/blobs/DIGEST   worker, reader                                 the bytes
//	PUT  /v1/projects/NAME/blobs/DIGEST       submitter                     the bytes        204
//
// [Routes] is this table for programs. A role includes those that lease.Actor.May
// says. The role is the first gate only: what a project's actors may see and
// change is decided behind it. An unknown path, a wrong method, an unknown id and
// somebody else's id are one answer, 404.
//
// The bodies are the JSON of the Go types named. A job's id is text such as
// "htb2k-1", a shard's "htb2k-1/3", a fence a decimal number as text, a digest 64
// hexadecimal digits, TARGET one of "job":JOB, "kind":KIND, "worker":NAME and "all":true, an instant RFC 3339 text, a duration (…_ns) an integer of
// nanoseconds. Lists may hold fewer rows than the limit: a page is the last one
// when it is empty.
//
// # Scope
//
// Actors act in the projects they are assigned to, an admin in all; what the role
// and the project allow is decided by how the actor stands when the change is
// made, not when the request came. A blob is read through a shard that refers to
// it: as an input, as its result, as a result it waits for. A worker must hold
// that shard. It uploads under a lease, open or lapsed, whose token it shows in
// the header [LeaseToken]; 409 fenced tells that the lease is over, and its report
// will be told why. Whether bytes are here already is told, by need_blobs and by
// taking an upload unread, only where the project knows them. The token of an
// actor is made by the client; the control plane is told its SHA-256.
//
// # Joining
//
// An invitation makes an actor without a token, and a secret that is used as one:
// for as long as it is good it is that of a guest, who may only join. The guest
// makes the token it will have and tells its SHA-256. The invitation is good for
// that token alone: whoever lost the answer asks again with it, whoever comes later
// with another one is a stranger (401). Its own token, an actor uses as ever.
//
// # Blobs
//
// A blob's length is announced (Content-Length); its last byte makes it count,
// its digest is checked at both ends. An answer that ends early is no answer.
//
// # Lists
//
// A kind that works on a list has an input: a blob of lines, each ended by "\n",
// none empty. A submission names its digest and length; where the blob is not here the
// answer is need_blob: PUT it and submit again. The payload of such a job's grant is the
// job's parameters, and its lines name the range of the input to work on: GET
// input with its shard, from and to, and compare with the range's digest. Without
// shard a reader gets any bytes of the input.
//
// # Reports
//
// An exchange answers with one verdict for each report, in order: accepted,
// duplicate, conflict, stale, invalid (all durable: forget the report),
// need_blobs (upload what is missing, report again) and denied (keep it). The
// digest of an inline result is that of its bytes as they stand in the body:
// results are sent without white space between their tokens. wait_ns is at most
// 20 s; more is taken as 20 s.
//
// # Claims
//
// An exchange with max or extra above 0 claims work, under its request number. max
// and per_kind say what there are free slots for. The rest helps to share the work
// and may be left out: loaded, the models in memory, whose shards go first; paces,
// the time for a thousand units of work of a kind and model at so many slots at once;
// extra, how many shards more to grant ahead, while what is held takes no longer than
// ahead_ns for each slot, of which held_ns, as the time of one slot, is taken. The
// answer to a heartbeat lists in back shards to release if they have not begun, as
// another worker waits for work: they are to be given back by releases, uncounted.
//
// # Labels
//
// A worker's offer may carry labels, NAME=VALUE. A submission may require some: its
// shards, and those that follow from their results, are granted only to workers that
// carry them all. A submission under the same key that requires others is another one.
//
// # Money
//
// A worker opens an intent before it sends what must be paid: POST intend with
// what it may have spent by then, in all, under that fence; 204 says that it is
// durable. Its report, or the release, tells what was spent (cost_nusd, in
// billionths of a US dollar). over_budget: the job's limit is below that for good;
// budget_held: only as long as the intents of others hold the rest. idle: no request
// is under way under this lease. Of leases that all wait idly for what the others
// hold, the last to ask is told over_budget, and the others as soon as it ended.
//
// # Marks
//
// The answers of exchange and heartbeat say how far the store has come: its id,
// epoch, the sequence of its newest durable event, and a proof that only the store
// and its copies can make. A worker keeps the highest it was told (the epoch
// counts before the sequence) of the store it last heard of, across its own
// restarts, and shows it in both requests. A store that is shown a genuine mark of
// its own id beyond where it stands was rolled back, or is an older copy: before
// anything else it raises its epoch above the mark's and ends its open leases. A
// mark of another id, or without a right proof, means nothing to it. A worker
// forgets no report by the verdict of another store than granted the lease.
//
// # The compact exchange
//
// An exchange whose Content-Type is application/vnd.macbatch.exchange says the
// same in fewer bytes and a fraction of the time; its answer is in that form too,
// an error is JSON as ever. The body is a byte 1, and then the fields in the order
// of the Go types, those of Hello and Offer first:
//
//	number            unsigned varint in its shortest form; a signed one as its
//	                  64 bits of two's complement
//	true, false       a byte 1 or 0
//	text, JSON value  its length, then its bytes; an absent value has length 0
//	digest            32 bytes
//	job               8 bytes, big-endian: epoch and counter, 4 each
//	shard             its job, then its number
//	list              its length, then its entries; per_kind is a list of kind and
//	                  number, its kinds ascending
//	lines, mark       0, or 1 and its fields
//
// It is read as strictly: text must be UTF-8, a JSON value valid as in a JSON
// body and without white space between its tokens, and nothing may follow.
//
// # A stream of exchanges
//
// A request of its own costs an exchange more than half of its time. GET
// /v1/exchange/stream with "Connection: Upgrade" and "Upgrade: macbatch-exchange"
// is answered 101 with the same two headers, and from there on the connection, TLS
// or not, carries frames: one of the client, one answer, and so on. The client
// writes nothing before its answer has come whole.
//
//	4 bytes   length of what follows, big-endian
//	1 byte    kind
//	          the body
//
//	kind                from     body
//	1 exchange          client   a compact exchange, of at most [MaxBody]
//	2 exchanged         server   its compact answer
//	3 error             server   instead of one: a status (2 bytes, big-endian), and the JSON of Errors
//	4 error, the last   server   likewise; the server closes the connection
//	5 patience          server   empty: the answer is being made, and still to come
//
// The last error is any on a frame that cannot be read, and 401. Where the actor
// stands, and whose token the stream began with, is looked at for each exchange as
// for a request. Everything else about an exchange is as in POST /v1/exchange: who
// gets no answer asks again, here or there, with the same request number.
//
// Between two frames a server waits 20 to 30 s, and a client keeps a stream for 15 s.
// Patience comes every 10 s; a client gives up after 30 s without a frame, or after
// the 45 s beyond the wait it asked for. A client that goes ends its exchange where
// that waits. A server that stops ends the streams at rest, and the others behind
// the answer they are at.
//
// A client whose stream is refused by another status than 401 and 403, or by
// somebody else, exchanges by requests, and asks for a stream again after a minute. A server has
// up to 1,024; each is one request of its actor for as long as it lives, whatever
// number of exchanges it carries.
//
// # Errors
//
// {"error":{"code":CODE,"message":TEXT}} with the status of the code. The message
// is for people. A code stands for an error of package lease:
//
//	400 malformed         ErrMalformed       cannot be read; never try again
//	401 unauthorized      ErrUnauthorized
//	403 forbidden         ErrForbidden       the role lacks it, or the Host or Origin is strange
//	404 not_found         ErrNotFound        not there, or not the caller's
//	409 key_reused        ErrKeyReused
//	409 need_blob         ErrNeedBlob        upload the input, submit again
//	409 twin              ErrTwin
//	409 fenced, duplicate, conflict, not_allowed, over_budget, budget_held
//	413 too_large         ErrTooLarge        split it
//	422 invalid           ErrInvalid         reads well, cannot be
//	422 digest            ErrDigest          upload again
//	429 busy              ErrBusy            the actor asks too much at once; later
//	500 internal          ErrUnknownOutcome  a fault of the server, in its log
//	502 unreachable       ErrUnreachable     the server is stopping
//	503 outcome_unknown   ErrUnknownOutcome  ask again to learn it
//	507 full              ErrFull            nothing changed; later
//
// An answer without the protocol's header, or one that cannot be read, is
// somebody else's (a portal, a proxy): ErrUnreachable.
//
// # Beside
//
// /v1/files and /v1/batches, and all below them, are another protocol's, for the
// same actors: package lease/api/openai.
//
// # Trying again
//
// The client tries nothing again by itself, but for what net/http does with a
// GET on a kept connection that turned out dead. A kept stream that the other end
// has closed is passed over; one that turns out dead in use is ErrUnreachable, and
// drops those kept beside it. Callers try again after
// ErrUnreachable, ErrUnknownOutcome and ErrFull, after a wire.Backoff. All is
// safe to repeat: a submission by its key, an exchange by its request number and
// its reports by fence and digest, the rest because it says what shall be.
//
// # Time
//
// A body and an answer may stand still for 30 s and must on the whole move at 16
// KiB/s. While an answer is being made, who sent the protocol's header is told so
// every 5 s by "102 Processing" (behind the body, where it sent Expect): a client that
// hears neither that nor an answer for 20 s (10 min for a verification), or no
// further bytes for 25 s, takes the connection for dead.
// A stream has times of its own.
//
// # Limits
//
// An actor has at most 512 requests under way, 2,000 a second on the long run, 32
// MiB of JSON bodies being read, and 512 connections; of connections on which no
// token was shown yet there are at most 256. Where there are more, the one that
// was opened first is cut.
//
// # Versions
//
// Both ends of this package send "Macbatch-Protocol: 1". A request with another version is
// malformed, one without is taken as this version. Readers are strict, so every
// new field, route or value of an enumeration is a new version. The recipe: raise
// [Protocol], let the handler accept the former version too and leave out of its
// answers what that version lacks, and keep testdata/protocol.golden of both.
package api
