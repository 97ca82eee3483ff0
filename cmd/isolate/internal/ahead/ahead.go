// Package ahead hands isolate exec, run and shell over to a running server
// before the Go run time starts.
//
// The start of a Go program with this one's libraries takes longer than the
// server needs for the whole run (docs/adr/0007-the-door.md has the figures).
// So this happens before main, in C: as a constructor, like those of package
// container. It looks for the words exec, run and shell
// in the command line, connects to the server's socket, passes the command line and
// descriptors, forwards signals, and exits with the code it is told. It parses
// no flag beyond the few whose meaning it needs and knows nothing of sandboxes.
// Where there is no server, or it is not wanted, main runs as ever, and package
// container begins here with the cell that main is going to need.
//
// Before that it takes variables of libcontainer away that somebody else has
// left in the environment.
//
// The protocol is package client's. It needs Linux (signalfd, SCM_RIGHTS) and
// glibc, whose constructors get the command line; elsewhere it is empty.
package ahead

import "C"
