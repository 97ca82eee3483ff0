// Package egress decides what a sandbox may reach: names and addresses, ports,
// protocols, HTTP requests, for how long and how often. There is one decision
// function, Generation.Decide, and every way in calls it: a packet for a
// synthetic address, a look-up, an HTTP request, CONNECT.
//
// It decides and touches nothing: no socket, no file, no clock of its own. The
// process that holds the network of a sandbox is package egress/netd; the rules
// as an author writes them come from package policy. It needs no kernel.
package egress
