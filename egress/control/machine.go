package control

import (
	"bufio"
	"bytes"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/isolate-run/isolate/egress"
)

// Machine reads what a configuration says of this machine: the addresses that
// are its own, its resolvers and its own names.
func Machine() Config {
	var c Config
	addrs, _ := net.InterfaceAddrs() // an address that is missed is found when it is dialled
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(n.IP); ok {
			ip = ip.Unmap()
			c.Floor.Host = append(c.Floor.Host, ip)
			if ip.Is6() && (egress.Floor{}).Classify(ip) == egress.ClassPublic {
				c.IPv6 = true
			}
		}
	}
	resolv, _ := os.ReadFile("/etc/resolv.conf")
	c.Resolvers = resolvers(resolv)
	for _, r := range c.Resolvers {
		c.Floor.Host = append(c.Floor.Host, r.Addr())
	}
	hosts, _ := os.ReadFile("/etc/hosts")
	c.Hosts = hostNames(hosts)
	return c
}

// resolvers are the name servers of a resolv.conf; without one, the machine's
// own, as the C library has it.
func resolvers(conf []byte) []netip.AddrPort {
	var out []netip.AddrPort
	lines := bufio.NewScanner(bytes.NewReader(conf))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53))
		}
	}
	if out == nil {
		out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 53))
	}
	return out
}

// hostNames are the names of a hosts file.
func hostNames(file []byte) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(text)
		if len(f) < 2 {
			continue
		}
		a, err := netip.ParseAddr(f[0])
		if err != nil {
			continue
		}
		for _, name := range f[1:] {
			if n, err := egress.CanonicalName(name); err == nil {
				out[string(n)] = append(out[string(n)], a.WithZone(""))
			}
		}
	}
	return out
}

// bundles are where distributions keep the certificates they trust.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Roots is the bundle of certificates that this machine trusts; nil if it has
// none.
func Roots() []byte {
	for _, path := range bundles {
		if b, err := os.ReadFile(path); err == nil {
			return b
		}
	}
	return nil
}
