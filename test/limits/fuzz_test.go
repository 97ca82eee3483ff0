package limits_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// seedVariable tells the fuzz role where to begin.
const seedVariable = "ISOLATE_LIMITS_SEED"

// B86, Debian trinity: random system calls inside for 60 s (15 s in -short).
// Every run ends with a result, and the host keeps what it had. Only in the
// guest of test/vm: its kernel is nobody else's.
func TestLimitsRandomCalls(t *testing.T) {
	if line, err := os.ReadFile("/proc/cmdline"); err != nil || !strings.Contains(string(line), "vm.init=") {
		t.Skip("needs the guest of test/vm, whose kernel may be broken")
	}
	testenv.Require(t, testenv.Cgroup)
	l := newLab(t, isolate.Options{})
	canary := filepath.Join(publicDir(t), "canary")
	if err := os.WriteFile(canary, []byte("alive"), 0o600); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	total := time.Minute
	if testing.Short() {
		total = 15 * time.Second
	}
	reasons := map[isolate.Reason]int{}
	seed := uint64(time.Now().UnixNano())
	for begin := time.Now(); time.Since(begin) < total; seed++ {
		res := l.run(isolate.Policy{
			ReadOnly: []isolate.Bind{{Source: self, Target: "/opt/fuzz"}}, Memory: 128 * policy.MiB, PIDs: 64, Wall: time.Second,
		}, isolate.Cmd{
			Args: []string{"/opt/fuzz"},
			Env:  map[string]string{roleVariable: "fuzz", seedVariable: strconv.FormatUint(seed, 10)},
		})
		if res.NotStarted != "" {
			t.Fatalf("the fuzzer did not start: %s", describe(res))
		}
		reasons[res.Reason]++
	}
	t.Logf("ended by %v, last seed %d", reasons, seed)
	if err := sleeper.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("a process of the host was killed: %v", err)
	}
	_ = sleeper.Process.Kill()
	_ = sleeper.Wait()
	if b, err := os.ReadFile(canary); string(b) != "alive" {
		t.Errorf("the canary says %q, %v", b, err)
	}
}

// fuzz is the role of a program inside that makes random calls until it dies
// of one, or somebody ends it.
func fuzz() int {
	seed, _ := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	random := rand.New(rand.NewPCG(seed, 0))
	fmt.Println("begins")
	runtime.LockOSThread()
	buffer := make([]byte, 1<<16)
	argument := func() uintptr {
		switch random.IntN(6) {
		case 0:
			return uintptr(unsafe.Pointer(&buffer[random.IntN(len(buffer)/2)]))
		case 1:
			return uintptr(random.IntN(16)) // a descriptor, a flag
		case 2:
			return ^uintptr(0) - uintptr(random.IntN(4096))
		case 3:
			return 1 << random.IntN(64)
		case 4:
			return uintptr(random.Uint64())
		}
		return 0
	}
	for {
		for i := range 64 {
			buffer[random.IntN(len(buffer)-i)] = byte(random.Uint32())
		}
		// what would only end us is left out, all else is not
		switch nr := uintptr(random.IntN(480)); nr {
		case unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN:
		default:
			unix.RawSyscall6(nr, argument(), argument(), argument(), argument(), argument(), argument())
		}
	}
}
