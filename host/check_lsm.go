package host

import (
	"fmt"
	"strings"
)

func checkApparmor(s *sight) Check {
	if s.o.text("/sys/module/apparmor/parameters/enabled") != "Y" {
		return lsmApparmor.ok("AppArmor is not enabled")
	}
	label := s.o.text("/proc/self/attr/apparmor/current")
	if label == "" {
		label = s.o.text("/proc/self/attr/current")
	}
	seen := fmt.Sprintf("AppArmor is enabled; the label is %q", label)
	// A profile with flags=(unconfined) reads "isolate (unconfined)".
	if label == "" || label == "unconfined" || strings.HasSuffix(label, "(unconfined)") {
		return lsmApparmor.ok(seen)
	}
	return s.say(&lsmApparmor, &apparmorConfines, Warn, seen)
}

func checkSELinux(s *sight) Check {
	enforce, ok := s.o.number("/sys/fs/selinux/enforce")
	if !ok {
		return lsmSELinux.ok("SELinux is not enabled")
	}
	label := strings.TrimRight(s.o.text("/proc/self/attr/current"), "\x00")
	seen := fmt.Sprintf("enforcing is %d; the label is %q", enforce, label)
	if enforce == 0 || strings.Contains(label, ":unconfined_t:") {
		return lsmSELinux.ok(seen)
	}
	return s.say(&lsmSELinux, &selinuxConfines, Warn, seen)
}
