package container

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
)

// deviceIndex is the number of the device in a sandbox with IPv6: the calls that
// give it addresses want one, and the kernel's own choice depends on which
// tunnels it makes in each namespace.
const deviceIndex = 64

// insideAddr6 is 2001:2::c612:2, the sandbox's address beside insideAddr.
var insideAddr6 = [16]byte{0x20, 0x01, 0, 2, 12: 198, 18, 0, 2}

// quietIPv6 says how devices that are made from here on speak IPv6: with the
// addresses they are given, and whatever a router may say. /proc/sys is not
// read-only yet.
func quietIPv6(b *keeper.Builder) {
	for _, setting := range []string{
		"disable_ipv6 0", // where the machine has it off for new devices
		"accept_ra 0", "accept_redirects 0", "autoconf 0", "router_solicitations 0",
		"addr_gen_mode 1", // no address of its own making
	} {
		name, value, _ := strings.Cut(setting, " ")
		b.WriteFile("/proc/sys/net/ipv6/conf/default/"+name, value)
	}
}

// addIPv6 gives the device its address and a route to everything.
func addIPv6(b *keeper.Builder) {
	s := b.CallReg("open a socket for IPv6 of "+deviceName, unix.SYS_SOCKET, keeper.Int(unix.AF_INET6), keeper.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), null)
	b.Call("set the IPv6 address of "+deviceName, unix.SYS_IOCTL, keeper.R(s), keeper.Int(unix.SIOCSIFADDR), keeper.Data(in6Ifreq()))
	b.Call("set the IPv6 route", unix.SYS_IOCTL, keeper.R(s), keeper.Int(unix.SIOCADDRT), keeper.Data(defaultRoute6()))
	b.Call("close the socket for IPv6 of "+deviceName, unix.SYS_CLOSE, keeper.R(s))
}

// in6Ifreq is struct in6_ifreq of linux/ipv6.h: address, length of the prefix,
// device.
func in6Ifreq() []byte {
	b := append([]byte(nil), insideAddr6[:]...)
	b = binary.NativeEndian.AppendUint32(b, 128)
	return binary.NativeEndian.AppendUint32(b, deviceIndex)
}

// defaultRoute6 is struct in6_rtmsg of linux/ipv6_route.h: everything goes to the
// device.
func defaultRoute6() []byte {
	b := make([]byte, 80)
	binary.NativeEndian.PutUint32(b[56:], 1) // rtmsg_metric
	binary.NativeEndian.PutUint32(b[72:], unix.RTF_UP)
	binary.NativeEndian.PutUint32(b[76:], deviceIndex)
	return b
}

// routes6 compares the routes of IPv6: none leads through anything but loopback
// and the device.
func (c *checker) routes6() {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/ipv6_route", c.pid))
	if os.IsNotExist(err) {
		return // a kernel without
	}
	if err != nil {
		c.differ("routes of IPv6 cannot be read: %v", err)
		return
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && f[len(f)-1] != deviceName && f[len(f)-1] != "lo" {
			c.differ("a route of IPv6 leads through %s", f[len(f)-1])
		}
	}
}
