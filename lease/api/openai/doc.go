// Package openai serves the Batch API of OpenAI beside the protocol, so that its
// clients run their batches here unchanged: with the base URL …/v1 and an actor's
// token as the key.
//
//	POST   /v1/files                 multipart: purpose "batch", file, expires_after
//	GET    /v1/files                 ?purpose, after, limit
//	GET    /v1/files/{file}
//	GET    /v1/files/{file}/content
//	DELETE /v1/files/{file}
//	POST   /v1/batches               {"input_file_id", "endpoint", "completion_window", "metadata"}
//	GET    /v1/batches               ?after, limit
//	GET    /v1/batches/{batch}
//	POST   /v1/batches/{batch}/cancel
//
// Nothing is stored for it but the job. A file is a list input, a batch a list job of
// kind embed or generate that remembers its request, and ids say which:
//
//	file-SHA256        an input, in the form of lease/item
//	file-JOB-output    the lines of a batch that have a response, once it has ended
//	file-JOB-errors    those that have none
//	batch_JOB
//
// What follows from that:
//
//   - The lines are checked when the file is uploaded, all of them: a file with bad
//     lines, or with lines that ask for different calls or models, is refused with
//     the numbers of its lines. No batch is ever "validating", "finalizing" or
//     "failed" afterwards.
//   - The same bytes are the same file, and the same batch asked for twice is one,
//     unless it was canceled or all of it failed. Another "metadata", or another name
//     of the file, makes another.
//   - An uploaded file that no batch uses is gone after a day, or when the control
//     plane restarts. One that a batch uses stays as long as the batch: to delete it
//     answers "deleted": false, as for results.
//   - A file keeps its name, and when it was uploaded, for as long as the control
//     plane runs; a batch remembers its file's name beyond that. "bytes" are those of
//     its lines as they are kept, without a byte order mark, blank lines and carriage
//     returns. "bytes" of results is 0 in lists, where nobody counted them.
//   - "expires_after" of an upload is kept as long: from then on the file is not found,
//     and batches that work on it go on.
//   - Batches do not expire: "completion_window" is taken and answered as "24h", and
//     "expires_at" is the end of it, at which nothing happens.
//   - Lists are newest first: files begin with the inputs uploaded since the control
//     plane started, then come results.
//
// Who asks may what the role allows: to upload, create, cancel and delete takes a
// submitter, to look a reader. The header OpenAI-Project names the project; without
// it a file goes to the first that the actor is assigned to (an admin's: to the
// default one), and is looked for in all of them.
//
// Requests are read leniently: what is not known is ignored. Errors are
//
//	{"error": {"message", "type", "param", "code"}}
//
// with the protocol's codes and statuses, but 400 for what is invalid.
package openai
