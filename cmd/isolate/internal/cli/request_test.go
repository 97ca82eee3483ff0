package cli

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/policy"
	"github.com/isolate-run/isolate/preload"
)

func TestFlagsToPolicy(t *testing.T) {
	const dir = "/srv/here" // below /tmp nothing can be shown
	file := write(t, t.TempDir(), "p.toml", "profile = \"strict\"\nmemory = \"1G\"\npids = 7\nend-on-output = \"end-run\"\nrootfs = \"/srv/r\"\nallow = [\"weak-limits\"]\n[[read-only]]\nsource = \"/opt/a\"\n[env]\nLANG = \"de\"\n")
	for _, c := range []struct {
		name string
		args []string
		want isolate.Policy
	}{
		{"nothing is the zero policy", nil, isolate.Policy{}},
		{"limits", []string{
			"--memory", "1.5GiB", "--cpus=0.5", "--pids", "9", "--time", "1m30s", "--cpu-time", "10s", "--grace", "2s",
			"--disk", "64M", "--inodes", "100", "--files", "50", "--output", "1K",
		}, isolate.Policy{
			Memory: 1536 * policy.MiB, CPUs: 0.5, PIDs: 9, Wall: 90 * time.Second, CPUTime: 10 * time.Second,
			Grace: 2 * time.Second, Disk: 64 * policy.MiB, Inodes: 100, Files: 50, Output: policy.KiB,
		}},
		{"profile", []string{"--profile", "strict"}, isolate.Policy{Profile: policy.ProfileStrict}},
		{"end on output", []string{"--end-on-output"}, isolate.Policy{EndOnOutput: policy.EndRun}},
		{"host name", []string{"--hostname", "box"}, isolate.Policy{Hostname: "box"}},
		{"preloaded interpreter", []string{"--preload", "python:a,b.c"}, isolate.Policy{Preload: preload.Spec{Interpreter: "python", Modules: []string{"a", "b.c"}}}},
		{"root", []string{"--rootfs", "r"}, isolate.Policy{Rootfs: filepath.Join(dir, "r")}},
		{"root of the host", []string{"--rootfs", "host"}, isolate.Policy{}},
		{"root that is called host", []string{"--rootfs", "./host"}, isolate.Policy{Rootfs: filepath.Join(dir, "host")}},
		{"read-only paths", []string{"--ro", "a", "--ro", "../b:/data", "--ro", "/opt/c/"}, isolate.Policy{ReadOnly: []policy.Bind{
			{Source: filepath.Join(dir, "a")}, {Source: filepath.Join(filepath.Dir(dir), "b"), Target: "/data"}, {Source: "/opt/c"},
		}}},
		{"consent", []string{"--allow", "weak-limits", "--allow", "no-denial-records", "--allow", "weak-limits"},
			isolate.Policy{Allow: []policy.Weakening{policy.WeakLimits, policy.NoDenialRecords}}},
		{"policy file", []string{"--policy", file}, fromFile()},
		{"flags override the file", []string{
			"--memory", "2G", "--profile", "default", "--end-on-output=false", "--rootfs", "host",
			"--policy", file, "--ro", "/opt/b", "--allow", "no-denial-records",
		}, isolate.Policy{
			Memory: 2 * policy.GiB, PIDs: 7, Env: map[string]string{"LANG": "de"},
			ReadOnly: []policy.Bind{{Source: "/opt/a"}, {Source: "/opt/b"}},
			Allow:    []policy.Weakening{policy.WeakLimits, policy.NoDenialRecords},
		}},
		{"a flag that is repeated with the same value", []string{"--memory", "1G", "--memory=1G"}, isolate.Policy{Memory: policy.GiB}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{}
			got := call(t, f, dir, append(append([]string{"exec"}, c.args...), "--", "true")...)
			if got != (called{}) || f.opened != 1 {
				t.Fatalf("got %+v, opened %d times", got, f.opened)
			}
			if !reflect.DeepEqual(f.policy, c.want) {
				t.Errorf("policy\n got %+v\nwant %+v", f.policy, c.want)
			}
		})
	}
}

func fromFile() isolate.Policy {
	return isolate.Policy{
		Profile: policy.ProfileStrict, Memory: policy.GiB, PIDs: 7, EndOnOutput: policy.EndRun, Rootfs: "/srv/r",
		Env: map[string]string{"LANG": "de"}, ReadOnly: []policy.Bind{{Source: "/opt/a"}},
		Allow: []policy.Weakening{policy.WeakLimits},
	}
}

func TestFlagsToCmd(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "in/a.txt", "a")
	write(t, dir, "b.txt", "b")
	write(t, dir, "c:d.py", "c")
	write(t, dir, "c:e:f", "c")
	for _, c := range []struct {
		name string
		args []string
		want isolate.Cmd
	}{
		{"program", []string{"--", "echo", "--memory", "--", "-x"}, isolate.Cmd{Args: []string{"echo", "--memory", "--", "-x"}}},
		{"program without dashes", []string{"echo", "--memory", "--", "-x"}, isolate.Cmd{Args: []string{"echo", "--memory", "--", "-x"}}},
		{"program that looks like a flag", []string{"--", "-x"}, isolate.Cmd{Args: []string{"-x"}}},
		{"program called as a command", []string{"--", "exec", "help"}, isolate.Cmd{Args: []string{"exec", "help"}}},
		{"environment", []string{"--env", "A=1=2", "--env", "B=", "--env-from", "TOKEN", "--env-from=EMPTY", "--env", "A=1=2", "true"},
			isolate.Cmd{Args: []string{"true"}, Env: map[string]string{"A": "1=2", "B": "", "TOKEN": "s3cret", "EMPTY": ""}}},
		{"directory", []string{"--workdir", "/tmp/../opt/", "true"}, isolate.Cmd{Args: []string{"true"}, Dir: "/opt"}},
		{"directory below the workspace", []string{"--workdir", "src", "true"}, isolate.Cmd{Args: []string{"true"}, Dir: "/workspace/src"}},
		{"files", []string{"--in", "in", "--in", filepath.Join(dir, "b.txt") + ":sub/c.txt", "--out", "o", "true"},
			isolate.Cmd{
				Args: []string{"true"}, Out: filepath.Join(dir, "o"),
				In: []isolate.Input{{Source: filepath.Join(dir, "in")}, {Source: filepath.Join(dir, "b.txt"), Target: "sub/c.txt"}},
			}},
		{"files with colons", []string{"--in", "c:d.py", "--in", "c:d.py:x.py", "--in", "c:e:f", "--in", "c:e:f:y", "true"},
			isolate.Cmd{
				Args: []string{"true"},
				In: []isolate.Input{
					{Source: filepath.Join(dir, "c:d.py")}, {Source: filepath.Join(dir, "c:d.py"), Target: "x.py"},
					{Source: filepath.Join(dir, "c:e:f")}, {Source: filepath.Join(dir, "c:e:f"), Target: "y"},
				},
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{}
			if got := call(t, f, dir, append([]string{"exec"}, c.args...)...); got != (called{}) || f.opened != 1 {
				t.Fatalf("got %+v, opened %d times", got, f.opened)
			}
			if !maps.Equal(f.cmd.Env, c.want.Env) {
				t.Errorf("environment %v, want %v", f.cmd.Env, c.want.Env)
			}
			if f.cmd.Stdout == nil || f.cmd.Stderr == nil || f.cmd.Stdin != nil || f.cmd.Terminal != nil {
				t.Errorf("streams of %+v", f.cmd)
			}
			f.cmd.Env, f.cmd.Stdout, f.cmd.Stderr, c.want.Env = nil, nil, nil, nil
			if !reflect.DeepEqual(f.cmd, c.want) {
				t.Errorf("command\n got %+v\nwant %+v", f.cmd, c.want)
			}
		})
	}
}

func TestStdinIsConnectedWhenAsked(t *testing.T) {
	f := &fake{}
	if got := call(t, f, "/", "exec", "--stdin", "cat"); got != (called{}) {
		t.Fatalf("got %+v", got)
	}
	if f.cmd.Stdin == nil {
		t.Error("the program has no standard input")
	}
}

// Every flag has its help, and there is no help without a flag.
func TestFlagHelp(t *testing.T) {
	help, used := flagHelp(), map[string]bool{}
	for _, s := range slices.Concat(sandboxFlags(), streamFlags(), programFlags(), serveFlags(), listFlags(), auditReadFlags(), grantFlags(), benchFlags(),
		leaseFlags(), visitFlags(), remoteFlags(flagSpec{name: "all"}, flagSpec{name: "json"}, flagSpec{name: "follow"}, flagSpec{name: "mode"})) {
		if help[s.name] == "" {
			t.Errorf("--%s has no help", s.name)
		}
		used[s.name] = true
	}
	for name := range help {
		if !used[name] {
			t.Errorf("there is help for --%s, which is no flag", name)
		}
	}
}
