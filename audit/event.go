package audit

// Name is the name of an event.
type Name string

// Event is one of the types of this file; the vocabulary is closed. A field's
// "doc" tag is its line in docs/audit-events.md.
type Event interface{ event() Name }

// Of a run.

// RunStart is the first record of a run. Log.Run fills Cert in.
type RunStart struct {
	Cert       string   `json:"cert" doc:"note in which the host key vouches for the key of this run"`
	Isolate    string   `json:"isolate,omitempty" doc:"version of isolate"`
	Kernel     string   `json:"kernel,omitempty" doc:"release of the kernel"`
	Plan       string   `json:"plan" doc:"digest of the plan in force, also the envelope's policy"`
	Filter     string   `json:"filter,omitempty" doc:"digest of the compiled system-call filter"`
	Profile    string   `json:"profile,omitempty" doc:"name of the system-call profile"`
	Net        string   `json:"net,omitempty" doc:"network mode"`
	Root       string   `json:"root,omitempty" doc:"root file system: host, or a directory"`
	View       string   `json:"view,omitempty" doc:"digest of what the root file system is put together from; not of what the files hold"`
	Identity   string   `json:"identity,omitempty" doc:"whose kernel user id the program has"`
	LimitsBy   string   `json:"limits_by,omitempty" doc:"what enforces the limits"`
	Memory     int64    `json:"memory_bytes,omitempty" doc:"limit"`
	PIDs       int64    `json:"pids,omitempty" doc:"limit"`
	Wall       int64    `json:"wall_ms,omitempty" doc:"limit"`
	Weakenings []string `json:"weakenings,omitempty" doc:"consented weakenings that are in force"`
	Kept       bool     `json:"kept,omitempty" doc:"a kept sandbox: programs follow as program.start"`
}

// ProgramStart says what is about to run.
type ProgramStart struct {
	Program string   `json:"program" doc:"the program as it was asked for"`
	File    string   `json:"file,omitempty" doc:"the program file that it runs, as it was named; - is standard input"`
	Args    *Payload `json:"args,omitempty" doc:"its argument list, the program included, as a JSON array"`
	Dir     string   `json:"dir,omitempty" doc:"working directory"`
	Env     []string `json:"env,omitempty" doc:"names of the variables that were added; never their values"`
}

// ProgramEnd says how a program of a run ended.
type ProgramEnd struct {
	Reason     string `json:"reason" doc:"exit, signal, wall, cpu, oom, pids, disk, output, policy, cancelled or sandbox-error"`
	ExitCode   int    `json:"exit_code" doc:"the program's own code, or 128+N after signal N"`
	Signal     int    `json:"signal,omitempty" doc:"number of the signal that ended it"`
	NotStarted string `json:"not_started,omitempty" doc:"not-found or not-executable"`
	Wall       int64  `json:"wall_us" doc:"microseconds from start to end"`
	CPU        int64  `json:"cpu_us" doc:"processor time of all processes, microseconds"`
	Memory     int64  `json:"memory_peak_bytes,omitempty" doc:"highest memory use"`
	Stdout     int64  `json:"stdout_bytes" doc:"bytes written to standard output"`
	Stderr     int64  `json:"stderr_bytes" doc:"bytes written to standard error"`
	// The digests are of all that was written, also what was not kept.
	StdoutSHA256 string `json:"stdout_sha256,omitempty" doc:"digest of them; none of a terminal"`
	StderrSHA256 string `json:"stderr_sha256,omitempty" doc:"digest of them; none of a terminal"`
}

// SocketBlocked is one refused socket call.
type SocketBlocked struct {
	Call    string `json:"call" doc:"name of the system call"`
	Family  string `json:"family,omitempty" doc:"address family"`
	Type    string `json:"type,omitempty" doc:"socket type"`
	Address string `json:"address,omitempty" doc:"destination; \"unreadable\" if the program gave none that is one"`
	Port    int    `json:"port,omitempty" doc:"destination port"`
	PID     int    `json:"pid,omitempty" doc:"process, as the host numbers it"`
	Exe     string `json:"exe,omitempty" doc:"executable of that process"`
	Errno   string `json:"errno" doc:"error the program got"`
	Elapsed int64  `json:"elapsed_us" doc:"microseconds since the sandbox was made"`
}

// SyscallDenied is one refused call that is an indicator of an escape attempt.
type SyscallDenied struct {
	Call    string `json:"call" doc:"name of the system call"`
	PID     int    `json:"pid,omitempty" doc:"process, as the host numbers it"`
	Exe     string `json:"exe,omitempty" doc:"executable of that process"`
	Errno   string `json:"errno" doc:"error the program got"`
	Elapsed int64  `json:"elapsed_us" doc:"microseconds since the sandbox was made"`
}

// BlockedCounts are the exact counts behind the listed refusals.
type BlockedCounts struct {
	Total  int64            `json:"total" doc:"refused calls of this program in all"`
	Folded int64            `json:"folded" doc:"how many of them have no record of their own"`
	ByCall map[string]int64 `json:"by_call,omitempty" doc:"count per system call"`
	// Unrouted is counted by the kernel, not by who refuses calls.
	Unrouted int64 `json:"unrouted,omitempty" doc:"packets and connections beside them that the sandbox's network had no route for: destinations that only sendmsg names, or that were exchanged in a race"`
}

// CallAccepted is durable before the tool runs.
type CallAccepted struct {
	Call    int64    `json:"call" doc:"number of the call in its run"`
	ID      string   `json:"id,omitempty" doc:"the program's own id of the call"`
	Tool    string   `json:"tool" doc:"name of the tool"`
	Source  string   `json:"source,omitempty" doc:"where the tool comes from"`
	Via     string   `json:"via,omitempty" doc:"transport: file or socket"`
	Args    *Payload `json:"args,omitempty" doc:"canonical arguments as the tool gets them"`
	Request int64    `json:"request_bytes,omitempty" doc:"size of the request"`
}

// CallFinished is durable before any later record of its run, and 20 ms later at
// most: the program may see the answer before.
type CallFinished struct {
	Call     int64  `json:"call" doc:"number of the call in its run"`
	ID       string `json:"id,omitempty" doc:"the program's own id of the call"`
	Tool     string `json:"tool" doc:"name of the tool"`
	Decision string `json:"decision" doc:"done, failed or unknown (the run ended meanwhile)"`
	Class    string `json:"class,omitempty" doc:"class of the error that was answered"`
	Code     string `json:"code,omitempty" doc:"code of the error that was answered"`
	Wall     int64  `json:"wall_us" doc:"microseconds from admission to answer"`
	Waited   int64  `json:"waited_us,omitempty" doc:"microseconds of it in which a person decided"`
	Response int64  `json:"response_bytes" doc:"size of the answer"`
}

// CallRefused is a call whose tool did not run.
type CallRefused struct {
	Call    int64    `json:"call,omitempty" doc:"number of the call in its run; none if it was never admitted"`
	ID      string   `json:"id,omitempty" doc:"the program's own id of the call"`
	Tool    string   `json:"tool,omitempty" doc:"name of the tool, as far as it was read"`
	Via     string   `json:"via,omitempty" doc:"transport: file or socket"`
	Class   string   `json:"class,omitempty" doc:"class of the error that was answered"`
	Code    string   `json:"code,omitempty" doc:"code of the error that was answered"`
	Args    *Payload `json:"args,omitempty" doc:"arguments, if they were read"`
	Request int64    `json:"request_bytes,omitempty" doc:"size of the request"`
	Wall    int64    `json:"wall_us" doc:"microseconds from admission to answer"`
}

// CallDiscarded is a result that came after the run had ended.
type CallDiscarded struct {
	Call int64  `json:"call" doc:"number of the call in its run"`
	ID   string `json:"id,omitempty" doc:"the program's own id of the call"`
	Tool string `json:"tool" doc:"name of the tool"`
	Wall int64  `json:"wall_us" doc:"microseconds from admission to result"`
}

// Approval is a decision of a person, or of who stands in for one.
type Approval struct {
	Call    int64    `json:"call" doc:"number of the call in its run"`
	ID      string   `json:"id,omitempty" doc:"the program's own id of the call"`
	Tool    string   `json:"tool" doc:"name of the tool"`
	Verdict string   `json:"verdict" doc:"what was decided"`
	By      string   `json:"by" doc:"who decided, or why nobody did"`
	Reason  string   `json:"reason,omitempty" doc:"their words"`
	Edited  *Payload `json:"edited,omitempty" doc:"arguments as the person changed them"`
	Waited  int64    `json:"waited_us,omitempty" doc:"microseconds the decision took"`
}

// BridgeTotals are the broker's own counts at its end, by which the records of
// calls can be checked for completeness.
type BridgeTotals struct {
	Accepted int64 `json:"accepted" doc:"calls that count against the cap"`
	Done     int64 `json:"done" doc:"answered, with a result or the tool's error"`
	Failed   int64 `json:"failed" doc:"part of done: answered with an error"`
	Refused  int64 `json:"refused" doc:"tool did not run"`
	Folded   int64 `json:"folded,omitempty" doc:"part of refused: not listed one by one"`
	Unknown  int64 `json:"unknown" doc:"run ended while the tool ran"`
	Ignored  int64 `json:"ignored" doc:"files whose names are no request's"`
}

// LimitHit is a limit that was met.
type LimitHit struct {
	Limit string `json:"limit" doc:"wall, cpu, oom, pids, disk or output"`
	Count int64  `json:"count,omitempty" doc:"how often, where that is counted"`
}

// OutputTruncated is output that was not kept.
type OutputTruncated struct {
	Stream  string `json:"stream" doc:"stdout or stderr"`
	Total   int64  `json:"total_bytes" doc:"bytes the program wrote"`
	Dropped int64  `json:"dropped_bytes" doc:"bytes of them that were thrown away"`
}

// FilesCopied sums up what was copied in or out.
type FilesCopied struct {
	Way      string `json:"way" doc:"in or out"`
	Files    int64  `json:"files" doc:"how many were copied"`
	Bytes    int64  `json:"bytes" doc:"their size"`
	Skipped  int64  `json:"skipped" doc:"how many were left out"`
	Manifest string `json:"manifest" doc:"SHA-256 of the manifest as JSON"`
}

// FileCopied is one of the first files that were copied.
type FileCopied struct {
	Way    string `json:"way" doc:"in or out"`
	Path   string `json:"path" doc:"path relative to the workspace"`
	Size   int64  `json:"size" doc:"bytes"`
	SHA256 string `json:"sha256" doc:"digest of the bytes"`
}

// RunEnd is the last record of a run. Run.Close fills Records and Counts in.
type RunEnd struct {
	Reason  string           `json:"reason" doc:"as in program.end, or closed for a kept sandbox"`
	Error   string           `json:"error,omitempty" doc:"why the sandbox did not do its job"`
	Records int64            `json:"records" doc:"number of records in this log, this one included"`
	Counts  map[string]int64 `json:"counts" doc:"number of records per event, this one included"`
	Blocked int64            `json:"blocked" doc:"refused calls in all, counted by who refused them"`
}

// Of the host log.

// LogCreated is the first record of the host log.
type LogCreated struct {
	Origin string `json:"origin" doc:"name of the log for ever"`
	Key    string `json:"key" doc:"first host key, public half"`
}

// RunOpened says that a run is about to begin.
type RunOpened struct {
	Run string `json:"run" doc:"id of the run"`
	Key string `json:"key" doc:"public half of its key"`
}

// RunSealed says what the log of a run was at its end.
type RunSealed struct {
	Run   string `json:"run" doc:"id of the run"`
	Size  int64  `json:"size" doc:"number of its records"`
	Root  string `json:"root" doc:"hash of their tree"`
	Ended string `json:"ended" doc:"end: run.end is its last record; recovered: the process died, and this was found"`
	Cut   int64  `json:"cut_bytes,omitempty" doc:"bytes of an unfinished write that were cut off a recovered log; nobody was told that they were written"`
}

// RunRefused is a run that was refused before there was a sandbox. It has no log.
type RunRefused struct {
	Program string   `json:"program,omitempty" doc:"the program as it was asked for; none if nothing can run here"`
	Plan    string   `json:"plan,omitempty" doc:"digest of the plan, if there was one"`
	Reasons []string `json:"reasons" doc:"every point that was refused, and the rule"`
}

// LogRecovered says that an unfinished write was cut off the host log.
type LogRecovered struct {
	Cut int64 `json:"cut_bytes" doc:"bytes cut off; nobody was told that they were written"`
}

// KeyRotated ends the life of the host key. The checkpoint behind it is signed
// by both keys, later ones by the new.
type KeyRotated struct {
	Key string `json:"key" doc:"public half of the new host key"`
}

func (RunStart) event() Name        { return "run.start" }
func (ProgramStart) event() Name    { return "program.start" }
func (ProgramEnd) event() Name      { return "program.end" }
func (SocketBlocked) event() Name   { return "socket.blocked" }
func (SyscallDenied) event() Name   { return "syscall.denied" }
func (BlockedCounts) event() Name   { return "blocked.counts" }
func (CallAccepted) event() Name    { return "call.accepted" }
func (CallFinished) event() Name    { return "call.finished" }
func (CallRefused) event() Name     { return "call.refused" }
func (CallDiscarded) event() Name   { return "call.discarded" }
func (Approval) event() Name        { return "approval" }
func (BridgeTotals) event() Name    { return "bridge.totals" }
func (LimitHit) event() Name        { return "limit.hit" }
func (OutputTruncated) event() Name { return "output.truncated" }
func (FilesCopied) event() Name     { return "files.copied" }
func (FileCopied) event() Name      { return "file.copied" }
func (RunEnd) event() Name          { return "run.end" }
func (LogCreated) event() Name      { return "log.created" }
func (RunOpened) event() Name       { return "run.opened" }
func (RunSealed) event() Name       { return "run.sealed" }
func (RunRefused) event() Name      { return "run.refused" }
func (LogRecovered) event() Name    { return "log.recovered" }
func (KeyRotated) event() Name      { return "key.rotated" }
