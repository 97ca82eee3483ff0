package limits_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
)

// What libcontainer did for a cell's first process, the cell's tape does
// (docs/adr/0014-cells-by-nsexec.md): the keeper and its seats have 14
// capabilities of their own user namespace, can gain none, and hold nothing of
// the host but /dev/null and their sockets.
func TestKeeperIsConfined(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	l.works()
	const caps = "00000000812c11ef" // see cellCapabilities
	keepers := 0
	for _, d := range descendants(os.Getpid()) {
		pid := strings.Fields(d)[0]
		if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); string(line) != "keeper\x00" {
			continue
		}
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			continue // an init that has ended meanwhile
		}
		if init := regexp.MustCompile(`(?m)^NSpid:(\t\d+){3}$`); init.Match(status) {
			continue // an init that is about to end
		}
		keepers++
		for _, want := range []string{"CapInh:\t0000000000000000", "CapPrm:\t" + caps, "CapEff:\t" + caps, "CapBnd:\t" + caps, "CapAmb:\t0000000000000000", "NoNewPrivs:\t1"} {
			if !strings.Contains(string(status), want+"\n") {
				t.Errorf("process %s has not %q:\n%s", pid, want, status)
			}
		}
		if os.Geteuid() != 0 {
			continue // it is not dumpable: only root looks further
		}
		files, err := os.ReadDir("/proc/" + pid + "/fd")
		for _, f := range files {
			if to, _ := os.Readlink(fmt.Sprintf("/proc/%s/fd/%s", pid, f.Name())); to != "/dev/null" && !strings.HasPrefix(to, "socket:") {
				t.Errorf("process %s holds %s -> %s", pid, f.Name(), to)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	if keepers < 2 {
		t.Errorf("%d keepers and seats are there", keepers)
	}
}
