package hostile

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// port gives a script the port at which the host listens.
func port(*testing.T) []string { return []string{strconv.Itoa(outside.port)} }

// withSockets are the profiles in which sockets of the internet families exist.
var withSockets = []policy.Profile{policy.ProfileDefault, policy.ProfileCompat}

var networkDenials = []attack{{
	script: "net_connect.c", cases: "A1 A3 A7 B7", layer: byRecorder + "; " + byNetwork,
	attempt: "connect, sendto, sendmsg and bind to outside addresses, metadata service and host loopback",
	source:  "CDK metadata check", args: port, need: []testenv.Feature{testenv.IPv6Loopback},
	answers: `
		connect TCP 192.0.2.1: ENETUNREACH
		connect TCP 169.254.169.254:80: ENETUNREACH
		connect TCP 10.0.0.5: ENETUNREACH
		connect TCP 2001:db8::1: ENETUNREACH
		connect TCP ::ffff:192.0.2.1: ENETUNREACH
		connect UDP 192.0.2.1: ENETUNREACH
		sendto UDP 192.0.2.1: ENETUNREACH
		sendto UDP broadcast: ENETUNREACH
		sendto UDP multicast: ENETUNREACH
		sendto TCP fast open: ENETUNREACH
		sendmsg UDP 192.0.2.1: ENETUNREACH
		sendmsg UDP 2001:db8::1: ENETUNREACH
		sendmsg TCP fast open: ENETUNREACH
		sendmmsg UDP 192.0.2.1: ENOSYS
		connect TCP 127.0.0.1: ECONNREFUSED
		connect TCP 0.0.0.0: ECONNREFUSED
		connect TCP ::1: ECONNREFUSED
		bind TCP 192.0.2.1: EADDRNOTAVAIL
		bind TCP port 80: EACCES`,
	strict: `
		sendmmsg UDP 192.0.2.1: ENETUNREACH
		connect TCP 127.0.0.1: ENETUNREACH
		connect TCP 0.0.0.0: ENETUNREACH
		connect TCP ::1: ENETUNREACH
		bind TCP 192.0.2.1: ENETUNREACH
		bind TCP port 80: ENETUNREACH`,
	recorded:       map[string]int64{"connect": 6, "sendto": 4},
	recordedStrict: map[string]int64{"socket": 19},
}, {
	script: "net_families.c", cases: "B2 A11", layer: byRecorder,
	says:    "families beside AF_UNIX, AF_INET, AF_INET6 `EAFNOSUPPORT`; of those, raw `EPERM`, other types `ESOCKTNOSUPPORT`; strict: `ENETUNREACH` for IPv4 and IPv6",
	attempt: "socket and socketpair over families 0 to 45 and all types",
	source:  "moby AF_ALG commit, flatpak", need: []testenv.Feature{testenv.IPv6Loopback},
	answers: `
		made: 7
		EPERM: 2
		ESOCKTNOSUPPORT: 12
		EAFNOSUPPORT: 301
		ENETUNREACH: 0
		pairs, made: 1
		pairs, EAFNOSUPPORT: 45`,
	strict: `
		made: 3
		ENETUNREACH: 4`,
	recorded:       map[string]int64{"socket": 315, "socketpair": 45},
	recordedStrict: map[string]int64{"socket": 319, "socketpair": 45},
}, {
	script: "net_ping.c", cases: "A5 A11", layer: byRecorder,
	attempt: "ping, raw, packet, netlink, SCTP, MPTCP, AF_ALG, AF_VSOCK, AF_XDP, AF_TIPC and AF_RXRPC sockets",
	source:  "sandlock #40, isolate 2.4",
	answers: `
		ping socket: EPROTONOSUPPORT
		ping socket, IPv6: EPROTONOSUPPORT
		raw ICMP socket: EPERM
		raw IP socket: EPERM
		raw ICMP socket, IPv6: EPERM
		SCTP: EPROTONOSUPPORT
		MPTCP: EPROTONOSUPPORT
		UDP-Lite: EPROTONOSUPPORT
		packet socket: EAFNOSUPPORT
		netlink: EAFNOSUPPORT
		AF_ALG: EAFNOSUPPORT
		AF_VSOCK: EAFNOSUPPORT
		AF_XDP: EAFNOSUPPORT
		AF_TIPC: EAFNOSUPPORT
		AF_RXRPC: EAFNOSUPPORT
		AF_KEY: EAFNOSUPPORT
		AF_BLUETOOTH: EAFNOSUPPORT`,
	recorded: map[string]int64{"socket": 17},
}, {
	script: "net_truncation.c", cases: "B3", layer: byRecorder,
	attempt: "socket with garbage in the upper half of its arguments",
	source:  "libseccomp truncation note",
	answers: `
		AF_INET with an upper half: EAFNOSUPPORT
		AF_UNIX with an upper half: EAFNOSUPPORT
		AF_ALG with an upper half: EAFNOSUPPORT
		pair of AF_UNIX with an upper half: EAFNOSUPPORT
		raw socket behind an upper half: EPERM`,
	recorded: map[string]int64{"socket": 4, "socketpair": 1},
}, {
	script: "net_marks.py", cases: "A43", layer: byRecorder + "; " + byNetwork, inTest: "TestNetworkMarks",
	attempt: "connections, counters, groups, flow labels and names in flight left in the network namespace for the next run",
	source:  "our own reuse of network namespaces",
	answers: "what the next run sees: a network as it was made",
}, {
	script: "net_unix.c", cases: "A9 B8", layer: byNetwork + "; " + byView,
	attempt: "Unix sockets of the host: containerd, X11, D-Bus, Docker, systemd",
	source:  "CVE-2020-15257, CDK shim-pwn",
	args:    func(*testing.T) []string { return []string{outside.abstract, outside.path} },
	answers: `
		abstract name of the host: ECONNREFUSED
		path of the host: ENOENT
		@/containerd-shim/x: ECONNREFUSED
		@/tmp/.X11-unix/X0: ECONNREFUSED
		@/tmp/dbus-x: ECONNREFUSED
		/var/run/docker.sock: ENOENT
		/run/containerd/containerd.sock: ENOENT
		/run/dbus/system_bus_socket: ENOENT
		/run/systemd/private: ENOENT
		/tmp/.X11-unix/X0: ENOENT
		/dev/log: ENOENT`,
}, {
	script: "net_oob.c", cases: "B13", layer: byFilter,
	attempt: "urgent data (MSG_OOB) over AF_UNIX", source: "CVE-2025-38236",
	answers: `
		send without MSG_OOB: ok
		recv without MSG_OOB: ok
		send MSG_OOB: EOPNOTSUPP
		send MSG_OOB with an upper half: EOPNOTSUPP
		sendmsg MSG_OOB: EOPNOTSUPP
		sendmsg MSG_OOB with an upper half: EOPNOTSUPP
		recv MSG_OOB: EOPNOTSUPP
		recvmsg MSG_OOB: EOPNOTSUPP
		sendmmsg MSG_OOB: ENOSYS
		recvmmsg MSG_OOB: ENOSYS`,
}, {
	script: "net_configure.c", cases: "B2 A11", layer: byFilter + "; " + byCaps, only: withSockets,
	attempt: "interfaces, routes, bridges, privileged socket options, tun devices",
	source:  "sandlock and nsjail tests",
	answers: `
		SIOCSIFADDR: ENOTTY
		SIOCSIFADDR with an upper half: ENOTTY
		SIOCSIFFLAGS: ENOTTY
		SIOCADDRT: ENOTTY
		SIOCBRADDBR: ENOTTY
		SO_MARK: EPERM
		SO_RCVBUFFORCE: EPERM
		SO_PRIORITY 7: EPERM
		IP_TRANSPARENT: EPERM
		TCP_REPAIR: EPERM
		/dev/net/tun: ENOENT
		/dev/vhost-net: ENOENT`,
}, {
	script: "net_dns.py", cases: "B6", layer: byView + "; " + byRecorder, only: withSockets,
	says:    "no name within a second; `ENETUNREACH`, `ECONNREFUSED`, `ENOENT`",
	attempt: "names by the C library, over UDP, by nscd and systemd-resolved",
	source:  "name look-ups that hang without a network",
	answers: `
		getaddrinfo: no name
		gethostbyname: no name
		gethostbyaddr: no name
		all three, at once: yes
		UDP query outside: ENETUNREACH
		UDP query to the local stub: ECONNREFUSED
		size of resolv.conf: 0
		/var/run/nscd/socket: ENOENT
		/run/systemd/resolve/io.systemd.Resolve: ENOENT`,
	recorded: map[string]int64{"connect": 1},
}, {
	script: "net_socket_x32.c", arch: "amd64", cases: "B4 A49", layer: byFilter, kills: true,
	attempt: "socket by its x32 number", source: "firejail #87, kafel #19",
}, {
	script: "net_urlopen.py", cases: "A1 A7 B1", layer: byRecorder + "; " + byNetwork, inTest: "TestUrlopen",
	attempt: "Python urlopen of an outside address, the host's loopback and a name", source: "piston tests/network",
	answers: "urlopen: ENETUNREACH\nhost loopback: ECONNREFUSED\nname: no name",
}, {
	script: "net_curl.sh", cases: "A1", layer: byRecorder + "; " + byNetwork, inTest: "TestCurl",
	attempt: "curl to an outside address and a name", source: "piston tests/network",
	answers: "curl by address: exit-7\ncurl by name: exit-6",
}, {
	script: "net_node.sh", cases: "A1", layer: byRecorder + "; " + byNetwork, inTest: "TestNode",
	attempt: "Node's fetch of an outside address and a name", source: "piston tests/network",
	answers: "fetch by address: ENETUNREACH\nfetch by name: ENOTFOUND",
}, {
	script: "net_flood.c", cases: "A14 B9", layer: byRecorder + "; " + bySuper, inTest: "TestFlood",
	attempt: "refused calls from fifty threads without end", source: "nsjail #290",
	answers: "record: bounded, counts exact",
}, {
	script: "net_rewrite.c", cases: "A17", layer: byNetwork, inTest: "TestRewrittenAddress",
	attempt: "an address that changes while the supervisor looks at it", source: "sandlock #27",
	answers: "outside: ENETUNREACH\nloopback: ECONNREFUSED",
}, {
	script: "net_killed.c", cases: "A15", layer: byRecorder, inTest: "TestKilledWhileAnswered",
	attempt: "dying while the supervisor answers", source: "bst #113, omegajail #69",
	answers: "after 300 of them: EAFNOSUPPORT",
}}

func TestNetwork(t *testing.T) { runDenials(t, networkDenials) }

// A1, A2, A7, B1: the text a person sees, how fast it comes, the record, and
// what was handed in is still there.
func TestUrlopen(t *testing.T) {
	outside.unreached(t)
	l := newLab(t)
	given := write(t, filepath.Join(tempDir(t), "given.txt"), "from the host\n")
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			c := script(t, "net_urlopen.py", port(t)...)
			c.In = append(c.In, isolate.Input{Source: given})
			res := l.run(t, isolate.Policy{Profile: p}, c)
			refused := "Connection refused"
			if p == policy.ProfileStrict {
				refused = "Network is unreachable"
			}
			compareAnswers(t, answersOf(`
				http outside: Network is unreachable
				http outside, in less than 0.2 s: yes
				https outside: Network is unreachable
				https outside, in less than 0.2 s: yes
				http metadata service: Network is unreachable
				http metadata service, in less than 0.2 s: yes
				http host loopback: `+refused+`
				http host loopback, in less than 0.2 s: yes
				http by name: Name or service not known
				http by name, in less than 0.2 s: yes
				given file: from the host`), answersOf(string(res.Stdout.Kept)))
			if p == policy.ProfileStrict {
				if e := res.Blocked.Events; len(e) == 0 || e[0].Call != "socket" || e[0].Family != "AF_INET" || e[0].Type != "SOCK_STREAM" {
					t.Errorf("recorded %+v", e)
				}
				return
			}
			if n := res.Blocked.ByCall["connect"]; n != 15 || res.Blocked.Total != 15 {
				t.Errorf("recorded %+v, want 15 connects: 5 to each of 3 outside addresses", res.Blocked)
			}
			wantEvent(t, res, denial.Event{Call: "connect", Family: "AF_INET", Address: "192.0.2.1", Port: outside.port, Errno: "ENETUNREACH"}, 10)
			wantEvent(t, res, denial.Event{Call: "connect", Family: "AF_INET", Address: "169.254.169.254", Port: 80, Errno: "ENETUNREACH"}, 5)
		})
	}
}

// wantEvent checks that an event is recorded n times, each by a named process.
func wantEvent(t *testing.T, res isolate.Result, want denial.Event, n int) {
	t.Helper()
	seen := 0
	for _, e := range res.Blocked.Events {
		if e.PID <= 0 || e.Exe == "" {
			t.Errorf("event lacks who did it: %+v", e)
		}
		e.PID, e.Exe, e.Elapsed = 0, "", 0
		if e == want {
			seen++
		}
	}
	if seen != n {
		t.Errorf("%+v is recorded %d times, want %d: %+v", want, seen, n, res.Blocked)
	}
}

// A1.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	outside.unreached(t)
	l := newLab(t)
	for _, p := range profiles {
		res := l.run(t, isolate.Policy{Profile: p}, script(t, "net_curl.sh", port(t)...))
		compareAnswers(t, answersOf("curl by address: exit-7\ncurl by name: exit-6"), answersOf(string(res.Stdout.Kept)))
		if p != policy.ProfileStrict {
			wantEvent(t, res, denial.Event{Call: "connect", Family: "AF_INET", Address: "192.0.2.1", Port: outside.port, Errno: "ENETUNREACH"}, 1)
		}
	}
}

// A1. What else Node's C library looks for, such as netlink, is not compared.
func TestNode(t *testing.T) {
	outside.unreached(t)
	l := newLab(t, testenv.Node)
	for _, p := range withSockets {
		res := l.run(t, isolate.Policy{Profile: p}, script(t, "net_node.sh", port(t)...))
		compareAnswers(t, answersOf("fetch by address: ENETUNREACH\nfetch by name: ENOTFOUND"), answersOf(string(res.Stdout.Kept)))
		wantEvent(t, res, denial.Event{Call: "connect", Family: "AF_INET", Address: "192.0.2.1", Port: outside.port, Errno: "ENETUNREACH"}, 1)
	}
}

// A14, B9: a flood is counted exactly, listed within bounds, and does not keep
// the run from ending at its limit.
func TestFlood(t *testing.T) {
	outside.unreached(t)
	l := newLab(t)
	t.Run("counted", func(t *testing.T) {
		const each = 400 // by each of 50 threads
		res := l.run(t, isolate.Policy{}, script(t, "net_flood.c", strconv.Itoa(each)))
		if res.Reason != isolate.ReasonExit || res.ExitCode != 0 {
			t.Fatalf("ended with %s %s", res.Reason, res.Detail)
		}
		b := res.Blocked
		if b.Total != 50*each || b.ByCall["socket"] != 25*each || b.ByCall["connect"] != 25*each {
			t.Errorf("counted %d, %v; want %d in two halves", b.Total, b.ByCall, 50*each)
		}
		bounded(t, b, 2)
	})
	t.Run("without end", func(t *testing.T) {
		const wall = 4 * time.Second // time to begin in
		res := l.run(t, isolate.Policy{Wall: wall}, script(t, "net_flood.c"))
		if res.Reason != isolate.ReasonWall || res.Usage.Wall < wall {
			t.Errorf("ended with %s after %s, want wall", res.Reason, res.Usage.Wall)
		}
		if res.Blocked.Total == 0 {
			t.Error("nothing is recorded")
		}
		bounded(t, res.Blocked, 2)
	})
}

// bounded checks that a summary lists no more than it may and loses no count.
func bounded(t *testing.T, b denial.Summary, kinds int) {
	t.Helper()
	if len(b.Events) != kinds*denial.DefaultMaxEvents {
		t.Errorf("%d events are listed, want %d of each of %d kinds", len(b.Events), denial.DefaultMaxEvents, kinds)
	}
	if b.Folded != b.Total-int64(len(b.Events)) {
		t.Errorf("%d folded and %d listed of %d", b.Folded, len(b.Events), b.Total)
	}
}

// A17: whichever address the supervisor saw, the kernel finds no route.
func TestRewrittenAddress(t *testing.T) {
	outside.unreached(t)
	l := newLab(t)
	for round := 1; ; round++ {
		res := l.run(t, isolate.Policy{}, script(t, "net_rewrite.c", port(t)...))
		got := answersOf(string(res.Stdout.Kept))
		if n := len(got); n == 3 && got[n-1].got == "no" && round < 5 {
			continue // the threads did not run side by side: nothing was shown
		}
		compareAnswers(t, answersOf("reached: 0\nother answers: 0\nboth answers came: yes"), got)
		return
	}
}

// A15.
func TestKilledWhileAnswered(t *testing.T) {
	l := newLab(t)
	for _, p := range profiles {
		res := l.run(t, isolate.Policy{Profile: p}, script(t, "net_killed.c"))
		if got := string(res.Stdout.Kept); got != "after 300 of them: EAFNOSUPPORT\n" || res.Reason != isolate.ReasonExit {
			t.Errorf("%s: printed %q, ended with %s %s", p, got, res.Reason, res.Detail)
		}
		bounded(t, res.Blocked, 1)
	}
}
