// Package model is the boundary to the servers that run models: two calls, Embed
// and Generate, behind one interface, with errors that say what to do next. A
// package below it speaks to one kind of server each.
//
// Errors. Each error of a Runtime is the context's cause or an *Error of one of
// these kinds:
//
//	ErrRefused      this input will never be answered
//	ErrOverflow     … because it is longer than the model's context
//	ErrTruncated    … because the answer was cut before its end
//	ErrNoModel      this server lacks the model; another may have it
//	ErrDenied       this server does not serve us: credential, quota, address
//	ErrBusy         later: the server is full and said so
//	ErrUnavailable  later: the server is away, or broke down
//	ErrStalled      later: the server took the request and fell silent
//	ErrBadAnswer    the answer is not one: empty, too few vectors, no numbers
//
// What comes back is data. Nothing of it is run, fetched or looked up; vectors
// are counted and finite, texts are bounded, a cut text is told as such.
//
// A server that cuts an input and says nothing is found out by its count of tokens
// (CheckWhole).
//
// A Server's address comes from whoever runs the worker and never from a job.
// Plain HTTP goes to loopback addresses only; redirects are not followed.
package model
