// Package load measures the control plane through its whole HTTP API: a store on
// a real disk served by one process, and worker processes that claim and report.
// It is a test binary, so that nothing of it is in the program: its tests are a
// small run, and scripts/bench store is the whole one.
//
// Each process is told its part by a variable of its environment, says that it is
// ready on a line of its standard output, and begins at a line on its standard
// input, so that all begin at once.
package load
