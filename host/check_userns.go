package host

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

func checkUsernsMax(s *sight) Check {
	if !s.o.exists("/proc/self/ns/user") {
		return s.say(&usernsMax, &usernsAbsent, Fail, "/proc/self/ns/user does not exist")
	}
	n, ok := s.o.sysctl("user.max_user_namespaces")
	if !ok {
		return usernsMax.info("/proc/self/ns/user exists; user.max_user_namespaces cannot be read")
	}
	seen := fmt.Sprintf("user.max_user_namespaces is %d", n)
	if n == 0 {
		return s.say(&usernsMax, &usernsMaxZero, Fail, seen)
	}
	return usernsMax.ok(seen)
}

func checkUsernsClone(s *sight) Check {
	n, ok := s.o.sysctl("kernel.unprivileged_userns_clone")
	if !ok {
		return usernsClone.ok("kernel.unprivileged_userns_clone does not exist on this kernel")
	}
	seen := fmt.Sprintf("kernel.unprivileged_userns_clone is %d", n)
	switch {
	case n != 0:
		return usernsClone.ok(seen)
	case s.o.UID == 0:
		return usernsClone.info(seen + ", which does not concern root")
	}
	return s.say(&usernsClone, &usernsCloneZero, Fail, seen)
}

func checkUsernsApparmor(s *sight) Check {
	n, ok := s.o.sysctl("kernel.apparmor_restrict_unprivileged_userns")
	if !ok {
		return usernsApparmor.ok("kernel.apparmor_restrict_unprivileged_userns does not exist on this kernel")
	}
	seen := fmt.Sprintf("kernel.apparmor_restrict_unprivileged_userns is %d", n)
	switch {
	case n == 0:
		return usernsApparmor.ok(seen)
	case s.o.UID == 0:
		return usernsApparmor.info(seen + ", which does not concern root")
	case !s.done:
		return s.say(&usernsApparmor, &usernsApparmorMaybe, Warn, seen)
	}
	for _, p := range []string{usernsCreate.id, mountTmpfs.id} {
		f, ok := s.answer.find(p)
		if !ok {
			f.Step = s.answer.Err
		}
		if !ok || f.Errno != 0 {
			c := s.say(&usernsApparmor, &usernsApparmorOn, Fail, seen+"; tried: "+f.evidence())
			c.cause = f.Errno
			return c
		}
	}
	return usernsApparmor.ok(seen + "; did: make a user namespace and mount in it, so a profile permits it")
}

func checkNamespaceLimits(s *sight) Check {
	var zero []string
	for _, ns := range []string{"mnt", "pid", "net", "ipc", "uts"} {
		if n, ok := s.o.sysctl("user.max_" + ns + "_namespaces"); ok && n == 0 {
			zero = append(zero, "user.max_"+ns+"_namespaces is 0")
		}
	}
	if len(zero) > 0 {
		return s.say(&namespaceLimits, &namespacesZero, Fail, strings.Join(zero, ", "))
	}
	return namespaceLimits.ok("none of user.max_{mnt,pid,net,ipc,uts}_namespaces is 0")
}

func checkUsernsCreate(s *sight) Check {
	return s.byDoing(&usernsCreate, func(f Finding) (*fault, Status) {
		restricted, _ := s.o.sysctl("kernel.apparmor_restrict_unprivileged_userns")
		switch {
		case f.Detail != "": // it works from the file
			return &usernsCreateMemfd, Fail
		case f.Errno == Errno(unix.ENOSPC) || f.Errno == Errno(unix.EUSERS):
			return &usernsCreateLimit, Fail
		case restricted != 0 && s.o.UID != 0:
			return &usernsApparmorOn, Fail
		case s.nest.kind == nestKubernetes:
			return &usernsCreateKube, Fail
		case s.nest.kind != "":
			return &usernsCreateDocker, Fail
		}
		return &usernsCreateRefused, Fail
	})
}

func checkUsernsNested(s *sight) Check {
	return s.byDoing(&usernsNested, always(&usernsNestedRefused))
}

func checkUsernsClose(s *sight) Check {
	return s.byDoing(&usernsClose, func(Finding) (*fault, Status) { return &usernsCloseRefused, Warn })
}

func checkLoopback(s *sight) Check { return s.byDoing(&netLoopback, always(&loopbackRefused)) }

func checkMountTmpfs(s *sight) Check { return s.byDoing(&mountTmpfs, always(&tmpfsRefused)) }

func checkMountBind(s *sight) Check { return s.byDoing(&mountBind, always(&bindRefused)) }

func checkMountPivot(s *sight) Check { return s.byDoing(&mountPivot, always(&pivotRefused)) }

func checkProcMount(s *sight) Check {
	c := s.byDoing(&procMount, func(Finding) (*fault, Status) {
		switch s.nest.kind {
		case nestKubernetes:
			return &procKube, Fail
		case nestPodman:
			return &procPodman, Fail
		case nestDocker:
			return &procDocker, Fail
		}
		return &procRefused, Fail
	})
	if m := s.procCovers(); c.Status == Fail && len(m) > 0 {
		c.Evidence += "; covered are " + strings.Join(m, ", ")
	}
	return c
}

func checkProcSubset(s *sight) Check {
	return s.byDoing(&procSubset, func(Finding) (*fault, Status) { return &procSubsetRefused, Warn })
}

// procCovers are the mounts that hide a part of /proc. As long as there are
// any, the kernel lets no user namespace mount a whole one.
func (s *sight) procCovers() []string {
	var covers []string
	for _, m := range s.mounts {
		if strings.HasPrefix(m.Mountpoint, "/proc/") && m.FSType != "binfmt_misc" && m.FSType != "autofs" {
			covers = append(covers, m.Mountpoint)
		}
	}
	return covers
}

// The containers whose remedies differ.
const (
	nestDocker     = "docker"
	nestPodman     = "podman"
	nestKubernetes = "kubernetes"
	nestOther      = "container"
)

// nesting is the container around this process.
type nesting struct {
	kind string // empty: none seen
	seen []string
}

// nesting looks for the traces containers leave. None of them is proof, so
// they choose words and never refuse.
func (o Options) nesting() nesting {
	var n nesting
	note := func(kind, seen string) {
		n.seen = append(n.seen, seen)
		if n.kind == "" || n.kind == nestOther {
			n.kind = kind
		}
	}
	if o.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		note(nestKubernetes, "$KUBERNETES_SERVICE_HOST is set")
	}
	groups := o.text("/proc/self/cgroup")
	for _, h := range []struct{ in, kind string }{
		{"kubepods", nestKubernetes}, {"/docker", nestDocker}, {"libpod", nestPodman},
		{"/lxc", nestOther}, {"machine.slice/", nestOther},
	} {
		if strings.Contains(groups, h.in) {
			note(h.kind, fmt.Sprintf("/proc/self/cgroup has %q", strings.Trim(h.in, "/")))
		}
	}
	if o.exists("/run/.containerenv") {
		note(nestPodman, "/run/.containerenv exists")
	}
	if o.exists("/.dockerenv") {
		note(nestDocker, "/.dockerenv exists")
	}
	for _, c := range []struct{ where, value string }{
		{"$container", o.Getenv("container")},
		{"/run/systemd/container", o.text("/run/systemd/container")},
	} {
		if c.value != "" {
			note(kindOf(c.value), fmt.Sprintf("%s is %q", c.where, c.value))
		}
	}
	return n
}

func kindOf(value string) string {
	switch v := path.Base(value); v {
	case nestDocker, nestPodman:
		return v
	case "oci":
		return nestPodman
	}
	return nestOther
}

func checkContainer(s *sight) Check {
	if s.nest.kind == "" {
		return containerAround.ok("no trace of one")
	}
	return containerAround.info("perhaps, of kind " + s.nest.kind + ": " + strings.Join(s.nest.seen, ", "))
}
