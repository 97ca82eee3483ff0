//go:build linux

package denial

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// answer is what a call gets: the error, and the event when it is refused.
type answer struct {
	errno unix.Errno // passOn lets the call go on
	event Event      // the socket fields; who and when is added by note
	read  bool       // something of the caller's memory was looked at
	class string     // of Summary.ByClass; empty if it is no socket call
}

// decide answers a notification. But for the addresses of connect and sendto it
// looks at registers only, which the caller cannot change while it waits.
func (o Options) decide(n Notification) answer {
	if n.Arch != nativeArch {
		return answer{errno: unix.EPERM} // the filter kills these; never reached
	}
	switch n.Call {
	case unix.SYS_SOCKET:
		e := socketErrno(n.Args)
		if e == unix.ENETUNREACH && o.IP == IPAllowed {
			return answer{errno: passOn}
		}
		return refusedSocket(e, n.Args)
	case unix.SYS_SOCKETPAIR:
		return refusedSocket(pairErrno(n.Args), n.Args)
	case unix.SYS_CONNECT:
		return o.destination(n, n.Args[1], n.Args[2])
	case unix.SYS_SENDTO:
		return o.destination(n, n.Args[4], n.Args[5])
	}
	return answer{errno: unix.EPERM}
}

func refusedSocket(e unix.Errno, args [6]uint64) answer {
	return answer{errno: e, event: Event{Family: familyName(args[0]), Type: typeName(args[1])}, class: ClassKind}
}

// socketErrno is the one error of each refused socket. It is what a kernel
// without that family, type or protocol says, so that programs fall back:
//
//	any family but AF_UNIX, AF_INET, AF_INET6        EAFNOSUPPORT
//	a family with anything in the register's upper half  EAFNOSUPPORT
//	AF_INET, AF_INET6: SOCK_RAW                      EPERM
//	   another type but SOCK_STREAM and SOCK_DGRAM   ESOCKTNOSUPPORT
//	   a protocol but TCP and UDP (ICMP, SCTP, MPTCP) EPROTONOSUPPORT
//	   otherwise, unless Options.IP allows it        ENETUNREACH
//	AF_UNIX: another type                            ESOCKTNOSUPPORT
func socketErrno(args [6]uint64) unix.Errno {
	typ, protocol := socketType(args[1]), uint32(args[2])
	switch args[0] {
	case unix.AF_UNIX:
		return unix.ESOCKTNOSUPPORT
	case unix.AF_INET, unix.AF_INET6:
	default:
		return unix.EAFNOSUPPORT
	}
	switch {
	case typ == unix.SOCK_RAW:
		return unix.EPERM
	case typ != unix.SOCK_STREAM && typ != unix.SOCK_DGRAM:
		return unix.ESOCKTNOSUPPORT
	case protocol == 0,
		typ == unix.SOCK_STREAM && protocol == unix.IPPROTO_TCP,
		typ == unix.SOCK_DGRAM && protocol == unix.IPPROTO_UDP:
		return unix.ENETUNREACH
	}
	return unix.EPROTONOSUPPORT
}

// pairErrno is the same for socketpair, where only AF_UNIX is ever allowed.
func pairErrno(args [6]uint64) unix.Errno {
	if args[0] == unix.AF_UNIX {
		return unix.ESOCKTNOSUPPORT
	}
	return unix.EAFNOSUPPORT
}

// socketType is the type as the kernel reads it: without the flags.
func socketType(reg uint64) uint32 {
	return uint32(reg) &^ (unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC)
}

// The classes of refused socket calls beside those of Options.Classify.
const (
	// ClassKind is a kind of socket, refused when it is made.
	ClassKind = "kind"
	// ClassUnreadable is a destination that is no address of the internet.
	ClassUnreadable = "unreadable"
)

func (o Options) classify(ip netip.Addr) string {
	if o.Classify == nil {
		return "address"
	}
	return o.Classify(ip.Unmap())
}

// unreadable is the Address of an event whose address is not in the caller's
// memory, or is none.
const unreadable = "unreadable"

// destination answers connect and sendto: what stays inside goes on, anything
// else is ENETUNREACH.
//
// To go on means that the kernel reads the address again, and another thread of
// the caller may have written another one since. That is no way out: the
// network namespace has lo and no route, so the kernel answers ENETUNREACH as
// well. The namespace is the barrier; what is decided here is who gets an entry
// in the record. So the record of addresses is best effort against a program
// that takes the trouble, and everything else in this package that relied on
// memory would be wrong.
func (o Options) destination(n Notification, pointer, length uint64) answer {
	a := answer{errno: unix.ENETUNREACH, read: true, event: Event{Address: unreadable}, class: ClassUnreadable}
	raw, err := readMemory(n.TID, pointer, int32(length))
	if err != nil {
		return a
	}
	to, err := decodeAddr(raw)
	if err != nil {
		return a
	}
	if to.family == unix.AF_UNSPEC {
		if n.Call == unix.SYS_CONNECT {
			return answer{errno: passOn, read: true} // dissolves an association
		}
		// UDP takes it for AF_INET in sendto.
		if len(raw) >= unix.SizeofSockaddrInet4 {
			to.family, to.ip = unix.AF_INET, inet4(raw)
		}
	}
	if to.staysInside() || o.routed(to) {
		return answer{errno: passOn, read: true}
	}
	a.event.Family, a.event.Address, a.event.Port = to.text()
	if to.ip.IsValid() {
		a.class = o.classify(to.ip.Addr())
	}
	return a
}

// routed tells whether an address is in a range that has a route.
func (o Options) routed(a addr) bool {
	if a.family != unix.AF_INET && a.family != unix.AF_INET6 {
		return false
	}
	ip := a.ip.Addr().Unmap()
	return slices.ContainsFunc(o.Routed, func(p netip.Prefix) bool { return p.Contains(ip) })
}
