// Package heap decides how much memory the process of a control plane uses.
//
// A small heap is collected often: at the runtime's defaults a control plane with
// few rows in memory spends a quarter of its time on that. Run lets the heap grow
// to a fixed room before it is collected, gives a large heap room in proportion,
// and returns what is free to the system once the process is idle.
package heap
