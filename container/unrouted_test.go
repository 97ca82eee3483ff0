package container

import "testing"

func TestNoRoutes(t *testing.T) {
	const snmp = "Ip: Forwarding OutNoRoutes FragOKs\nIp: 2 7 0\nIcmp: InMsgs\nIcmp: 3\n"
	if n, err := noRoutes4([]byte(snmp)); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	const snmp6 = "Ip6InNoRoutes                   \t1\nIp6OutNoRoutes                  \t9\n"
	if n, err := noRoutes6([]byte(snmp6)); n != 9 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "Ip:\n", "Ip: a OutNoRoutes\nIp: 1\n", "Tcp: OutNoRoutes\nTcp: 1\n"} {
		if n, err := noRoutes4([]byte(bad)); err == nil {
			t.Errorf("%q gives %d", bad, n)
		}
		if n, err := noRoutes6([]byte(bad)); err == nil {
			t.Errorf("%q gives %d", bad, n)
		}
	}
}
