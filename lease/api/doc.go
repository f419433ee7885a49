// Package api is the wire between a control plane and everybody else: a handler
// over a lease.Control, and a client that is one. What follows is the protocol.
//
// # Requests
//
// HTTP/1.1 or later. Each request but GET /healthz, which answers "ok", carries
//
//	Authorization: Bearer TOKEN
//	Macbatch-Protocol: 1
//
// A request without a known token gets 401 and the same body on every path,
// before its own body is read. Bodies of POST are one JSON value of type
// application/json and are read strictly: unknown, doubled and differently cased
// keys, trailing data, invalid UTF-8 and deep nesting are refused, as is any
// Content-Encoding. Members are those of the types in package lease; fences and
// ids are strings, durations integer nanoseconds, blobs travel as bytes.
//
//	POST /v1/jobs                         Submission → {"id"}
//	GET  /v1/jobs?before=&limit=          → [Job], newest first
//	GET  /v1/jobs/{job}                   → Job
//	POST /v1/jobs/{job}/cancel            {"reason"} → {}
//	GET  /v1/jobs/{job}/shards?after=&limit=&results=1   → [Shard]
//	GET  /v1/events?of=JOB|SHARD&after=&limit=           → [Event]
//	GET  /v1/workers                      → [Worker]
//	GET  /v1/verify                       → [Problem]
//	POST /v1/exchange                     Exchange → Exchanged
//	POST /v1/heartbeat                    Beat → Beaten
//	PUT  /v1/blobs/{digest}               bytes, with Content-Length → {}
//	GET  /v1/blobs/{digest}               → bytes
//
// Lists hold at most lease.MaxPage rows, and fewer when they are large; the next
// page begins after the last row of this one; an empty list is the end.
//
// # Errors
//
// An error is {"error":{"code","message"}}; codes and statuses are those of
// package wire. 404 tells equally of what is not there and of what is not the
// caller's. After 503, outcome_unknown and a broken connection the change may or
// may not have been made: ask again. That is safe for every request: an exchange
// repeated under its number gets the same open grants, a repeated report the
// verdict "duplicate", a repeated upload is skipped, and a submission is repeated
// under its key. 507 changed nothing; try later.
//
// # Limits
//
// Submissions 256 KiB, exchanges 32 MiB and lease.MaxReports reports, heartbeats
// 1 MiB. An exchange waits for work no longer than lease.MaxWait. A request ends
// after a minute, a stream when nothing moves for as long.
//
// # Versions
//
// Routes begin with /v1. A request in a protocol version that is not spoken gets
// 400. Fields may be added to answers within a version only together with a new
// version number, since both sides refuse what they do not know.
package api
