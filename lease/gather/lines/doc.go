// Package lines writes the results of a list job: one line for each item, in the
// order of the input.
//
//	output.jsonl     the items that have a value
//	errors.jsonl     those that never will
//	vectors.npy      of embed, when asked for: a matrix of float32, a row for each
//	                 line of output.jsonl, as NumPy maps it into memory
//	ids.jsonl        beside it: the custom_id of each row, a JSON string a line
//	manifest.json    {"job", "files": [{"name", "sha256", "bytes"}], "next": […]}
//
// All lines are of one schema. For plain items:
//
//	{"custom_id", "output": {…} | null, "error": {"code", "message"} | null,
//	 "made_by": {"engine", "model", "digest", "tier"}}
//
// and for batch lines that of OpenAI's Batch API:
//
//	{"id", "custom_id", "response": {"status_code", "request_id", "body"} | null,
//	 "error": {"code", "message"} | null}
//
// Items still being worked on have no line yet. The files are streams: none is
// held in memory. They get their names when all of them are whole, in place of
// files that the manifest knows to be of an earlier gathering; others are left
// alone. "next" is what is about to get its name: a gathering that was killed in
// between is known by it to the next one. [Verify] compares a folder with its
// manifest.
package lines
