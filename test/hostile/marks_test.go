package hostile

import (
	"strings"
	"testing"

	"github.com/isolate-run/isolate"
	"github.com/isolate-run/isolate/internal/testenv"
	"github.com/isolate-run/isolate/policy"
)

// A43: a sandbox may get the network namespace of the one before it. Whatever a
// program left there, the next one sees what the first ever saw; and who leaves
// nothing passes the namespace on, so that this test is one of namespaces that
// are used again.
func TestNetworkMarks(t *testing.T) {
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			// one sandbox at a time, so that each comes to the seat of the last
			l := newLabWith(t, isolate.Options{Spares: isolate.NoSpares, MaxSandboxes: 1}, testenv.Python3)
			pol := isolate.Policy{Profile: p}
			namespace := func() string { return l.shell(t, pol, "readlink /proc/self/ns/net") }
			look := func() string {
				res := l.run(t, pol, script(t, "net_marks.py", "look"))
				if res.ExitCode != 0 {
					t.Fatalf("cannot see the network of a sandbox: %s", res.Stderr.Kept)
				}
				return string(res.Stdout.Kept)
			}
			first := look()
			if !strings.Contains(first, "sockstat sockets: used 0\n") || !strings.Contains(first, "name: 111\n") {
				t.Fatalf("the network of a new sandbox:\n%s", first)
			}
			for _, mark := range []string{"tcp", "unread", "udp", "nowhere", "group", "label", "made", "flying", "nothing"} {
				before := namespace()
				res := l.run(t, pol, script(t, "net_marks.py", mark))
				left := string(res.Stdout.Kept) == "left\n"
				ip := mark != "flying" && mark != "nothing"
				if want := !ip || p != policy.ProfileStrict; left != want {
					t.Errorf("%s: left a mark: %t, want %t: %s", mark, left, want, res.Stderr.Kept)
				}
				again := namespace() == before
				if ip && left && again {
					t.Errorf("%s: the marked namespace is used again", mark)
				}
				if mark == "nothing" && !again {
					t.Errorf("%s: the namespace is not used again", mark)
				}
				if d := differences(first, look()); d != "" {
					t.Errorf("%s: the first sandbox sees (-), and the next one (+)\n%s", mark, d)
				}
			}
		})
	}
}

// differences are the lines of two texts that are not the same.
func differences(a, b string) string {
	was, is := strings.Split(a, "\n"), strings.Split(b, "\n")
	var d strings.Builder
	for i := range max(len(was), len(is)) {
		switch {
		case i >= len(was):
			d.WriteString("+" + is[i] + "\n")
		case i >= len(is):
			d.WriteString("-" + was[i] + "\n")
		case was[i] != is[i]:
			d.WriteString("-" + was[i] + "\n+" + is[i] + "\n")
		}
	}
	return d.String()
}
