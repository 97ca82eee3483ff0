package client

// The door is the way of a whole command line to the server: `isolate exec`
// hands over its arguments, its working directory, a few variables and its
// descriptors, waits, and ends with the code it is told. The server carries
// the command out with the code that the command itself would have run, on
// the same streams. Numbers are little-endian.
//
//	command → server  frame, with the descriptors in its first message (SCM_RIGHTS)
//	command → server  one byte a signal, any number of times: its number
//	server → command  DoorStop and a signal, any number of times
//	server → command  DoorExit and the exit code, or
//	                  DoorCold and 0: nothing was done, do it yourself
//
// DoorStop means that the command uses its terminal as only who is in its
// foreground may: it stops itself and its process group with the signal, SIGTTIN
// or SIGTTOU. It passes SIGCONT on whenever it was continued, and the signal
// itself when it could not be stopped.
//
// The command has gone away when its side is closed; its run is cancelled. A
// server that closes its side without an answer has died.
//
// A frame is DoorMagic, the size of the body (4 bytes), and the body: how many
// arguments, variables and descriptors there are (4 bytes each); then, each
// ended by a NUL byte, the working directory, the arguments, the variables as
// NAME=VALUE, and the numbers of the descriptors, in the order they are passed.
// DoorTools in place of a number is a Unix stream socket on which the command
// serves the tools of its program; package bridge/loan has that conversation.
const (
	// DoorMagic begins a frame; its first byte begins no HTTP request. The
	// last one is the version of the protocol.
	DoorMagic = "\x00isolat\x01"
	// DoorHeader is the length of DoorMagic and the size.
	DoorHeader = len(DoorMagic) + 4
	// DoorMax is the largest body, in bytes. What is longer runs without a server.
	DoorMax = 1 << 20
	// DoorExit and DoorCold are the answers.
	DoorExit = 'x'
	DoorCold = 'c'
	// DoorStop is not yet one.
	DoorStop = 's'
	// DoorTools names the descriptor for tools.
	DoorTools = "tools"
	// ExitRefused is the exit code when isolate could not do its job.
	ExitRefused = 125
)
