//go:build linux && cgo && seccomp

package denial_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/denial"
	"github.com/isolate-run/isolate/internal/filtertest"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// floodSource makes calls from 50 threads, as fast as it can.
const floodSource = `
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
static long each;
static void *thread(void *p) {
	for (long i = 0; i < each; i++)
		if (socket(AF_INET, SOCK_RAW, 1) >= 0 || errno != EPERM) exit(1);
	return 0;
}
int main(int argc, char **argv) {
	pthread_t t[50];
	each = atol(argv[1]);
	for (int i = 0; i < 50; i++) pthread_create(&t[i], 0, thread, 0);
	for (int i = 0; i < 50; i++) pthread_join(t[i], 0);
	return 0;
}`

// TestFlood: a million refused calls are all counted, in bounded memory (A14,
// B9).
func TestFlood(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.GCC)
	total := 1_000_000
	if testing.Short() {
		total = 50_000
	}
	src, prog := filepath.Join(t.TempDir(), "flood.c"), filepath.Join(t.TempDir(), "flood")
	if err := os.WriteFile(src, []byte(floodSource), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-pthread", "-o", prog, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := filtertest.Start(t, filter(t, policy.ProfileDefault), prog, strconv.Itoa(total/50))
	before := heap()
	began := time.Now()
	rec := denial.Start(c.Listener, denial.Options{})
	status, out := c.Wait(t, 10*time.Minute)
	took := time.Since(began)
	sum := rec.Stop()
	after := heap()
	if status.ExitStatus() != 0 {
		t.Fatalf("status %#x: a call did not end with EPERM\n%s", status, out)
	}
	if sum.Total != int64(total) || sum.ByCall["socket"] != int64(total) ||
		len(sum.Events) != denial.DefaultMaxEvents || sum.Folded != int64(total-len(sum.Events)) {
		t.Errorf("total %d, by call %v, %d events, %d folded; want %d in all", sum.Total, sum.ByCall, len(sum.Events), sum.Folded, total)
	}
	if grown := after - before; grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	t.Logf("%d refusals in %v: %.0f per second; heap %+d bytes", total, took, float64(total)/took.Seconds(), after-before)
	runtime.KeepAlive(sum)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// race connects while another thread rewrites the address.
func race([]string) int {
	const rounds = 20_000
	addr := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: 0x3500, Addr: [4]byte{127, 0, 0, 1}}
	word := (*uint32)(unsafe.Pointer(&addr.Addr))
	loopback := *word
	outside := *(*uint32)(unsafe.Pointer(&[4]byte{192, 0, 2, 1}))
	var stop atomic.Bool
	go func() {
		for !stop.Load() {
			atomic.StoreUint32(word, outside)
			atomic.StoreUint32(word, loopback)
		}
	}()
	connected, refused := 0, 0
	for range rounds {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(addr)), unix.SizeofSockaddrInet4)
		peer, err := unix.Getpeername(fd)
		switch in, _ := peer.(*unix.SockaddrInet4); {
		case errno == 0 && err == nil && in.Addr == [4]byte{127, 0, 0, 1}:
			connected++
		case errno == unix.ENETUNREACH && err == unix.ENOTCONN:
			refused++
		default:
			fmt.Printf("connect: %v, peer %+v, %v\n", errno, in, err)
			return 1
		}
		unix.Close(fd)
	}
	stop.Store(true)
	fmt.Println(connected, refused)
	return 0
}

// TestAddressRace: whoever rewrites the address in time is let go on, and gets
// nowhere (A17). The record has what was seen, which may be less than was tried.
func TestAddressRace(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	c := filtertest.Start(t, filter(t, policy.ProfileDefault), filtertest.Stage("race")...)
	rec := denial.Start(c.Listener, denial.Options{IP: denial.IPAllowed})
	status, out := c.Wait(t, 2*time.Minute)
	sum := rec.Stop()
	var connected, refused int64
	if n, _ := fmt.Sscan(out, &connected, &refused); status.ExitStatus() != 0 || n != 2 {
		t.Fatalf("status %#x\n%s", status, out)
	}
	if connected == 0 || refused == 0 || sum.ByCall["connect"] > refused {
		t.Errorf("%d connected, %d refused, %d recorded", connected, refused, sum.ByCall["connect"])
	}
	t.Logf("%d connected to loopback, %d refused, of which %d by us and the rest for lack of a route",
		connected, refused, sum.ByCall["connect"])
}

// connects calls connect so many times and prints the time of one.
func connects(args []string) int {
	n, _ := strconv.Atoi(args[0])
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 1
	}
	sa := &unix.SockaddrUnix{Name: "@nobody"}
	began := time.Now()
	for range n {
		if err := unix.Connect(fd, sa); err != unix.ECONNREFUSED {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println(time.Since(began).Nanoseconds() / int64(n))
	return 0
}

// BenchmarkConnect is a connect that is asked about and goes on, as a program
// inside sees it, against one that is not asked about.
func BenchmarkConnect(b *testing.B) {
	testenv.Require(b, testenv.UserNS)
	for _, p := range []policy.Profile{policy.ProfileDefault, policy.ProfileStrict} {
		b.Run(p.String(), func(b *testing.B) {
			for b.Loop() {
				c := filtertest.Start(b, filter(b, p), filtertest.Stage("connects", "20000")...)
				rec := denial.Start(c.Listener, denial.Options{})
				_, out := c.Wait(b, time.Minute)
				rec.Stop()
				ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
				if err != nil {
					b.Fatal(out)
				}
				b.ReportMetric(ns, "ns/connect")
			}
		})
	}
}

// BenchmarkStartStop is what a run pays that has nothing refused.
func BenchmarkStartStop(b *testing.B) {
	testenv.Require(b, testenv.UserNS)
	c := filtertest.Start(b, filter(b, policy.ProfileDefault), "sleep", "1000")
	for b.Loop() {
		b.StopTimer()
		fd, err := unix.FcntlInt(c.Listener.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "listener")
		b.StartTimer()
		denial.Start(f, denial.Options{}).Stop()
	}
}

// TestIdle: recorders with nothing to do hold no thread, and end when stopped.
func TestIdle(t *testing.T) {
	testenv.Require(t, testenv.UserNS)
	c := filtertest.Start(t, filter(t, policy.ProfileDefault), "sleep", "1000")
	before := threads(t)
	recs := make([]*denial.Recorder, 200)
	for i := range recs {
		fd, err := unix.FcntlInt(c.Listener.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		recs[i] = denial.Start(os.NewFile(uintptr(fd), "listener"), denial.Options{})
	}
	time.Sleep(50 * time.Millisecond)
	if grown := threads(t) - before; grown > 20 {
		t.Errorf("200 idle recorders take %d threads", grown)
	}
	for _, r := range recs {
		r.Stop()
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}
