// Package item reads the lines that a list job works on.
//
// A line is one JSON object with the caller's own custom_id, in one of two forms:
//
//	{"custom_id": "a", "input": "some text"}                  a plain item
//	{"custom_id": "b", "method": "POST", "url": "/v1/embeddings", "body": {…}}
//	                                                          a batch line
//
// A plain item's other fields are what its kind asks for: input (text and prompt
// are the same), image or document (a data URL), and any that a prompt's template
// names. A batch line is what OpenAI's Batch API takes; its body is kept byte for
// byte. One input holds one form only, as its output is of one form.
//
// JSON is read strictly: duplicate names, invalid UTF-8, values nested deeper than
// wire.MaxDepth and anything behind the object are refused, numbers are never
// converted. A custom_id is any text of 1 to MaxID bytes; it never becomes a path.
//
// Copy makes the canonical input of a file: its good lines, byte for byte, each
// ended by "\n". Byte order marks before lines, blank lines, CRLF and a missing last
// line end are tolerated, and are no part of it.
package item
