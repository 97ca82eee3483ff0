//go:build linux

package denial

import (
	"slices"

	"golang.org/x/sys/unix"
)

// calls are the system calls that the filters of package seccompprofile send
// here, by number; a test compares the two lists. The others of a filter of
// somebody else are answered as well and counted as "other".
var calls = map[int]string{
	unix.SYS_SOCKET:     "socket",
	unix.SYS_SOCKETPAIR: "socketpair",
	unix.SYS_CONNECT:    "connect",
	unix.SYS_SENDTO:     "sendto",

	unix.SYS_CLONE:      "clone",
	unix.SYS_UNSHARE:    "unshare",
	unix.SYS_SETNS:      "setns",
	unix.SYS_MOUNT:      "mount",
	unix.SYS_UMOUNT2:    "umount2",
	unix.SYS_PIVOT_ROOT: "pivot_root",
	unix.SYS_CHROOT:     "chroot",

	unix.SYS_PTRACE:            "ptrace",
	unix.SYS_PROCESS_VM_READV:  "process_vm_readv",
	unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev",
	unix.SYS_PIDFD_GETFD:       "pidfd_getfd",
	unix.SYS_KCMP:              "kcmp",
	unix.SYS_BPF:               "bpf",
	unix.SYS_PERF_EVENT_OPEN:   "perf_event_open",
	unix.SYS_USERFAULTFD:       "userfaultfd",
	unix.SYS_FANOTIFY_INIT:     "fanotify_init",
	unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at",

	unix.SYS_ADD_KEY:     "add_key",
	unix.SYS_REQUEST_KEY: "request_key",
	unix.SYS_KEYCTL:      "keyctl",

	unix.SYS_INIT_MODULE:     "init_module",
	unix.SYS_FINIT_MODULE:    "finit_module",
	unix.SYS_DELETE_MODULE:   "delete_module",
	unix.SYS_KEXEC_LOAD:      "kexec_load",
	unix.SYS_KEXEC_FILE_LOAD: "kexec_file_load",
	unix.SYS_REBOOT:          "reboot",
	unix.SYS_SWAPON:          "swapon",
	unix.SYS_SWAPOFF:         "swapoff",
}

func callName(nr int) string {
	if name, ok := calls[nr]; ok {
		return name
	}
	if name, ok := archCalls[nr]; ok {
		return name
	}
	return "other"
}

// Calls are the names of the system calls that are known here, sorted.
func Calls() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[int]string{calls, archCalls} {
			for _, name := range m {
				if !yield(name) {
					return
				}
			}
		}
	})
}
