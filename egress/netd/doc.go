// Package netd is the process that holds the network of one sandbox: a TCP/IP
// stack on the sandbox's TUN device, a resolver that gives allowed names
// synthetic addresses, and the way out to where those names lead. Everything
// it lets through or refuses is decided by package egress.
//
// It runs as an ordinary process of the user, without capabilities, under a
// seccomp filter and Landlock; it sees no file and starts no program. It does
// not know sandboxes: it gets a device and a configuration (package
// egress/control), and ends when its supervisor does. It needs Linux 5.14; the
// layers of Landlock need 5.13.
package netd
