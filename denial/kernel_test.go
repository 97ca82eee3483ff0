//go:build linux && cgo && seccomp

package denial_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/internal/filtertest"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/seccompprofile"
)

func TestMain(m *testing.M) {
	filtertest.Enter(map[string]func([]string) int{
		"destinations": destinations,
		"socket":       oneSocket,
		"race":         race,
		"connects":     connects,
		"loop":         loop,
	})
	os.Exit(m.Run())
}

func filter(t testing.TB, p policy.Profile) []byte {
	t.Helper()
	f, err := seccompprofile.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return f.BPF
}

// TestAnswersAll: what the filters notify has a name here, and nothing else has.
func TestAnswersAll(t *testing.T) {
	var notified []string
	for _, p := range []policy.Profile{policy.ProfileDefault, policy.ProfileCompat, policy.ProfileStrict} {
		f, err := seccompprofile.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		notified = append(notified, f.Notifies...)
	}
	slices.Sort(notified)
	if notified = slices.Compact(notified); !slices.Equal(notified, denial.Calls()) {
		t.Errorf("the filters notify\n%v\nknown here are\n%v", notified, denial.Calls())
	}
}

// TestNotAListener: what cannot be served is an error, and ends at once.
func TestNotAListener(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	rec := denial.Start(r, denial.Options{})
	if err := rec.Err(); err == nil || !strings.Contains(err.Error(), "cannot receive a seccomp notification") {
		t.Errorf("error %v", err)
	}
	if sum := rec.Stop(); sum.Total != 0 {
		t.Errorf("summary %+v", sum)
	}
	if err := r.Close(); err == nil {
		t.Error("Start has not taken the file over")
	}
}

// destinations makes connections and sends datagrams and prints each result.
func destinations([]string) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("listen:", err)
		return 1
	}
	port := l.Addr().(*net.TCPAddr).Port
	show := func(what string, err error) { fmt.Printf("%s: %v\n", what, err) }

	tcp := func(sa unix.Sockaddr, family int) error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, sa)
	}
	show("loopback", tcp(&unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, unix.AF_INET))
	show("unspecified", tcp(&unix.SockaddrInet4{Port: port}, unix.AF_INET))
	show("mapped loopback", tcp(&unix.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}, unix.AF_INET6))
	show("closed port", tcp(&unix.SockaddrInet6{Port: 1, Addr: [16]byte{15: 1}}, unix.AF_INET6))
	show("unix", tcp(&unix.SockaddrUnix{Name: "@nobody"}, unix.AF_UNIX))
	show("documentation", tcp(&unix.SockaddrInet4{Port: 443, Addr: [4]byte{192, 0, 2, 1}}, unix.AF_INET))
	show("metadata", tcp(&unix.SockaddrInet4{Port: 80, Addr: [4]byte{169, 254, 169, 254}}, unix.AF_INET))
	show("documentation 6", tcp(&unix.SockaddrInet6{Port: 443, Addr: [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 1}}, unix.AF_INET6))

	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	show("udp", err)
	show("send inside", unix.Sendto(udp, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 2}}))
	show("send outside", unix.Sendto(udp, []byte("x"), 0, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 53}}))
	raw := func(nr uintptr, a ...uintptr) error {
		if _, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	// UDP takes AF_UNSPEC for AF_INET when it sends, and as "no longer
	// connected" when it connects.
	unspec := unix.RawSockaddrInet4{Family: unix.AF_UNSPEC, Port: 0x3500, Addr: [4]byte{192, 0, 2, 54}}
	show("send unspecific", raw(unix.SYS_SENDTO, uintptr(udp), uintptr(unsafe.Pointer(&unspec)), 1, 0, uintptr(unsafe.Pointer(&unspec)), unix.SizeofSockaddrInet4))
	show("dissolve", raw(unix.SYS_CONNECT, uintptr(udp), uintptr(unsafe.Pointer(&unspec)), unix.SizeofSockaddrInet4, 0, 0, 0))
	show("no memory", raw(unix.SYS_CONNECT, uintptr(udp), 1, unix.SizeofSockaddrInet4, 0, 0, 0))
	show("too long", raw(unix.SYS_CONNECT, uintptr(udp), uintptr(unsafe.Pointer(&unspec)), 4096, 0, 0, 0))
	show("negative", raw(unix.SYS_CONNECT, uintptr(udp), uintptr(unsafe.Pointer(&unspec)), ^uintptr(0), 0, 0, 0))
	// What no notification sees: the namespace has no route.
	show("sendmsg outside", unix.Sendmsg(udp, []byte("x"), nil, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 55}}, 0))
	return 0
}

const destinationsOut = `loopback: <nil>
unspecified: <nil>
mapped loopback: <nil>
closed port: connection refused
unix: connection refused
documentation: network is unreachable
metadata: network is unreachable
documentation 6: network is unreachable
udp: <nil>
send inside: <nil>
send outside: network is unreachable
send unspecific: network is unreachable
dissolve: <nil>
no memory: network is unreachable
too long: network is unreachable
negative: network is unreachable
sendmsg outside: network is unreachable
`

func TestDestinations(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.IPv6Loopback)
	c := filtertest.Start(t, filter(t, policy.ProfileDefault), filtertest.Stage("destinations")...)
	rec := denial.Start(c.Listener, denial.Options{IP: denial.IPAllowed})
	status, out := c.Wait(t, 60*time.Second)
	if status.ExitStatus() != 0 || out != destinationsOut {
		t.Errorf("status %#x, output:\n%swant:\n%s", status, out, destinationsOut)
	}
	sum := rec.Stop()
	if err := rec.Err(); err != nil {
		t.Error(err)
	}
	if !rec.MadeIP() {
		t.Error("no IP socket was noticed")
	}
	var got []string
	exe, _ := os.Executable()
	for _, e := range sum.Events {
		if e.PID != c.PID || e.Exe != filepath.Base(exe) || e.Elapsed <= 0 {
			t.Errorf("event %+v, want process %d, program %s and a time", e, c.PID, filepath.Base(exe))
		}
		if e.Call == "socket" { // the run time's probe for multipath TCP
			continue
		}
		got = append(got, strings.TrimSpace(fmt.Sprintln(e.Call, e.Family, e.Address, e.Port, e.Errno)))
	}
	want := []string{
		"connect AF_INET 192.0.2.1 443 ENETUNREACH",
		"connect AF_INET 169.254.169.254 80 ENETUNREACH",
		"connect AF_INET6 2001:db8::1 443 ENETUNREACH",
		"sendto AF_INET 192.0.2.53 53 ENETUNREACH",
		"sendto AF_INET 192.0.2.54 53 ENETUNREACH",
		"connect  unreadable 0 ENETUNREACH",
		"connect  unreadable 0 ENETUNREACH",
		"connect  unreadable 0 ENETUNREACH",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if sum.ByCall["connect"] != 6 || sum.ByCall["sendto"] != 2 || sum.Folded != 0 {
		t.Errorf("counts %+v", sum)
	}
}

// oneSocket says what a call that is refused with notice ends with. It waits for
// a file first, if one is named.
func oneSocket(until []string) int {
	for _, file := range until {
		for _, err := os.Stat(file); err != nil; _, err = os.Stat(file) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	fmt.Println("calling")
	_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)
	fmt.Println(err)
	return 0
}

// TestSupervisorGone: when nobody serves any more the kernel says ENOSYS, both
// to the calls that wait and to later ones.
func TestSupervisorGone(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	t.Run("before the call", func(t *testing.T) {
		gone := filepath.Join(t.TempDir(), "gone")
		c := filtertest.Start(t, filter(t, policy.ProfileDefault), filtertest.Stage("socket", gone)...)
		rec := denial.Start(c.Listener, denial.Options{})
		if sum := rec.Stop(); sum.Total != 0 {
			t.Errorf("summary %+v", sum)
		}
		if err := os.WriteFile(gone, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, out := c.Wait(t, 60*time.Second); out != "calling\nfunction not implemented\n" {
			t.Errorf("output %q", out)
		}
	})
	t.Run("during the call", func(t *testing.T) {
		c := filtertest.Start(t, filter(t, policy.ProfileDefault), filtertest.Stage("socket")...)
		awaitBlocked(t, c.PID, unix.SYS_SOCKET)
		c.Listener.Close()
		if _, out := c.Wait(t, 60*time.Second); out != "calling\nfunction not implemented\n" {
			t.Errorf("output %q", out)
		}
	})
}

// TestStalledHandler: a call that nobody answers waits, and SIGKILL ends it
// (B12), whether or not it was received.
func TestStalledHandler(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	for _, received := range []string{"not received", "received"} {
		t.Run(received, func(t *testing.T) {
			c := filtertest.Start(t, filter(t, policy.ProfileDefault), filtertest.Stage("socket")...)
			awaitBlocked(t, c.PID, unix.SYS_SOCKET)
			if received == "received" {
				buf := make([]byte, 80)
				if _, _, errno := unix.Syscall(unix.SYS_IOCTL, c.Listener.Fd(), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
					t.Fatal(errno)
				}
			}
			began := time.Now()
			c.Kill()
			status, out := c.Wait(t, 60*time.Second)
			if status.Signal() != syscall.SIGKILL || out != "calling\n" {
				t.Errorf("status %#x, output %q", status, out)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("it took %v to die", d)
			}
		})
	}
}

// awaitBlocked waits until a thread of the process is in the call.
func awaitBlocked(t *testing.T, pid, call int) {
	t.Helper()
	for range 12000 {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		for _, f := range files {
			if b, _ := os.ReadFile(f); strings.HasPrefix(string(b), strconv.Itoa(call)+" ") {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the child never made its call")
}

// loop makes a refused call until it is killed.
func loop([]string) int {
	for {
		unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)
	}
}

// TestKilledInBetween kills programs between notification and answer (A15, the
// ENOENT of the kernel): serving ends by itself each time.
func TestKilledInBetween(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	for i := range 50 {
		c := filtertest.Start(t, filter(t, policy.ProfileStrict), filtertest.Stage("loop")...)
		rec := denial.Start(c.Listener, denial.Options{})
		time.Sleep(5*time.Millisecond + time.Duration(i*37)*time.Microsecond)
		c.Kill()
		c.Wait(t, 60*time.Second)
		ended := make(chan error, 1)
		go func() { ended <- rec.Err() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(60 * time.Second):
			t.Fatal("still serving though no process is left")
		}
		rec.Stop()
		rec.Stop()
	}
}

// TestPrograms runs what people run under profile default (B34, B82).
func TestPrograms(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	for _, argv := range [][]string{
		{"python3", "-c", `
import threading, multiprocessing, socket, subprocess, asyncio
m = threading.Lock()
with m: pass
def f(x): return x * x
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as p: assert p.map(f, [1, 2]) == [1, 4]
    s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())
    assert subprocess.run(["true"]).returncode == 0
    async def g(): asyncio.get_running_loop().call_soon_threadsafe(lambda: None); await asyncio.sleep(0)
    asyncio.run(g())
    try: socket.create_connection(("192.0.2.1", 80))
    except OSError as e: assert e.errno == 101, e
`},
		{"node", "-e", `
const {Worker} = require('worker_threads'); const net = require('net'); require('child_process').execSync('true');
new Worker('1', {eval: true});
const s = net.createServer(c => { c.end(); s.close() }).listen(0, '127.0.0.1', () => net.connect(s.address().port, '127.0.0.1').resume());
`},
		{"java", "-version"},
		{"git", "--version"},
		{"bash", "-c", "for i in 1 2; do echo $i | cat >/dev/null; done; sleep 0.01 & wait; ls -l / >/dev/null; cat <(echo x) >/dev/null"},
		{"perl", "-e", "sleep 0; fork() or exit; wait"},
	} {
		t.Run(argv[0], func(t *testing.T) {
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skipf("needs %s", argv[0])
			}
			c := filtertest.Start(t, filter(t, policy.ProfileDefault), argv...)
			rec := denial.Start(c.Listener, denial.Options{IP: denial.IPAllowed})
			status, out := c.Wait(t, 60*time.Second)
			sum := rec.Stop()
			if status.ExitStatus() != 0 {
				t.Errorf("status %#x\n%s\n%+v", status, out, sum)
			}
			t.Logf("refused: %v", sum.ByCall)
		})
	}
}
