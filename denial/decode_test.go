//go:build linux

package denial

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// encode is struct seccomp_notif.
func encode(n Notification) []byte {
	b := make([]byte, notificationSize)
	binary.NativeEndian.PutUint64(b[0:], n.ID)
	binary.NativeEndian.PutUint32(b[8:], uint32(n.TID))
	binary.NativeEndian.PutUint32(b[16:], uint32(n.Call))
	binary.NativeEndian.PutUint32(b[20:], n.Arch)
	binary.NativeEndian.PutUint64(b[24:], n.IP)
	for i, a := range n.Args {
		binary.NativeEndian.PutUint64(b[32+8*i:], a)
	}
	return b
}

func TestDecode(t *testing.T) {
	want := Notification{ID: 1<<63 | 7, TID: 4242, Call: unix.SYS_SOCKET, Arch: nativeArch, IP: 0x7fff00001234,
		Args: [6]uint64{1<<32 | 2, 3, 4, 5, 6, ^uint64(0)}}
	buf := encode(want)
	for _, b := range [][]byte{buf, append(buf, 1, 2, 3)} { // a later kernel's
		if got, err := Decode(b); err != nil || got != want {
			t.Errorf("Decode of %d bytes gives %+v, %v; want %+v", len(b), got, err, want)
		}
	}
	flagged, negative := encode(want), encode(want)
	flagged[12] = 1
	negative[11] = 0x80
	for name, b := range map[string][]byte{
		"nothing": nil, "a byte less": buf[:notificationSize-1], "much too long": make([]byte, maxNotification+1),
		"flags": flagged, "a negative thread": negative,
	} {
		if n, err := Decode(b); err == nil {
			t.Errorf("Decode takes %s for %+v", name, n)
		}
	}
}

func FuzzDecodeNotification(f *testing.F) {
	f.Add(encode(Notification{ID: 1, TID: 2, Call: 3, Arch: nativeArch}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Decode(b)
		if err != nil {
			return
		}
		if got := encode(n); string(got) != string(b[:notificationSize]) {
			t.Errorf("%x decodes to %+v, which is %x", b, n, got)
		}
		n.TID = 0 // no memory of others
		if a := (Options{}).decide(n); a.errno == passOn {
			t.Errorf("%+v goes on without a look at the address", n)
		} else if unix.ErrnoName(a.errno) == "" {
			t.Errorf("%+v is answered with error %d", n, a.errno)
		}
	})
}

// addrs are addresses, as text to read them by and as they are in memory.
var addrs = map[string]struct {
	raw     string
	family  string
	address string
	port    int
	inside  bool
}{
	"loopback":          {"\x02\x00\x00\x50\x7f\x00\x00\x01" + zeros(8), "AF_INET", "127.0.0.1", 80, true},
	"loopback, other":   {"\x02\x00\x1f\x90\x7f\xff\xff\xfe" + zeros(8), "AF_INET", "127.255.255.254", 8080, true},
	"unspecified":       {"\x02\x00\x00\x50" + zeros(12), "AF_INET", "0.0.0.0", 80, true},
	"next to loopback":  {"\x02\x00\x00\x50\x80\x00\x00\x01" + zeros(8), "AF_INET", "128.0.0.1", 80, false},
	"metadata":          {"\x02\x00\x00\x50\xa9\xfe\xa9\xfe" + zeros(8), "AF_INET", "169.254.169.254", 80, false},
	"broadcast":         {"\x02\x00\xff\xff\xff\xff\xff\xff" + zeros(8), "AF_INET", "255.255.255.255", 65535, false},
	"loopback 6":        {"\x0a\x00\x00\x50" + zeros(4) + zeros(15) + "\x01" + zeros(4), "AF_INET6", "::1", 80, true},
	"loopback 6, short": {"\x0a\x00\x00\x50" + zeros(4) + zeros(15) + "\x01", "AF_INET6", "::1", 80, true},
	"unspecified 6":     {"\x0a\x00\x00\x50" + zeros(24), "AF_INET6", "::", 80, true},
	"mapped loopback":   {"\x0a\x00\x00\x50" + zeros(4) + zeros(10) + "\xff\xff\x7f\x00\x00\x01" + zeros(4), "AF_INET6", "::ffff:127.0.0.1", 80, true},
	"mapped other":      {"\x0a\x00\x00\x50" + zeros(4) + zeros(10) + "\xff\xff\x0a\x00\x00\x01" + zeros(4), "AF_INET6", "::ffff:10.0.0.1", 80, false},
	"compatible":        {"\x0a\x00\x00\x50" + zeros(4) + zeros(12) + "\x7f\x00\x00\x01" + zeros(4), "AF_INET6", "::7f00:1", 80, false},
	"link-local":        {"\x0a\x00\x00\x50" + zeros(4) + "\xfe\x80" + zeros(13) + "\x01\x02\x00\x00\x00", "AF_INET6", "fe80::1", 80, false},
	"path":              {"\x01\x00/tmp/a\x00garbage", "AF_UNIX", "/tmp/a", 0, true},
	"path without NUL":  {"\x01\x00/tmp/a", "AF_UNIX", "/tmp/a", 0, true},
	"abstract":          {"\x01\x00\x00a\x00b", "AF_UNIX", "@a?b", 0, true},
	"no name":           {"\x01\x00", "AF_UNIX", "", 0, true},
	"escape codes":      {"\x01\x00\x1b[2J\xff\n", "AF_UNIX", "?[2J??", 0, true},
	"vsock":             {"\x28\x00" + zeros(14), "AF_VSOCK", "", 0, false},
	"unspecific":        {"\x00\x00" + zeros(14), "AF_UNSPEC", "", 0, false},
	"no family":         {"\xff\x7f", "AF_32767", "", 0, false},
}

func zeros(n int) string { return strings.Repeat("\x00", n) }

func TestDecodeAddr(t *testing.T) {
	for name, c := range addrs {
		family, address, port, err := DecodeAddr([]byte(c.raw))
		if err != nil || family != c.family || address != c.address || port != c.port {
			t.Errorf("%s: %q, %q, %d, %v; want %q, %q, %d", name, family, address, port, err, c.family, c.address, c.port)
		}
		a, _ := decodeAddr([]byte(c.raw))
		if a.staysInside() != c.inside {
			t.Errorf("%s: stays inside is %v, want %v", name, !c.inside, c.inside)
		}
	}
	for _, b := range []string{"", "\x02", "\x02\x00" + zeros(13), "\x0a\x00" + zeros(21), "\x01\x00" + zeros(127)} {
		if family, address, _, err := DecodeAddr([]byte(b)); err == nil {
			t.Errorf("DecodeAddr takes %q for %s %q", b, family, address)
		}
	}
}

func FuzzDecodeAddr(f *testing.F) {
	for _, c := range addrs {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		family, address, port, err := DecodeAddr(b)
		if err != nil {
			if family != "" || address != "" || port != 0 {
				t.Errorf("%x is an error and %q, %q, %d", b, family, address, port)
			}
			return
		}
		if !strings.HasPrefix(family, "AF_") || len(address) > maxText || port < 0 || port > 65535 {
			t.Errorf("%x decodes to %q, %q, %d", b, family, address, port)
		}
		for _, c := range []byte(address) {
			if c < ' ' || c > '~' {
				t.Errorf("%x decodes to %q", b, address)
			}
		}
	})
}

func TestSocketAnswers(t *testing.T) {
	for _, c := range []struct {
		call int
		args [6]uint64
		want unix.Errno
	}{
		{unix.SYS_SOCKET, [6]uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{1<<32 | unix.AF_INET, unix.SOCK_STREAM}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{^uint64(0), unix.SOCK_STREAM}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, unix.EPERM},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_RAW | unix.SOCK_CLOEXEC}, unix.EPERM},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, unix.ESOCKTNOSUPPORT},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_STREAM}, unix.ENETUNREACH},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, unix.ENETUNREACH},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, unix.ESOCKTNOSUPPORT},
		{unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_TIPC, unix.SOCK_STREAM}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, unix.EAFNOSUPPORT},
		{unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, unix.ESOCKTNOSUPPORT},
		{unix.SYS_PTRACE, [6]uint64{}, unix.EPERM},
		{999, [6]uint64{}, unix.EPERM},
	} {
		a := Options{}.decide(Notification{Call: c.call, Arch: nativeArch, Args: c.args})
		if a.errno != c.want {
			t.Errorf("%s(%#x) is answered %v, want %v", callName(c.call), c.args, a.errno, c.want)
		}
	}
	// What is allowed is exactly what would be ENETUNREACH.
	for args, pass := range map[[6]uint64]bool{
		{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}:       true,
		{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP}:         true,
		{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}:       false,
		{1<<32 | unix.AF_INET, unix.SOCK_STREAM}:                   false,
		{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}:            false,
		{unix.AF_UNIX, unix.SOCK_RAW}:                              false,
		{unix.AF_NETLINK, unix.SOCK_DGRAM}:                         false,
		{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP | 1<<32}: false,
	} {
		a := Options{IP: IPAllowed}.decide(Notification{Call: unix.SYS_SOCKET, Arch: nativeArch, Args: args})
		if (a.errno == passOn) != pass {
			t.Errorf("with IP sockets, socket(%#x) is answered %v", args, a.errno)
		}
	}
	// A foreign architecture's numbers mean other calls.
	if a := (Options{}).decide(Notification{Call: unix.SYS_CONNECT, Arch: unix.AUDIT_ARCH_I386}); a.errno != unix.EPERM {
		t.Errorf("a foreign call is answered %v", a.errno)
	}
}
