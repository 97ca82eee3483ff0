package net

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/egress"
)

// attempts are ways to reach what is not allowed. Each prints one line.
const attempts = `
import socket, struct
def t(what, f):
    try: r = f()
    except Exception as e: r = "%s %s" % (type(e).__name__, getattr(e, "errno", ""))
    print(what, r, flush=True)
kinds = {"icmp": (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP), "raw": (socket.AF_INET, socket.SOCK_RAW, 1), "raw6": (socket.AF_INET6, socket.SOCK_RAW, 58),
  "packet": (socket.AF_PACKET, socket.SOCK_RAW), "vsock": (40, socket.SOCK_STREAM), "xdp": (44, socket.SOCK_RAW), "tipc": (30, socket.SOCK_STREAM), "alg": (38, socket.SOCK_SEQPACKET), "sctp": (socket.AF_INET, socket.SOCK_STREAM, 132)}
def tcp(a, p):
    s = socket.create_connection((a, p), 5); s.sendall(b"x"); return "CONNECTED"
def udp(a, p):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect((a, p)); s.send(b"x"*50); return s.recv(100)
def rawdns(a):
    q = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04evil\x07example\x00\x00\x01\x00\x01"
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.sendto(q, (a, 53)); r, frm = s.recvfrom(512)
    return "rcode %d from %s" % (r[3] & 15, frm[0])
t("literal", lambda: tcp("9.9.9.4", 443))
t("metadata", lambda: tcp("169.254.169.254", 80))
t("private", lambda: tcp("10.1.2.9", 80))
t("host", lambda: tcp("11.0.0.1", 80))
t("world", lambda: tcp("11.0.0.2", 80))
t("name", lambda: socket.gethostbyname("evil.example"))
t("below", lambda: socket.gethostbyname("secret.allowed.example"))
t("to private", lambda: tcp(socket.gethostbyname("private.example"), 7))
t("to metadata", lambda: tcp(socket.gethostbyname("meta.example"), 7))
t("mixed", lambda: tcp(socket.gethostbyname("mixed.example"), 7))
t("to loop", lambda: tcp(socket.gethostbyname("loop.example"), 7))
t("to host", lambda: tcp(socket.gethostbyname("host.example"), 7))
t("udp literal", lambda: udp("9.9.9.4", 443))
t("udp name", lambda: udp(socket.gethostbyname("allowed.example"), 443))
t("port", lambda: tcp(socket.gethostbyname("allowed.example"), 22))
t("resolver", lambda: rawdns("9.9.9.2"))
t("host resolver", lambda: rawdns("11.0.0.53"))
for what, kind in kinds.items(): t(what, lambda: socket.socket(*kind))
t("tun", lambda: open("/dev/net/tun"))
t("ipv6", lambda: tcp("2620:fe::fe", 443))
t("mapped", lambda: tcp("::ffff:9.9.9.4", 443))
t("fake sni", lambda: tcp(socket.gethostbyname("allowed.example"), 443))
def own(a, p):
    l = socket.socket(); l.bind((a, p)); l.listen(); return tcp("127.0.0.1", p)
t("own", lambda: own("127.0.0.1", 4430))
t("own for all", lambda: own("0.0.0.0", 8080))
t("own below 1024", lambda: own("127.0.0.1", 443))
print("devices", open("/proc/net/dev").read().count(":"))
`

// Nothing of it arrives in the world: not a packet, not a look-up.
func TestNothingGetsOut(t *testing.T) {
	r := open(t)
	allowed := allow(t, "allow:allowed.example,tcp://private.example:7,tcp://meta.example:7,tcp://mixed.example:7,tcp://loop.example:7,tcp://host.example:7")
	for name, p := range map[string]isolate.Policy{"restricted": allowed, "empty": {Net: egress.Policy{Mode: egress.ModeRestricted}}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			arrived(t)
			res, err := r.Run(context.Background(), p, isolate.Cmd{Args: []string{"python3", "-c", attempts}})
			if err != nil {
				t.Fatal(err)
			}
			text := out(res)
			for line := range strings.Lines(text) {
				own := strings.HasPrefix(line, "own ") && !(name == "none" && strings.HasPrefix(line, "own below"))
				if own != strings.Contains(line, "CONNECTED") && !strings.HasPrefix(line, "fake sni") {
					t.Errorf("%s", line)
				}
			}
			// D 1: without a network at once, and as programs know it
			if name == "none" && (!strings.Contains(text, "literal OSError 101\n") || !strings.Contains(text, "name gaierror ")) {
				t.Errorf("got %s", text)
			}
			if devices := map[bool]string{true: "devices 1\n", false: "devices 2\n"}[name == "none"]; !strings.Contains(text, devices) || res.ExitCode != 0 {
				t.Errorf("got %s, %s", text, res.Stderr.Kept)
			}
			if name != "none" && (!strings.Contains(text, "resolver rcode 3 from 9.9.9.2") || res.Net.Denied < 10) {
				t.Errorf("got %s, %+v", text, res.Net)
			}
			s := arrived(t)
			for _, packet := range s.Packets {
				if packet != "udp 11.0.0.53:53" {
					t.Errorf("a packet arrived: %s", packet)
				}
			}
			for _, n := range s.Names { // asked by us, of names that are allowed
				if name != "restricted" || n == "evil.example." || strings.HasPrefix(n, "secret.") {
					t.Errorf("looked up: %s", n)
				}
			}
		})
	}
}

// D 51: no mode opens another kind of socket.
func TestKindsOfSockets(t *testing.T) {
	r := open(t)
	head, _, _ := strings.Cut(attempts, `t("literal"`)
	for _, mode := range []egress.Mode{egress.ModeNone, egress.ModeRestricted, egress.ModeFull} {
		res, err := r.Run(context.Background(), isolate.Policy{Net: egress.Policy{Mode: mode}}, isolate.Cmd{Args: []string{"python3", "-c", head + `for what, kind in kinds.items(): t(what, lambda: socket.socket(*kind))`}})
		if err != nil {
			t.Fatal(err)
		}
		if text := out(res); strings.Count(text, "Error") != 9 || strings.Count(text, "\n") != 9 {
			t.Errorf("%s: got %s %s", mode, text, res.Stderr.Kept)
		}
	}
}

// D 46: with mode full the machine, private addresses and metadata stay closed.
func TestFull(t *testing.T) {
	r := open(t)
	arrived(t)
	p := isolate.Policy{Net: egress.Policy{Mode: egress.ModeFull}}
	res := sh(t, r, p, `curl -sS --cacert ca.pem https://allowed.example/a https://9.9.9.2/b -k; echo; for a in 127.0.0.1 11.0.0.1 10.1.2.9 169.254.169.254 11.0.0.53; do curl -sS -m 5 http://$a/ 2>&1 | tail -c 30; done; curl -sS http://private.example/ 2>&1; printf x | timeout 5 nc -q1 evil.example 25`)
	if text := out(res); !strings.Contains(text, "allowed.example /a") || !strings.Contains(text, "9.9.9.2 /b") {
		t.Errorf("got %s %s %+v", text, res.Stderr.Kept, res.Net)
	}
	for _, packet := range arrived(t).Packets {
		if packet != "udp 11.0.0.53:53" && packet != "tcp 9.9.9.1:443" && packet != "tcp 9.9.9.2:443" {
			t.Errorf("a packet arrived: %s", packet)
		}
	}
}

// D 61: within a second of the end, from outside of the sandbox.
func TestExpiry(t *testing.T) {
	r := open(t)
	p := allow(t, "allow:http://allowed.example")
	p.Net.Rules[0].For = 2 * time.Second
	began := time.Now()
	res := sh(t, r, p, `curl -sS -o /dev/null http://allowed.example/slow; echo $? $(date +%s%N); curl -sS -m 5 http://allowed.example/; echo $?`)
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("took %s", took)
	}
	text := strings.Fields(out(res))
	if len(text) != 3 || text[0] == "0" || text[2] == "0" {
		t.Fatalf("got %s %s", out(res), res.Stderr.Kept)
	}
	found := false
	for _, d := range res.Net.Denials {
		found = found || d.Reason == egress.ReasonRuleExpired
	}
	if !found {
		t.Errorf("got %+v", res.Net)
	}
	if res.Usage.Wall > 20*time.Second {
		t.Errorf("the run took %s", res.Usage.Wall)
	}
}

// D 73: the process dies, and with it the network; the run goes on and says so.
func TestNetworkProcessDies(t *testing.T) {
	r := open(t)
	sb, err := r.Sandbox(context.Background(), allow(t, "allow:tcp://bulk.example:7,http://allowed.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	pid := helperPID(t)
	other, err := r.Sandbox(context.Background(), allow(t, "allow:http://allowed.example"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() {
		time.Sleep(time.Second)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}()
	var beside isolate.Result
	var ended sync.WaitGroup
	ended.Go(func() { // a download of another sandbox's, while the process dies and after it
		beside, _ = other.Run(context.Background(), isolate.Cmd{Args: []string{"curl", "-sS", "-m", "10", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "http://allowed.example/slow"}})
	})
	res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"sh", "-c", "curl -sS -m 20 -o /dev/null http://allowed.example/slow; echo $?; curl -sS -m 3 http://allowed.example/; echo $?"}})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Fields(out(res)); len(text) != 2 || text[0] == "0" || text[1] == "0" {
		t.Errorf("got %q %s", out(res), res.Stderr.Kept)
	}
	if res.Net.Failed == "" {
		t.Errorf("got %+v", res.Net)
	}
	if res.Usage.Wall > 40*time.Second {
		t.Errorf("the program hung for %s", res.Usage.Wall)
	}
	ended.Wait()
	var code, size int
	if fmt.Sscan(out(beside), &code, &size); code != 200 || size < 50000 || beside.Net == nil || beside.Net.Failed != "" {
		t.Errorf("another sandbox: %q %s %+v", out(beside), beside.Stderr.Kept, beside.Net)
	}
}

// helperPID is the network process that is a child of ours.
func helperPID(t *testing.T) int {
	t.Helper()
	pids, err := children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if args(pid) == "isolate-netd" {
			return pid
		}
	}
	t.Fatalf("no network process among %v", pids)
	return 0
}

// D 62 from outside: another policy for a kept sandbox.
func TestSetNet(t *testing.T) {
	r := open(t)
	sb, err := r.Sandbox(context.Background(), isolate.Policy{Net: egress.Policy{Mode: egress.ModeRestricted}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	fetch := func() string {
		res, err := sb.Run(context.Background(), isolate.Cmd{Args: []string{"curl", "-sS", "http://allowed.example/x"}})
		if err != nil {
			t.Fatal(err)
		}
		return out(res)
	}
	if got := fetch(); got != "" {
		t.Errorf("without a rule: %q", got)
	}
	if err := sb.SetNet(context.Background(), allow(t, "allow:http://allowed.example").Net); err != nil {
		t.Fatal(err)
	}
	if got := fetch(); got != "allowed.example /x " {
		t.Errorf("with a rule: %q", got)
	}
	if err := sb.SetNet(context.Background(), isolate.Net{Mode: egress.ModeRestricted, Rules: []isolate.NetRule{{Name: "*"}}}); err == nil {
		t.Error("a bad policy is taken")
	}
	if got := fetch(); got == "" {
		t.Error("a refused policy changed something")
	}
}
