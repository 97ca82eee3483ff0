// Command isolate-netd holds the network of one sandbox. The library and the
// command isolate start it; it is of no use by hand.
//
// It is a program of its own so that a TCP/IP stack, a resolver and a TLS
// library cost nothing to those who start sandboxes without a network
// (docs/adr/0009-network-process.md). It needs Linux 5.14.
package main

import (
	"fmt"
	"os"

	"github.com/isolate-run/isolate/egress/netd"
)

func main() {
	switch netd.Init() {
	case netd.Done:
		return
	case netd.NotOurs:
		fmt.Fprintln(os.Stderr, "error: cannot run: isolate-netd is started by isolate, not by hand")
	}
	os.Exit(125)
}
