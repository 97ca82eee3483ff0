//go:build linux

package seccompprofile

import "github.com/isolate-run/isolate/policy"

// absents are the calls that were left out on purpose. The default action
// answers them with ENOSYS, which is what an older kernel says, so that
// libraries fall back.
var absents = []absent{{
	calls: `clone3`,
	why:   "its flags are behind a pointer; ENOSYS makes the C library use clone, EPERM would not",
}, {
	calls: `open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
		statmount listmount listns`,
	why: "the newer mount interface; libraries fall back to mount, which is refused and recorded",
}, {
	calls: `io_uring_setup io_uring_enter io_uring_register`,
	why:   "does file and socket operations that no filter sees; libuv probes it and falls back",
}, {
	calls: `futex_waitv futex_wake futex_wait futex_requeue`,
	why:   "the newer futex interface (CVE-2026-43499 is its neighbour); nothing surveyed needs it",
}, {
	calls: `sendmmsg recvmmsg`,
	why:   "flags and addresses of many messages in memory; the C library sends one by one",
}, {
	calls: `mbind set_mempolicy get_mempolicy set_mempolicy_home_node move_pages migrate_pages`,
	why:   "placement in a host's memory; libnuma takes ENOSYS for a machine without nodes",
}, {
	calls: `memfd_secret remap_file_pages lsm_get_self_attr lsm_set_self_attr
		lsm_list_modules name_to_handle_at fanotify_mark`,
	why: "kernel surface that nothing surveyed needs",
}, {
	calls: `copy_file_range memfd_create openat2 execveat`,
	in:    []policy.Profile{policy.ProfileStrict},
	why:   "the survey's programs fall back",
}, {
	calls: `shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv
		msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
		io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents`,
	in:  []policy.Profile{policy.ProfileStrict, policy.ProfileDefault},
	why: "older interfaces with a history of kernel bugs; profile compat has them",
}, {
	calls: `mlockall munlockall landlock_create_ruleset landlock_add_rule
		landlock_restrict_self process_mrelease ioprio_get ioprio_set sync cachestat
		map_shadow_stack`,
	in:  []policy.Profile{policy.ProfileStrict, policy.ProfileDefault},
	why: "kernel surface that nothing surveyed needs; profile compat has it",
}}
