package cli

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionCommand prints what this binary was built from.
func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: versionShort, Long: versionLong, DisableFlagsInUseLine: true}
	return a.plain(cmd, a.printVersion)
}

func (a *app) printVersion() error {
	info, _ := debug.ReadBuildInfo()
	_, err := io.WriteString(a.stdout, versionText(info, libseccomp()))
	return err
}

// thisRevision is the revision of this binary.
func thisRevision() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		info = &debug.BuildInfo{}
	}
	return revision(info)
}

// runcModule is where libcontainer comes from.
const runcModule = "github.com/opencontainers/runc"

// versionText describes a build. A binary built outside a checkout, or by an
// unusual tool, knows less of itself: info may be nil.
func versionText(info *debug.BuildInfo, libseccomp string) string {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "isolate %s\n", revision(info))
	fmt.Fprintf(&b, "go %s\n", known(strings.TrimPrefix(info.GoVersion, "go")))
	fmt.Fprintf(&b, "libcontainer %s\n", known(moduleVersion(info, runcModule)))
	fmt.Fprintf(&b, "libseccomp %s\n", known(libseccomp))
	return b.String()
}

// revision is the version of the module if it has one, and the commit.
func revision(info *debug.BuildInfo) string {
	var commit, state string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			state = " with local changes"
		}
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "development build"
	}
	if commit == "" {
		return version
	}
	return fmt.Sprintf("%s (commit %s%s)", version, commit, state)
}

func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, m := range info.Deps {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return m.Version
	}
	return ""
}

func known(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
