package main

import (
	"context"
	"errors"
	"fmt"

	"macbatch/lease"
	"macbatch/lease/kv/boltkv"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRunning     = 3 // still running, or paused
	exitPartial     = 4
	exitDenied      = 5 // denied, or not found
	exitUnreachable = 6
	exitProblems    = 7 // verification found problems
)

// exitError carries an exit code that says more than its text, which may be empty.
type exitError struct {
	code int
	msg  string
}

func (e *exitError) Error() string { return e.msg }

// hinted is an error with advice for the person who reads it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

func hint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// about names what was asked for in the answer that it is not there.
func about(err error, format string, args ...any) error {
	if !errors.Is(err, lease.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// report prints an error the way the command does, and returns the exit code.
func (c *command) report(err error) int {
	if err == nil {
		return exitDone
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintln(c.stderr, "macbatch: "+printable(msg))
	}
	var h *hinted
	if errors.As(err, &h) {
		fmt.Fprintln(c.stderr, "macbatch: hint: "+printable(h.hint))
	} else if text := c.advice(err); text != "" {
		fmt.Fprintln(c.stderr, "macbatch: hint: "+printable(text))
	}
	return exitCode(err)
}

// advice is what helps with errors that any command may meet; "" for others.
func (c *command) advice(err error) string {
	switch {
	case errors.Is(err, boltkv.ErrHeld):
		return "it belongs to a command that runs: ask that one, or stop it first"
	case c.asked.url == "":
		return "" // nobody was asked
	case errors.Is(err, lease.ErrUnauthorized):
		return fmt.Sprintf("%s does not know the token in %q", c.asked.url, c.asked.file)
	case errors.Is(err, lease.ErrForbidden):
		return fmt.Sprintf("the token in %q is one of an actor whose role does not include this", c.asked.file)
	case errors.Is(err, lease.ErrBusy):
		return "too much was asked with this token at once; try again"
	case errors.Is(err, lease.ErrUnreachable):
		return "macbatch control must run there; --control or MACBATCH_CONTROL names another"
	}
	return ""
}

func exitCode(err error) int {
	var usage *usageError
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage), errors.Is(err, lease.ErrMalformed), errors.Is(err, lease.ErrInvalid):
		return exitUsage
	case errors.Is(err, lease.ErrNotFound), errors.Is(err, lease.ErrForbidden), errors.Is(err, lease.ErrUnauthorized):
		return exitDenied
	case errors.Is(err, lease.ErrUnreachable), errors.Is(err, lease.ErrUnknownOutcome):
		return exitUnreachable
	case errors.Is(err, context.Canceled), errors.Is(err, boltkv.ErrHeld):
		return exitFailed
	}
	return exitFailed
}

// stateCode is the exit code that tells where a job stands.
func stateCode(s lease.JobState) int {
	switch s {
	case lease.JobDone:
		return exitDone
	case lease.JobPartial:
		return exitPartial
	case lease.JobRunning, lease.JobPaused:
		return exitRunning
	case lease.JobFailed, lease.JobCanceled:
		return exitFailed
	}
	return exitFailed
}

// endError is the error of a command that ends with a job in state s; nil when done.
func endError(s lease.JobState) error {
	if code := stateCode(s); code != exitDone {
		return &exitError{code: code}
	}
	return nil
}
