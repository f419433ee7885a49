// Package wire holds what every HTTP speaker of macbatch has in common: the one
// strict JSON codec, the one table from errors to answers, the one constructor of
// HTTP clients, and beside JSON the compact form of exchanges and the frames they
// travel in.
//
// JSON is read strictly: names are compared byte by byte, a name comes once,
// every name is known, strings are valid UTF-8 without lone surrogates, nothing
// follows the value, and nothing is nested deeper than [MaxDepth]. Durations are
// integer nanoseconds. Raw values keep every byte but the white space between
// tokens: see [Compact].
//
// An error travels as {"error":{"code":"…","message":"…"}} with the status of
// its code. The code stands for a sentinel of package lease, and [ReadError]
// gives that sentinel back, so errors.Is holds on both ends. What is not there
// and what is not the caller's are the same bytes.
package wire
