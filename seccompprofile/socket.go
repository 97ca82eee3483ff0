//go:build linux

package seccompprofile

import (
	"slices"

	"golang.org/x/sys/unix"
)

// socketType masks off SOCK_NONBLOCK and SOCK_CLOEXEC.
const socketType = low32 &^ (unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC)

func ofType(v uint64) cond { return bits(1, socketType, v) }

// unixSockets allows AF_UNIX. The family is compared over all 64 bits, so that
// one value is allowed and garbage in the upper half is not it.
func unixSockets() []rule {
	return []rule{
		{[]cond{is(0, unix.AF_UNIX), ofType(unix.SOCK_STREAM)}, pass},
		{[]cond{is(0, unix.AF_UNIX), ofType(unix.SOCK_DGRAM)}, pass},
		{[]cond{is(0, unix.AF_UNIX), ofType(unix.SOCK_SEQPACKET)}, pass},
	}
}

// inetSockets lets TCP and UDP of one family be asked for, by the protocol's
// number or by 0. That leaves out raw sockets, ping sockets (SOCK_DGRAM with
// ICMP), SCTP, MPTCP, UDP-Lite and whatever a module may add. The listener
// passes them and knows from then on that the network namespace is no longer as
// it was made.
func inetSockets(family uint64) []rule {
	return []rule{
		{[]cond{is(0, family), ofType(unix.SOCK_STREAM), isInt(2, 0)}, ask},
		{[]cond{is(0, family), ofType(unix.SOCK_STREAM), isInt(2, unix.IPPROTO_TCP)}, ask},
		{[]cond{is(0, family), ofType(unix.SOCK_DGRAM), isInt(2, 0)}, ask},
		{[]cond{is(0, family), ofType(unix.SOCK_DGRAM), isInt(2, unix.IPPROTO_UDP)}, ask},
	}
}

// urgent refuses MSG_OOB, the operation of CVE-2025-38236. The error is that
// of a kernel without it.
func urgent(flags uint) rule {
	return rule{[]cond{bits(flags, unix.MSG_OOB, unix.MSG_OOB)}, errno(unix.EOPNOTSUPP)}
}

func notUrgent(flags uint) cond { return bits(flags, unix.MSG_OOB, 0) }

func socketSpecials() []special {
	return []special{{
		calls: "socket",
		why: `AF_UNIX, and for loopback TCP and UDP over IPv4 and IPv6: everything else is where the
		kernel bugs of 2026 were (AF_ALG, RXRPC, NETLINK, PACKET, VSOCK, XDP, TIPC, ...)`,
		in:        notStrict,
		rules:     slices.Concat(unixSockets(), inetSockets(unix.AF_INET), inetSockets(unix.AF_INET6)),
		otherwise: record(unix.EAFNOSUPPORT),
	}, {
		calls: "socket",
		why:   "AF_UNIX only",
		in:    onlyStrict,
		rules: slices.Concat(unixSockets(), []rule{
			{[]cond{isInt(0, unix.AF_INET)}, record(unix.ENETUNREACH)},
			{[]cond{isInt(0, unix.AF_INET6)}, record(unix.ENETUNREACH)},
		}),
		otherwise: record(unix.EAFNOSUPPORT),
	}, {
		calls:     "socketpair",
		why:       "AF_UNIX only: asyncio, Node and Rust use it",
		rules:     unixSockets(),
		otherwise: record(unix.EAFNOSUPPORT),
	}, {
		calls:     "connect",
		why:       "the destination is in memory: the listener reads it, passes loopback and records the rest",
		in:        notStrict,
		otherwise: ask,
	}, {
		calls:     "connect",
		why:       "only AF_UNIX sockets exist, and the network namespace bounds their names",
		in:        onlyStrict,
		otherwise: pass,
	}, {
		calls: "sendto",
		why:   "as connect when it carries an address; no urgent data",
		in:    notStrict,
		rules: []rule{
			urgent(3),
			{[]cond{notUrgent(3), isNull(4)}, pass},
			{[]cond{notUrgent(3), notNull(4)}, ask},
		},
	}, {
		calls: "sendto",
		why:   "no urgent data; only AF_UNIX sockets exist",
		in:    onlyStrict,
		rules: []rule{urgent(3), {[]cond{notUrgent(3)}, pass}},
	}, {
		calls: "recvfrom",
		why:   "no urgent data (CVE-2025-38236)",
		rules: []rule{urgent(3), {[]cond{notUrgent(3)}, pass}},
	}, {
		calls: "sendmsg recvmsg",
		why: `no urgent data (CVE-2025-38236). The address of sendmsg is two pointers away and not
		looked at: the network namespace has no route, and its counters tell`,
		rules: []rule{urgent(2), {[]cond{notUrgent(2)}, pass}},
	}}
}
