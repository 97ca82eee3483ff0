package container

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/container/keeper"
	"github.com/isolate-run/isolate/plan"
)

// The device of a sandbox with a network: a TUN device in its own network
// namespace, whose other end goes to the supervisor. The sandbox's init makes
// it while it has capabilities; no program can make another one, because it
// has none and sees no /dev/net/tun.
const (
	deviceName = "tun0"
	// deviceMTU and the addresses are those of the other end, package
	// egress/netd: 198.18.0.2 is the sandbox, 198.18.0.1 everything else.
	deviceMTU = 65520
	// deviceChecksums is TUN_F_CSUM of linux/if_tun.h: the other end takes
	// packets without checksums.
	deviceChecksums = 1
)

var (
	insideAddr  = [4]byte{198, 18, 0, 2}
	gatewayAddr = [4]byte{198, 18, 0, 1}
	insideMask  = [4]byte{255, 254, 0, 0}
)

// openLowPorts lets a program serve itself at any port: below 1024, too, none of
// them is of a machine. /proc/sys is not read-only yet.
func openLowPorts(b *keeper.Builder) {
	b.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
}

// networkDevice makes the device and a route to everything through it. tunDir
// is the register of the directory with the node "tun". It returns the register
// of the device's other end.
func networkDevice(b *keeper.Builder, tunDir keeper.Reg, p plan.Plan) keeper.Reg {
	tun := b.CallReg("open the TUN node", unix.SYS_OPENAT, keeper.R(tunDir), keeper.Str("tun"), keeper.Int(unix.O_RDWR|unix.O_CLOEXEC), null)
	b.Call("close the directory of the TUN node", unix.SYS_CLOSE, keeper.R(tunDir))
	if p.HasIPv6() {
		b.Call("choose the index of "+deviceName, unix.SYS_IOCTL, keeper.R(tun), keeper.Int(unix.TUNSETIFINDEX), keeper.Data(uint32le(deviceIndex)))
	}
	b.Call("make "+deviceName, unix.SYS_IOCTL, keeper.R(tun), keeper.Int(unix.TUNSETIFF), keeper.Data(ifreq(uint16le(unix.IFF_TUN|unix.IFF_NO_PI|unix.IFF_VNET_HDR))))
	b.Call("leave checksums out of "+deviceName, unix.SYS_IOCTL, keeper.R(tun), keeper.Int(unix.TUNSETOFFLOAD), keeper.Int(deviceChecksums))
	s := b.CallReg("open a socket for "+deviceName, unix.SYS_SOCKET, keeper.Int(unix.AF_INET), keeper.Int(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), null)
	set := func(step string, request int, value []byte) {
		b.Call(step, unix.SYS_IOCTL, keeper.R(s), keeper.Int(request), keeper.Data(ifreq(value)))
	}
	set("set the address of "+deviceName, unix.SIOCSIFADDR, sockaddr(insideAddr))
	set("set the net mask of "+deviceName, unix.SIOCSIFNETMASK, sockaddr(insideMask))
	set("set the MTU of "+deviceName, unix.SIOCSIFMTU, uint32le(deviceMTU))
	set("bring "+deviceName+" up", unix.SIOCSIFFLAGS, uint16le(unix.IFF_UP|unix.IFF_RUNNING))
	b.Call("set the route", unix.SYS_IOCTL, keeper.R(s), keeper.Int(unix.SIOCADDRT), keeper.Data(defaultRoute()))
	b.Call("close the socket for "+deviceName, unix.SYS_CLOSE, keeper.R(s))
	if p.HasIPv6() {
		addIPv6(b)
	}
	return tun
}

// NetworkFiles is where the sandbox sees what its network process tells it:
// whom to trust.
const NetworkFiles = "/run/isolate"

// networkFiles mounts the directory, read-only for the program, and returns the
// register of a handle by which the supervisor writes: of the mount that the
// program's one covers.
func networkFiles(b *keeper.Builder) keeper.Reg {
	mount(b, "mount tmpfs on "+NetworkFiles, "tmpfs", NetworkFiles, "tmpfs", noDev|unix.MS_NOEXEC, "size=4m,nr_inodes=16,mode=0755")
	dir := b.CallReg("open "+NetworkFiles, unix.SYS_OPENAT, atCwd, keeper.Str(NetworkFiles), keeper.Int(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC), null)
	bind(b, NetworkFiles, NetworkFiles)
	restrict(b, NetworkFiles, "make "+NetworkFiles+" read-only", unix.MS_RDONLY|noDev|unix.MS_NOEXEC)
	return dir
}

// ifreq is struct ifreq: a name and a union.
func ifreq(value []byte) []byte {
	b := make([]byte, 40)
	copy(b, deviceName)
	copy(b[16:], value)
	return b
}

// sockaddr is struct sockaddr_in without a port.
func sockaddr(a [4]byte) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	copy(b[4:], a[:])
	return b
}

// defaultRoute is struct rtentry: everything goes to the gateway.
func defaultRoute() []byte {
	b := make([]byte, 120)
	copy(b[8:], sockaddr([4]byte{}))    // rt_dst
	copy(b[24:], sockaddr(gatewayAddr)) // rt_gateway
	copy(b[40:], sockaddr([4]byte{}))   // rt_genmask
	binary.NativeEndian.PutUint16(b[56:], unix.RTF_UP|unix.RTF_GATEWAY)
	return b
}

func uint16le(v uint16) []byte { return binary.NativeEndian.AppendUint16(nil, v) }
func uint32le(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// takeDevice receives the device's other end, and the directory of its files.
func (b *Sandbox) takeDevice(tape keeper.Tape) error {
	if !b.plan.HasNetwork() {
		return nil
	}
	r, err := answer(b.sock, "sandbox", tape)
	if err != nil {
		return err
	}
	b.Device = r.fd
	if b.Device == nil {
		return bug("no handle of the network device came")
	}
	if !b.plan.Intercepts() {
		return nil
	}
	if r, err = answer(b.sock, "sandbox", tape); err != nil {
		return err
	}
	b.NetworkDir = r.fd
	if b.NetworkDir == nil {
		return bug("no handle of the network's files came")
	}
	return nil
}

// Connections are the TCP connections over the device, as the sandbox's kernel
// has them.
func (b *Sandbox) Connections() ([][2]netip.AddrPort, error) {
	var out [][2]netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} { // a socket of IPv6 may speak IPv4
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", b.pid, table))
		if err != nil {
			return nil, fmt.Errorf("cannot list the connections of a sandbox: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[3] == "0A" { // the heading, and listeners
				continue
			}
			local, ok1 := kernelAddr(f[1])
			remote, ok2 := kernelAddr(f[2])
			if ok1 && ok2 && (local.Addr() == netip.AddrFrom4(insideAddr) || local.Addr() == netip.AddrFrom16(insideAddr6)) {
				out = append(out, [2]netip.AddrPort{local, remote})
			}
		}
	}
	return out, nil
}

// kernelAddr reads "020012C6:01BB", words in the machine's order.
func kernelAddr(s string) (netip.AddrPort, bool) {
	addr, port, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(addr)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), true
}

// tunDir is a directory of this process's with a TUN node that the ids of
// sandboxes may open. It is opened once.
var tunDir = sync.OnceValues(func() (*os.File, error) {
	if os.Geteuid() == 0 {
		// sandboxes have other ids than ours; where only root may open the
		// host's node, a node in a file system of our own does it
		if f, err := ownTUN(); err == nil {
			return f, nil
		}
	}
	const dir = "/dev/net"
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", dir, err)
	}
	if err := unix.Faccessat(fd, "tun", unix.R_OK|unix.W_OK, unix.AT_EACCESS); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot open %s/tun: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir), nil
})

// HasTUN tells why no sandbox can have a network device; nil if it can.
func HasTUN() error {
	_, err := tunDir()
	return err
}

// ownTUN makes a file system that is mounted nowhere, with a TUN node.
func ownTUN() (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, err
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return nil, err
	}
	const node = "tun"
	if err = unix.Mknodat(root, node, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200))); err == nil {
		err = unix.Fchmodat(root, node, 0o666, 0)
	}
	if err == nil {
		err = unix.Fchmodat(root, ".", 0o755, 0)
	}
	if err != nil {
		unix.Close(root)
		return nil, err
	}
	return os.NewFile(uintptr(root), "tun"), nil
}

// network compares the interfaces and routes of a sandbox with a network with
// the plan: its device, loopback, and one way out.
func (c *checker) network() {
	dev, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", c.pid))
	if err != nil {
		c.differ("interfaces cannot be read: %v", err)
		return
	}
	lines := bufio.NewScanner(strings.NewReader(string(dev)))
	have := map[string]bool{}
	for lines.Scan() {
		name, _, found := strings.Cut(lines.Text(), ":")
		if name = strings.TrimSpace(name); !found {
			continue // the heading
		}
		// the kernel may make tunnels of its own, which are down and lead nowhere
		have[name] = true
	}
	if !have["lo"] || !have[deviceName] {
		c.differ("interfaces are %v, want lo and %s", have, deviceName)
	}
	route, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/route", c.pid))
	if err != nil {
		c.differ("routes cannot be read: %v", err)
		return
	}
	for i, line := range strings.Split(strings.TrimSpace(string(route)), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 0 && f[0] != deviceName {
			c.differ("a route leads through %s", f[0])
		}
	}
	c.routes6()
}
