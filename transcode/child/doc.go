// Package child runs one external program as a process group of its own: no
// standard input, a small fixed environment, bounded output, a stall limit, and
// an end that takes the whole group along.
package child
