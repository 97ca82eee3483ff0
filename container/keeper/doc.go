// Package keeper is what runs on the far side of the clone, and the words the
// supervisor speaks with it.
//
// It knows nothing of policies or limits: package container decides what
// happens, writes it down as a tape, and the far side does it. It needs Linux
// 5.9 (close_range) and cgo.
//
// # Processes
//
//	supervisor (Go)
//	  └ keeper   PID 1 of a cell; executed where libcontainer's nsexec ends;
//	    │        runs the tapes that build the cell's root, then forks seats
//	    └ seat   lives in one cgroup leaf, so that whatever it clones is born
//	      │      there; clones one sandbox after the other; holds the network
//	      │      namespace of those that have no way out
//	      └ init PID 1 of a sandbox, in new user, pid, mount, ipc and uts
//	        │    namespaces; runs the set-up tape, which ends with every
//	        │    capability dropped; then forks programs, reaps, reports
//	        └ program   runs a tape that ends with waiting for another one,
//	                    which ends in execve
//
// A keeper can also have a template: an interpreter that it executes in the
// cell, and that then maps the same code and serves as the keeper does. Seat,
// init and program below a template are forks of the interpreter, and its
// programs end their tape by returning to it.
//
// All four are the same few KiB of C (keeper.c, far.c): no libc, no data, no heap,
// no file of the root file system. Image wraps them into an ELF file.
//
// # The ladder
//
// Every socket is a SOCK_SEQPACKET pair made by the supervisor; one message is
// one datagram. The far side ends when its socket ends, and when PID 1 of a
// namespace ends the kernel ends the rest.
//
//	supervisor            keeper (its control socket)
//	  MSG_TAPE  ───────►    run the tape         ──► REP_DONE | REP_FAIL
//	  MSG_SEAT  ───────►    fork a seat          ──► REP_DONE | REP_FAIL
//	  MSG_TEMPLATE ────►    fork a template      ──► REP_DONE | REP_FAIL
//	supervisor            template (the first descriptor of MSG_TEMPLATE)
//	                        run its tape, execve ──► REP_FAIL
//	  MSG_SEAT  ───────►    fork a seat          ──► REP_DONE | REP_FAIL
//	supervisor            seat (the first descriptor of MSG_SEAT)
//	                        enter its leaf       ──► REP_DONE (its credentials are its pid) | REP_FAIL
//	  MSG_TAPE  ───────►    run the tape         ──► REP_DONE | REP_FAIL
//	  MSG_SANDBOX ─────►    clone an init        ──► REP_CLONED + pidfd | REP_FAIL
//	supervisor            init (the first descriptor of MSG_SANDBOX)
//	                        run the set-up tape  ──► REP_READY (sent by the tape) | REP_FAIL
//	  MSG_SPAWN ───────►    fork a program
//	  MSG_SIGNAL ──────►    signal a program's process group, or everything
//	                        program ended        ──► REP_EXIT
//	supervisor            program (the first descriptor of MSG_SPAWN)
//	                        run its tape         ──► REP_READY | REP_FAIL
//	  MSG_TAPE ────────►    go on with this one  ──► REP_READY | REP_FAIL
//	  one byte ────────►    execve, or return    ──► end of file | REP_FAIL
//
// REP_EXIT is sent after init has killed and reaped every other process of the
// namespace when no further program runs there: whoever has it knows that the
// tree is dead.
//
// # Tapes
//
// A tape is a list of system calls with their arguments, written by Builder.
// Pointers are offsets to what stands behind the list; results can be kept in
// registers for later operations. The descriptors that come with a message are
// the first registers. A failed operation is reported by its number, and
// Tape.Steps says what it was: StageError carries stage, operation and errno.
package keeper
