//go:build linux

package denial

import "strconv"

// families are the names of the address families by number (linux/socket.h).
var families = [...]string{
	"AF_UNSPEC", "AF_UNIX", "AF_INET", "AF_AX25", "AF_IPX", "AF_APPLETALK", "AF_NETROM",
	"AF_BRIDGE", "AF_ATMPVC", "AF_X25", "AF_INET6", "AF_ROSE", "AF_DECnet", "AF_NETBEUI",
	"AF_SECURITY", "AF_KEY", "AF_NETLINK", "AF_PACKET", "AF_ASH", "AF_ECONET", "AF_ATMSVC",
	"AF_RDS", "AF_SNA", "AF_IRDA", "AF_PPPOX", "AF_WANPIPE", "AF_LLC", "AF_IB", "AF_MPLS",
	"AF_CAN", "AF_TIPC", "AF_BLUETOOTH", "AF_IUCV", "AF_RXRPC", "AF_ISDN", "AF_PHONET",
	"AF_IEEE802154", "AF_CAIF", "AF_ALG", "AF_NFC", "AF_VSOCK", "AF_KCM", "AF_QIPCRTR",
	"AF_SMC", "AF_XDP", "AF_MCTP",
}

// types are the names of the socket types by number.
var types = [...]string{
	1: "SOCK_STREAM", 2: "SOCK_DGRAM", 3: "SOCK_RAW", 4: "SOCK_RDM", 5: "SOCK_SEQPACKET",
	6: "SOCK_DCCP", 10: "SOCK_PACKET",
}

// familyName and typeName take the register: the kernel looks at the lower half
// of it, and so do they.

func familyName(reg uint64) string {
	if f := uint32(reg); f < uint32(len(families)) {
		return families[f]
	}
	return "AF_" + strconv.Itoa(int(int32(reg)))
}

func typeName(reg uint64) string {
	t := socketType(reg)
	if t < uint32(len(types)) && types[t] != "" {
		return types[t]
	}
	return "SOCK_" + strconv.Itoa(int(int32(t)))
}
