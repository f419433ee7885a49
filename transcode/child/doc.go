// Package child runs one external program as a process group of its own: no
// standard input, a small fixed environment, bounded output, a stall limit, and
// an end that takes the whole group along. A Keeper makes that hold beyond a kill
// of this process: the one after it ends what was left running.
package child
