package audit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/isolate-run/isolate/internal/testenv"
)

// cases.md B 79: nothing is done without a durable record.

func TestSyncErrorIsFinal(t *testing.T) {
	p := newPlace(t)
	var broken atomic.Bool
	l := p.open(t, Options{syncs: func(f *os.File) error {
		if broken.Load() {
			return unix.EIO
		}
		return fdatasync(f)
	}})
	r := begin(t, l)
	broken.Store(true)
	if err := r.Append(CallAccepted{Call: 1, Tool: "t"}); !errors.Is(err, unix.EIO) {
		t.Fatalf("a record that could not be made durable gives %v", err)
	}
	broken.Store(false)
	// what the kernel says after a failed sync is worth nothing
	if err := r.Append(CallAccepted{Call: 2, Tool: "t"}); !errors.Is(err, unix.EIO) {
		t.Errorf("a later record gives %v", err)
	}
	if _, err := r.Close(RunEnd{}); !errors.Is(err, unix.EIO) {
		t.Errorf("closing the run gives %v", err)
	}
	must(t, l.Close())
	must(t, p.open(t, Options{}).Close())
	rep := p.verify(t, VerifyOptions{}, "")
	if len(rep.Runs) != 1 || rep.Runs[0].State != StateRecovered {
		t.Errorf("the run is %+v", rep.Runs)
	}
}

func TestHostLogSyncError(t *testing.T) {
	p := newPlace(t)
	var broken atomic.Bool
	l := p.open(t, Options{syncs: func(f *os.File) error {
		if broken.Load() && strings.HasSuffix(f.Name(), hostLog) {
			return unix.EIO
		}
		return fdatasync(f)
	}})
	r := begin(t, l)
	broken.Store(true)
	if _, err := l.Run(RunStart{}); !errors.Is(err, unix.EIO) {
		t.Errorf("a run that the host log does not know gives %v", err)
	}
	if _, err := r.Close(RunEnd{}); !errors.Is(err, unix.EIO) {
		t.Errorf("a run without seal gives %v", err)
	}
}

func TestDeletedLog(t *testing.T) {
	for _, what := range []string{"the directory", "the run's log", "the host log"} {
		t.Run(what, func(t *testing.T) {
			p := newPlace(t)
			l := p.open(t, Options{})
			r := begin(t, l)
			switch what {
			case "the directory":
				must(t, os.RemoveAll(p.dir))
			case "the run's log":
				must(t, os.Remove(r.file.name))
			case "the host log":
				must(t, os.Remove(p.host()))
				if _, err := l.Run(RunStart{}); err == nil || !strings.Contains(err.Error(), "deleted") {
					t.Errorf("a new run gives %v", err)
				}
				return
			}
			if err := r.Append(CallAccepted{Call: 1, Tool: "t"}); err == nil || !strings.Contains(err.Error(), "deleted") {
				t.Errorf("a record that has no place gives %v", err)
			}
			if what == "the directory" {
				if _, err := l.Run(RunStart{}); err == nil {
					t.Error("a new run has a log")
				}
			}
		})
	}
}

// A log that somebody cut while its run goes on takes nothing more: the run would
// be said to be recorded, and its log could not be believed.
func TestTruncatedLog(t *testing.T) {
	for _, keep := range []int64{0, 100} {
		p := newPlace(t)
		l := p.open(t, Options{})
		r := begin(t, l)
		must(t, os.Truncate(r.file.name, keep))
		if err := r.Append(CallAccepted{Call: 1, Tool: "t"}); err == nil || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("a record behind what was cut at %d gives %v", keep, err)
		}
		if err := r.Append(CallAccepted{Call: 2, Tool: "t"}); err == nil {
			t.Error("the next record is taken")
		}
	}
}

func TestReplacedHostLog(t *testing.T) {
	p := newPlace(t)
	l := p.open(t, Options{})
	sampleRun(t, l)
	b, err := os.ReadFile(p.host())
	must(t, err)
	must(t, os.Truncate(p.host(), int64(len(b)/2)))
	if _, err := l.Run(RunStart{}); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("a truncated host log gives %v", err)
	}
}

// A real full disk and a real read-only one, in a mount namespace of our own.
func TestFullAndReadOnlyDisk(t *testing.T) {
	testenv.Require(t, testenv.UserNS, testenv.Tool("unshare"), testenv.Tool("mount"))
	for mode, want := range map[string]string{"full": "no space left", "read-only": "read-only file system"} {
		t.Run(mode, func(t *testing.T) {
			at := t.TempDir()
			cmd := exec.Command("unshare", "-Urm", "sh", "-c", `mount -t tmpfs -o size=96k none "$1" && exec "$2" -test.run '^TestOnSmallDisk$' -test.v`, "sh", at, "/proc/self/exe")
			self, err := os.Executable()
			must(t, err)
			cmd.Args[len(cmd.Args)-1] = self
			cmd.Env = append(os.Environ(), smallDisk+"="+at, smallDisk+"_MODE="+mode)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "refused: ") || !strings.Contains(string(out), want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

const smallDisk = "ISOLATE_AUDIT_SMALL_DISK"

func TestOnSmallDisk(t *testing.T) {
	at := os.Getenv(smallDisk)
	if at == "" {
		t.Skip("is a part of TestFullAndReadOnlyDisk")
	}
	p := newPlace(t)
	p.dir = filepath.Join(at, "logs")
	l := p.open(t, Options{})
	r := begin(t, l)
	if os.Getenv(smallDisk+"_MODE") == "read-only" {
		must(t, r.file.f.Close())
		must(t, l.host.f.Close())
		must(t, unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		_, err := Open(p.dir, Options{Key: p.key})
		if err == nil {
			t.Fatal("a log on a read-only disk was opened")
		}
		t.Log("refused: ", err)
		return
	}
	done := 0
	for ; ; done++ {
		err := r.Append(CallAccepted{Call: int64(done), Tool: strings.Repeat("x", 900)})
		if err != nil {
			t.Log("refused: ", err)
			break
		}
	}
	if _, err := r.Close(RunEnd{}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("closing the run gives %v", err)
	}
	if _, err := l.Run(RunStart{}); err == nil {
		t.Error("a new run has a log on a full disk")
	}
	_ = l.Close()
	// with space again, the log goes on and has every record that was promised
	must(t, unix.Mount("", at, "", unix.MS_REMOUNT, "size=1m"))
	must(t, p.open(t, Options{}).Close())
	for _, s := range p.verify(t, VerifyOptions{}, "").Runs {
		if s.ID == r.ID() && len(s.Unfinished) != done {
			t.Errorf("%d calls were accepted, the log has %d", done, len(s.Unfinished))
		}
	}
}

func TestWrongKeyAndStrangeFiles(t *testing.T) {
	p := newPlace(t)
	p.sample(t, 1)
	other, err := newKey("isolate-host-other")
	must(t, err)
	other.salt = make([]byte, saltBytes)
	whole, err := os.ReadFile(p.host())
	must(t, err)
	if _, err := Open(p.dir, Options{Key: other}); err == nil || !strings.Contains(err.Error(), "unknown key") {
		t.Errorf("a log of another key gives %v", err)
	}
	after, err := os.ReadFile(p.host())
	must(t, err)
	if string(after) != string(whole) {
		t.Error("who may not open a log has changed it")
	}
	must(t, os.WriteFile(p.host(), []byte(strings.Repeat("not a log\n", 20)), 0o600))
	if _, err := Open(p.dir, Options{Key: p.key}); err == nil {
		t.Error("something that is no log was opened")
	}
	if _, err := Open(p.dir, Options{}); err == nil {
		t.Error("a log without a key was opened")
	}
	must(t, os.Chmod(filepath.Join(t.TempDir()), 0o755))
	dir := t.TempDir()
	_, err = LoadKey(dir)
	must(t, err)
	must(t, os.Chmod(filepath.Join(dir, keyFile), 0o644))
	if _, err := LoadKey(dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read gives %v", err)
	}
}

// TestKeyErrors: what is wrong with a key is said with its place and with what
// to do about it.
func TestKeyErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, keyFile)
	for name, c := range map[string]struct {
		make func() error
		want string
	}{
		"empty":   {func() error { return os.WriteFile(file, nil, 0o600) }, "it is not a key file; put back a copy"},
		"other":   {func() error { return os.WriteFile(file, []byte("x\n"), 0o600) }, "it is not a key file; put back a copy"},
		"closed":  {func() error { return os.WriteFile(file, nil, 0) }, "permission denied; it must be yours, with mode 600"},
		"dir":     {func() error { return os.Mkdir(file, 0o700) }, "it is not a file; name a directory of your own with --audit-key"},
		"fifo":    {func() error { return fifo(file) }, "it is not a file; name a directory of your own with --audit-key"},
		"nowhere": {func() error { return os.Chmod(dir, 0o500) }, "permission denied; name a directory of your own with --audit-key"},
	} {
		if root := os.Geteuid() == 0; root && (name == "closed" || name == "nowhere") {
			continue // nothing is closed to root
		}
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		_, err := LoadKey(dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), dir) != 1 {
			t.Errorf("%s: %v; want %q with the place once", name, err, c.want)
		}
		if err := errors.Join(os.Chmod(dir, 0o700), os.RemoveAll(file)); err != nil {
			t.Fatal(err)
		}
	}
}
