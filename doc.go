// Package isolate runs programs nobody has read, in sandboxes without network,
// as an ordinary user, and reports exactly how each one ended.
//
// Open a Runtime, Run a program, or keep a Sandbox for several. It needs Linux
// 5.14 or newer with user namespaces, and cgo with libseccomp to build (tag
// "seccomp"). Packages policy, plan and host hold the values it works with;
// this package is the only one that knows all others.
//
// Texts of refusals name settings by the flags of the command. A flag is the key
// of that name in a policy file and a field of Policy: --cpu-time is CPUTime.
// Those that are called otherwise are --time (Wall) and --ro (ReadOnly); --in,
// --out and --workdir are the In, Out and Dir of Cmd.
//
// Every program that imports it calls Init as the first statement of main:
//
//	func main() {
//		isolate.Init()
//		...
//	}
package isolate
