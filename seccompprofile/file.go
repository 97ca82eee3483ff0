//go:build linux

package seccompprofile

import "golang.org/x/sys/unix"

// Requests of ioctl that package unix has no name for. They are the same on
// all architectures this project runs on.
const (
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
	fioasync = 0x5452
)

// requests are the ioctls of descriptors and terminals. A terminal inside is
// the sandbox's own: /dev/pts is a private devpts, and with --tty a new pty.
// TIOCSTI and TIOCLINUX, which type into a terminal, are not among them, nor is
// anything of a file system (FICLONE, FS_IOC_*) or a device.
var requests = []uint64{
	unix.TIOCINQ /* FIONREAD */, unix.TIOCOUTQ, fionbio, fioasync, fioclex, fionclex,
	unix.TCGETS, unix.TCSETS, unix.TCSETSW, unix.TCSETSF,
	unix.TCGETS2, unix.TCSETS2, unix.TCSETSW2, unix.TCSETSF2,
	unix.TCSBRK, unix.TCSBRKP, unix.TCXONC, unix.TCFLSH,
	unix.TIOCGWINSZ, unix.TIOCSWINSZ,
	unix.TIOCGPGRP, unix.TIOCSPGRP, unix.TIOCGSID,
	unix.TIOCSCTTY, unix.TIOCNOTTY, unix.TIOCEXCL, unix.TIOCNXCL, unix.TIOCGEXCL,
	unix.TIOCGPTN, unix.TIOCSPTLCK, unix.TIOCGPTLCK, unix.TIOCGPTPEER,
	unix.TIOCPKT, unix.TIOCGPKT, unix.TIOCGDEV,
}

// interfaces are the requests that read the network interfaces, of which there
// is one: lo.
var interfaces = []uint64{
	unix.SIOCGIFCONF, unix.SIOCGIFFLAGS, unix.SIOCGIFADDR, unix.SIOCGIFDSTADDR,
	unix.SIOCGIFBRDADDR, unix.SIOCGIFNETMASK, unix.SIOCGIFMTU, unix.SIOCGIFHWADDR,
	unix.SIOCGIFINDEX, unix.SIOCGIFNAME,
}

// fileKind is the argument of mknod and mknodat: what is not a device.
func fileKind(mode uint) []rule {
	return []rule{
		{[]cond{bits(mode, unix.S_IFMT, unix.S_IFIFO)}, pass},
		{[]cond{bits(mode, unix.S_IFMT, unix.S_IFREG)}, pass},
		{[]cond{bits(mode, unix.S_IFMT, unix.S_IFSOCK)}, pass},
		{[]cond{bits(mode, unix.S_IFMT, 0)}, pass}, // means a regular file
	}
}

func fileSpecials() []special {
	return []special{{
		calls: "ioctl",
		why: `a list of requests under a mask of 32 bits: lists of refused ones failed twice on the
		upper half (CVE-2019-10063, CVE-2019-7303)`,
		in:        notCompat,
		rules:     each(1, requests...),
		otherwise: errno(unix.ENOTTY),
	}, {
		calls:     "ioctl",
		why:       "as in the other profiles, and reading the interfaces of the own network namespace",
		in:        onlyCompat,
		rules:     append(each(1, requests...), each(1, interfaces...)...),
		otherwise: errno(unix.ENOTTY),
	}, {
		calls:     "mknod",
		why:       "named pipes, no device",
		in:        notStrict,
		arch:      "amd64",
		rules:     fileKind(1),
		otherwise: errno(unix.EPERM),
	}, {
		calls:     "mknodat",
		why:       "named pipes, no device",
		in:        notStrict,
		rules:     fileKind(2),
		otherwise: errno(unix.EPERM),
	}, {
		calls:     "splice vmsplice tee",
		why:       "write to pages of files that are only readable (CVE-2026-31431); Go falls back on EINVAL only",
		otherwise: errno(unix.EINVAL),
	}, {
		calls:     "sendfile",
		why:       "as splice",
		in:        onlyStrict,
		otherwise: errno(unix.EINVAL),
	}, {
		calls: `setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr
		removexattrat`,
		why:       "cp and sed take EOPNOTSUPP in silence, EPERM not",
		otherwise: errno(unix.EOPNOTSUPP),
	}}
}
