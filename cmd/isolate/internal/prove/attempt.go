package prove

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// deed is how an attempt is made.
type deed string

const (
	connectTo  deed = "connect"  // a stream: connect, say the token, wait for it to come back
	exchange   deed = "exchange" // a connected datagram socket: the same
	sendTo     deed = "sendto"   // one datagram
	sendMsg    deed = "sendmsg"  // one datagram, past the calls that are notified
	makeSocket deed = "socket"   // the socket itself is the attempt
	systemCall deed = "call"     // a system call that is a side door
	callTool   deed = "tool"     // a request through the tool bridge
)

// attempt is one thing that the program tries.
type attempt struct {
	Name string `json:"name"`
	Deed deed   `json:"deed"`
	// Family, Type and Protocol are of the socket, as socket(2) has them.
	Family   int `json:"family,omitempty"`
	Type     int `json:"type,omitempty"`
	Protocol int `json:"protocol,omitempty"`
	// To is where to: an address with a port, or "@" and the name of an abstract
	// socket.
	To string `json:"to,omitempty"`
	// Call is the name of the system call of a side door.
	Call string `json:"call,omitempty"`
	// Token is what is said there.
	Token string `json:"token,omitempty"`
	// Away says that it is for an address of others: it is only tried where no
	// listener was reached.
	Away bool `json:"away,omitempty"`

	expected
}

// expected is what has to come of an attempt in a sandbox. The program is not
// told.
type expected struct {
	errnos []string
	record record
}

// record says what an attempt leaves behind.
type record int

const (
	// nothing: it stays in the sandbox's own network namespace, or is one of the
	// calls that no kernel has to have.
	nothing record = iota
	// listed: with the call, and the address or the kind of socket.
	listed
	// counted: by the sandbox's network, without the address.
	counted
	// called: the records of a tool call.
	called
)

// outcome is what came of an attempt.
type outcome struct {
	Name string `json:"name"`
	// Call is the system call that said so, Errno its error; "" is success.
	Call  string `json:"call"`
	Errno string `json:"errno,omitempty"`
	// Answered says that the token came back.
	Answered bool `json:"answered,omitempty"`
	// Skipped says that it was not tried, see attempt.Away.
	Skipped bool `json:"skipped,omitempty"`
}

// got says whether the attempt succeeded.
func (o outcome) got() bool { return !o.Skipped && o.Errno == "" }

// Addresses of others. Those of documentation (RFC 5737, RFC 3849) are
// nobody's; the metadata service of clouds is where credentials are.
const (
	nobody4  = "192.0.2.1"
	nobody6  = "2001:db8::1"
	metadata = "169.254.169.254"
)

// away are the attempts that need no listener.
func away() []attempt {
	unreachable := expected{[]string{"ENETUNREACH"}, listed}
	to := func(name string, d deed, typ int, ip, port string, e expected) attempt {
		family := unix.AF_INET
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
			family, ip = unix.AF_INET6, "["+ip+"]"
		}
		return attempt{Name: name, Deed: d, Family: family, Type: typ, To: ip + ":" + port, Away: true, expected: e}
	}
	socket := func(name string, family, typ, protocol int, errno string) attempt {
		return attempt{Name: name, Deed: makeSocket, Family: family, Type: typ, Protocol: protocol, expected: expected{[]string{errno}, listed}}
	}
	return []attempt{
		to("TCP", connectTo, unix.SOCK_STREAM, nobody4, "443", unreachable),
		to("TCP, IPv6", connectTo, unix.SOCK_STREAM, nobody6, "443", unreachable),
		to("UDP", sendTo, unix.SOCK_DGRAM, nobody4, "9", unreachable),
		to("UDP, IPv6", sendTo, unix.SOCK_DGRAM, nobody6, "9", unreachable),
		to("UDP by sendmsg", sendMsg, unix.SOCK_DGRAM, nobody4, "7", expected{[]string{"ENETUNREACH"}, counted}),
		to("DNS query", sendTo, unix.SOCK_DGRAM, nobody4, "53", unreachable),
		to("metadata service", connectTo, unix.SOCK_STREAM, metadata, "80", unreachable),
		socket("ICMP, ping socket", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, "EPROTONOSUPPORT"),
		socket("ICMP, raw socket", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, "EPERM"),
		socket("packet socket", unix.AF_PACKET, unix.SOCK_RAW, 0, "EAFNOSUPPORT"),
		socket("vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, "EAFNOSUPPORT"),
		socket("netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, "EAFNOSUPPORT"),
		{Name: "io_uring", Deed: systemCall, Call: "io_uring_setup", expected: expected{[]string{"ENOSYS"}, nothing}},
		{Name: "new network namespace", Deed: systemCall, Call: "unshare", expected: expected{[]string{"EPERM"}, listed}},
		{Name: "mount", Deed: systemCall, Call: "mount", expected: expected{[]string{"EPERM"}, listed}},
		{Name: "tool call", Deed: callTool, expected: expected{record: called}},
	}
}

// noFamily says that the kernel, not isolate, lacks what the attempt needs:
// nothing was refused, and nothing is to be recorded.
func (a attempt) noFamily(o outcome) bool {
	return a.Family == unix.AF_INET6 && a.Deed != makeSocket && o.Call == "socket" && o.Errno == "EAFNOSUPPORT"
}

// kept says whether the outcome is one that a sandbox may have.
func (a attempt) kept(o outcome) bool {
	return slices.Contains(a.errnos, o.Errno) || a.noFamily(o)
}
