//go:build linux

package denial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// maxAddress is sizeof(struct sockaddr_storage): the kernel refuses more.
const maxAddress = 128

// maxText bounds a text that comes from inside, in bytes.
const maxText = 256

// DecodeAddr reads a struct sockaddr from inside: "AF_INET", "192.0.2.1", 80.
// The address of AF_UNIX is the path, "@" and the name of an abstract one, or
// empty; other families have none. The texts are printable ASCII of at most 256
// bytes whatever b holds.
func DecodeAddr(b []byte) (family, address string, port int, err error) {
	a, err := decodeAddr(b)
	if err != nil {
		return "", "", 0, err
	}
	family, address, port = a.text()
	return family, address, port, nil
}

// addr is a decoded struct sockaddr.
type addr struct {
	family uint16
	ip     netip.AddrPort // of AF_INET and AF_INET6
	path   string         // of AF_UNIX, printable
}

var errShort = errors.New("it is too short for its family")

// decodeAddr wants as many bytes as the kernel wants of the family.
func decodeAddr(b []byte) (addr, error) {
	if len(b) > maxAddress {
		return addr{}, fmt.Errorf("cannot decode address: it has %d bytes, the kernel takes %d", len(b), maxAddress)
	}
	if len(b) < 2 {
		return addr{}, fmt.Errorf("cannot decode address of %d bytes: %w", len(b), errShort)
	}
	a := addr{family: binary.NativeEndian.Uint16(b)}
	switch a.family {
	case unix.AF_INET:
		if len(b) < unix.SizeofSockaddrInet4 {
			return addr{}, fmt.Errorf("cannot decode IPv4 address of %d bytes: %w", len(b), errShort)
		}
		a.ip = inet4(b)
	case unix.AF_INET6:
		// 24: without the scope, as the kernel still takes it (RFC 2133).
		if len(b) < 24 {
			return addr{}, fmt.Errorf("cannot decode IPv6 address of %d bytes: %w", len(b), errShort)
		}
		a.ip = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))
	case unix.AF_UNIX:
		a.path = unixPath(b[2:])
	}
	return a, nil
}

func inet4(b []byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
}

// unixPath is the name of a struct sockaddr_un: up to a NUL, or all of it after
// a leading NUL.
func unixPath(b []byte) string {
	if len(b) > 0 && b[0] == 0 {
		return "@" + printable(b[1:])
	}
	for i, c := range b {
		if c == 0 {
			return printable(b[:i])
		}
	}
	return printable(b)
}

// printable replaces what is not printable ASCII by "?" and cuts at maxText.
func printable(b []byte) string {
	out := make([]byte, min(len(b), maxText))
	for i := range out {
		if out[i] = b[i]; out[i] < ' ' || out[i] > '~' {
			out[i] = '?'
		}
	}
	return string(out)
}

// staysInside tells whether a connection to the address cannot leave the
// network namespace even if it had a route. Linux takes the unspecified address
// of a connect for loopback.
func (a addr) staysInside() bool {
	switch a.family {
	case unix.AF_UNIX:
		return true // a path of the file view, or a name of the namespace
	case unix.AF_INET, unix.AF_INET6:
		ip := a.ip.Addr().Unmap()
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	return false
}

func (a addr) text() (family, address string, port int) {
	family = familyName(uint64(a.family))
	switch a.family {
	case unix.AF_INET, unix.AF_INET6:
		return family, a.ip.Addr().String(), int(a.ip.Port())
	case unix.AF_UNIX:
		return family, a.path, 0
	}
	return family, "", 0
}
