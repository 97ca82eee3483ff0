package host

import "fmt"

// checkNetDevice looks at the node. Root's sandboxes get a node of their own,
// so that its mode does not matter.
func checkNetDevice(s *sight) Check {
	const node = "/dev/net/tun"
	f, err := s.o.file(node)
	switch {
	case err != nil:
		return s.say(&netDevice, &netDeviceAbsent, Info, fmt.Sprintf("%s cannot be looked at: %s", node, errnoOf(err)))
	case f.Write != 0 && s.o.UID != 0:
		return s.say(&netDevice, &netDeviceClosed, Info, fmt.Sprintf("%s has mode %s: %s", node, octal(f.Mode), f.Write))
	}
	return netDevice.ok(fmt.Sprintf("%s has mode %s", node, octal(f.Mode)))
}

func checkNetHelper(s *sight) Check {
	if s.o.NetHelper == "" {
		return s.say(&netHelper, &netHelperAbsent, Info, "isolate-netd is neither beside this program nor in libexec/isolate")
	}
	return netHelper.ok("it is " + s.o.NetHelper)
}
