package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCanonicalName(t *testing.T) {
	for in, want := range map[string]Name{
		"allowed.example": "allowed.example", "ALLOWED.Example.": "allowed.example", "a_b.c-d.example": "a_b.c-d.example",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "x": "x", "1.example": "1.example",
		strings.Repeat("a", 63) + ".example": Name(strings.Repeat("a", 63) + ".example"),
	} {
		if got, err := CanonicalName(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	// D 29, 30, 31, 35, 37
	for _, in := range []string{
		"", ".", "..", "a..b", "allowed.example..", ".a", "a b", "a%00b", "a%2eb", "a/b", `a\b`, "a@b", "a:b",
		"evil.example\x00.allowed.example", "a\r\nb", "bücher.example", "\u212aelvin.example", // the Kelvin sign folds to k
		"127.1", "0177.0.0.1", "2130706433", "0x7f000001", "0x", "169.254.43518", "0xa9fe.0xa9fe", "1", "a.1", "a.0x1", "a.0xzz", "[::1]",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "aaa", "fe80::1%eth0",
	} {
		if got, err := CanonicalName(in); err == nil {
			t.Errorf("%q: got %q, want an error", in, got)
		}
	}
}

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3.4": "1.2.3.4", "[::1]": "::1", "::1": "::1", "a.example": "a.example",
	} {
		if h, err := ParseHost(in); err != nil || h.String() != want {
			t.Errorf("%q: got %v, %v", in, h, err)
		}
	}
	for _, in := range []string{"[1.2.3.4]", "fe80::1%lo", "[fe80::1%lo]", "127.1", "1.2.3.4.", "01.2.3.4", "[a.example]", ""} {
		if h, err := ParseHost(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, h)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"w.example", []string{"w.example"}, []string{"a.w.example", "xw.example", "w.example.evil.test"}},
		{"*.w.example", []string{"a.w.example"}, []string{"w.example", "a.b.w.example", "aw.example", "a.w.example.evil"}},
		{"**.w.example", []string{"a.w.example", "a.b.w.example"}, []string{"w.example", "aw.example"}},
		{"bücher.example", []string{"xn--bcher-kva.example"}, nil},
		{"a.internal", []string{"a.internal"}, nil},
		{"**.corp.internal", nil, []string{"a.corp.internal"}},
		{"host", []string{"host"}, nil},
	} {
		p, err := parsePattern(c.pattern, publicSuffixRefused)
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		for _, n := range c.yes {
			if !p.matches(Name(n)) {
				t.Errorf("%q does not match %q", c.pattern, n)
			}
		}
		for _, n := range c.no {
			if p.matches(Name(n)) {
				t.Errorf("%q matches %q", c.pattern, n)
			}
		}
	}
}

// D 34
func TestBadPatterns(t *testing.T) {
	for _, s := range []string{"*", "*.*", "*.com", "*.github.io", "*.co.uk", "b.*", "a*b.c", "", "x:y", "a/b", "**", "**.", "*.", "*.1.2", "127.1"} {
		if _, err := parsePattern(s, publicSuffixRefused); err == nil {
			t.Errorf("%q is taken", s)
		}
		if bad := (Policy{Mode: ModeRestricted, Rules: []Rule{{Name: s}}}).Check(); len(bad) != 1 || bad[0].Hint == "" || !strings.Contains(bad[0].What, s) {
			t.Errorf("%q: got %+v, want one problem that names it", s, bad)
		}
	}
	if bad := (Policy{Mode: ModeRestricted, Rules: []Rule{{Name: "*.github.io", PublicSuffix: true}}}).Check(); bad != nil {
		t.Errorf("with consent: %v", bad)
	}
}

// D 38, 39, 41, 46
func TestClassify(t *testing.T) {
	f := Floor{Host: []netip.Addr{netip.MustParseAddr("8.0.0.1"), netip.MustParseAddr("2600::1")}, Exempt: prefixes("198.18.0.0/16")}
	for in, want := range map[string]Class{
		"9.9.9.9": ClassPublic, "2620:fe::fe": ClassPublic, "8.0.0.1": ClassHost, "2600::1": ClassHost,
		"169.254.169.254": ClassMetadata, "169.254.170.2": ClassMetadata, "100.100.100.200": ClassMetadata, "168.63.129.16": ClassMetadata,
		"192.0.0.192": ClassMetadata, "fd00:ec2::254": ClassMetadata, "fd20:ce::254": ClassMetadata, "fd00:42::42": ClassMetadata,
		"127.0.0.1": ClassLoopback, "127.9.9.9": ClassLoopback, "::1": ClassLoopback, "0.0.0.0": ClassReserved, "::": ClassReserved, "0.1.2.3": ClassReserved,
		"169.254.1.1": ClassLinkLocal, "fe80::1": ClassLinkLocal, "fec0::1": ClassLinkLocal, "224.0.0.1": ClassMulticast, "255.255.255.255": ClassMulticast, "ff02::1": ClassMulticast,
		"10.0.0.5": ClassPrivate, "172.31.0.1": ClassPrivate, "192.168.1.1": ClassPrivate, "100.64.0.1": ClassPrivate, "fd00::1": ClassPrivate,
		"192.0.2.1": ClassReserved, "198.51.100.1": ClassReserved, "203.0.113.1": ClassReserved, "198.19.0.1": ClassReserved, "198.18.0.1": ClassPublic,
		"240.0.0.1": ClassReserved, "2001:db8::1": ClassReserved, "100::1": ClassReserved, "4000::1": ClassReserved,
		"::ffff:169.254.169.254": ClassEmbedded, "64:ff9b::a9fe:a9fe": ClassEmbedded, "2002:a9fe:a9fe::": ClassEmbedded, "::7f00:1": ClassEmbedded,
		"64:ff9b:1::808:808": ClassEmbedded, "2001:0:1::1": ClassEmbedded, "2600::5efe:a00:1": ClassEmbedded, "::ffff:0:7f00:1": ClassEmbedded,
		"::ffff:10.0.0.1": ClassEmbedded, "64:ff9b::909:909": ClassPublic, "::ffff:9.9.9.9": ClassPublic,
	} {
		if got := f.Classify(netip.MustParseAddr(in)); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	if got := f.Classify(netip.MustParseAddr("fe80::1%lo")); got == ClassPublic {
		t.Error("an address with a zone is public")
	}
	if got := f.Classify(netip.Addr{}); got == ClassPublic {
		t.Error("no address is public")
	}
}

// Whatever IPv4 address is not public is not public in any IPv6 clothes.
func FuzzEmbedded(f *testing.F) {
	f.Add(uint32(0x7f000001))
	f.Add(uint32(0xa9fea9fe))
	f.Fuzz(func(t *testing.T, v uint32) {
		v4 := netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
		inner := Floor{}.Classify(v4)
		b := v4.As4()
		for _, head := range []string{"::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"} {
			a := netip.MustParseAddr(head).As16()
			copy(a[12:], b[:])
			if got := (Floor{}).Classify(netip.AddrFrom16(a)); got == ClassPublic && inner != ClassPublic {
				t.Fatalf("%s in %s is public, alone %s", v4, netip.AddrFrom16(a), inner)
			}
		}
	})
}

func FuzzCanonicalName(f *testing.F) {
	for _, s := range []string{"a.example", "127.1", "0x7f.1", "A..b", "a\x00b", "xn--a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := CanonicalName(s)
		if err != nil {
			return
		}
		again, err := CanonicalName(string(n))
		if err != nil || again != n {
			t.Fatalf("%q becomes %q, that %q, %v", s, n, again, err)
		}
		if _, err := netip.ParseAddr(string(n)); err == nil {
			t.Fatalf("%q is an address and a name", n)
		}
		if strings.ToLower(strings.TrimSuffix(s, ".")) != string(n) {
			t.Fatalf("%q became another name: %q", s, n)
		}
	})
}
