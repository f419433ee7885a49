// Package fleet drives the machines of an inventory over the system's own ssh, with its
// configuration, agent and known hosts: it brings them the program, lets them join, and
// has their systems keep a worker running.
//
// # Inventory
//
// A file of TOML. What stands at its top is for hosts that do not say otherwise, but
// for flags, which are for all:
//
//	project = "films"
//	flags   = ["--max-load=8"]            # of serve, beside those that follow
//
//	[[host]]
//	host    = "ann@mini1.local"           # as ssh knows it
//	name    = "mini1"                     # of the worker; made from host otherwise
//	labels  = ["office"]                  # to choose hosts by
//	roots   = { films = "/Volumes/films" }
//	project = "films"
//	flags   = []
//	program = ".local/bin/macbatch"       # where it is kept there, from the home on
//
// # Steps
//
// Each is one command of ssh that runs /bin/sh with a script of this package; what
// differs between hosts comes to it as arguments, quoted for the login shell, or on
// standard input, as do the program and the join string. A program is written beside
// its place, checked there by its SHA-256 and by running it, and put there by rename.
//
// Hosts are driven at the same time, each within a limit of its own: one that is down
// or silent keeps no other.
package fleet
