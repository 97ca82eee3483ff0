package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
)

// A42, B39: /workspace, /tmp, /dev/shm and HOME hold what the policy says,
// together, in bytes and in files; the program sees ENOSPC, others keep
// running, and the reason is disk.
func TestLimitsDisk(t *testing.T) {
	l := newLab(t, isolate.Options{})
	const disk, inodes = 32, 500
	p := isolate.Policy{Disk: disk * policy.MiB, Inodes: inodes}
	for _, tt := range []struct {
		way, dir string
		least    int // what fits at least: the program itself is there, too
		most     int
	}{
		{"one", "/workspace", disk - 1, disk},
		{"one", "/tmp", disk - 1, disk},
		{"one", "/dev/shm", disk - 1, disk},
		{"one", "/home/sandbox", disk - 1, disk},
		{"allocate", "/workspace", disk - 1, disk},
		{"allocate", "/tmp", disk - 1, disk},
		{"allocate", "/dev/shm", disk - 1, disk},
		{"empty", "/workspace", inodes - 20, inodes},
		{"empty", "/tmp", inodes - 20, inodes},
		{"empty", "/dev/shm", inodes - 20, inodes},
		{"longnames", "/workspace", inodes - 20, inodes},
	} {
		t.Run(tt.way+" in "+tt.dir, func(t *testing.T) {
			res := l.run(p, hostile(t, "fill.py", tt.way, tt.dir))
			ended(t, res, isolate.ReasonDisk)
			var said, alive string
			var stored int
			if _, err := fmt.Sscan(string(res.Stdout.Kept), &said, &stored, &alive); err != nil ||
				said != "ENOSPC" || alive != "alive" || stored < tt.least || stored > tt.most {
				t.Errorf("said %q, want ENOSPC, %d to %d, alive: %s", res.Stdout.Kept, tt.least, tt.most, describe(res))
			}
		})
	}
}

// A42: a run that fills its disk takes nothing from another.
func TestLimitsDiskIsPrivate(t *testing.T) {
	l := newLab(t, isolate.Options{})
	p := isolate.Policy{Disk: 8 * policy.MiB}
	other := make(chan error, 1)
	full := strings.NewReader("")
	c := hostile(t, "fill.py", "one", "/workspace")
	go func() {
		res, err := l.tryRun(p, isolate.Cmd{Args: []string{"sh", "-c", "sleep 1; head -c 7M /dev/zero >/workspace/mine && echo fits"}, Stdin: full})
		if err == nil && string(res.Stdout.Kept) != "fits\n" {
			err = fmt.Errorf("the other run ended by %s: %s", res.Reason, describe(res))
		}
		other <- err
	}()
	ended(t, l.run(p, c), isolate.ReasonDisk)
	if err := <-other; err != nil {
		t.Error(err)
	}
}

// B39: a file as large as the disk may be is told the limit by a signal or an
// error; the reason is disk either way.
func TestLimitsFileSize(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{Disk: 8 * policy.MiB}, isolate.Cmd{Args: []string{"sh", "-c", "exec head -c 1G /dev/zero >/tmp/one"}})
	ended(t, res, isolate.ReasonDisk)
}

// A42: 10,000 files of a page each are no problem under the defaults.
func TestLimitsTinyFiles(t *testing.T) {
	l := newLab(t, isolate.Options{})
	res := l.run(isolate.Policy{}, hostile(t, "fill.py", "tiny", "/workspace"))
	ended(t, res, isolate.ReasonExit)
	says(t, res, "fits 10000 alive")
}

// B39: 10^5 nested directories, and as many files as the cap allows, are torn
// down in seconds.
func TestLimitsTearDown(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    isolate.Policy
		file string
		args []string
		want isolate.Reason
	}{
		{"deep", isolate.Policy{Inodes: 200_000, Memory: policy.GiB}, "deep.py", []string{"100000"}, isolate.ReasonExit},
		{"wide", isolate.Policy{Inodes: 65536}, "fill.py", []string{"empty", "/workspace"}, isolate.ReasonDisk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, isolate.Options{})
			ended(t, l.run(tt.p, hostile(t, tt.file, tt.args...)), tt.want)
			begin := time.Now()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("the tear-down took %s", took)
			}
			l.close()
		})
	}
}

// A43, B39: nothing stays for the next run of the same Runtime, although its
// sandbox lives in the same cell and cgroup.
func TestLimitsNothingStays(t *testing.T) {
	l := newLab(t, isolate.Options{Spares: isolate.NoSpares})
	l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"sh", "-c", "for d in /workspace /tmp /dev/shm $HOME; do echo left >$d/left; done"}})
	res := l.run(isolate.Policy{}, isolate.Cmd{Args: []string{"sh", "-c", "find /workspace /tmp /dev/shm $HOME -name left; echo looked"}})
	says(t, res, "looked")
}
