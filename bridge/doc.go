// Package bridge lets a program without network call the host's tools, through
// files that it writes and the host answers.
//
// # Protocol
//
// The program sees one small file system at Dir:
//
//	/workspace/_rpc/req/req_<id>.json     written by the program, by rename
//	/workspace/_rpc/req/.text/            for requests that are texts, see below
//	/workspace/_rpc/resp/resp_<id>.json   written by the host, read-only inside
//	/workspace/_rpc/resp/resp_<id>.done   empty; made there, not moved, once the answer is whole
//	/workspace/_rpc/sdk/                  the generated modules, read-only inside
//
// A request is {"tool": NAME, "args": {…}}; "id", which must be the name's, and
// "ack", a list of ids whose answers were read and may be removed, are optional.
// Nothing else is allowed. An id is 1 to 64 letters, digits, underscores or
// hyphens, of which the first is a letter or digit; it serves once.
// An answer is one of
//
//	{"id": ID, "tool": NAME, "seq": N, "status": "ok", "result": VALUE}
//	{"id": ID, "tool": NAME, "seq": N, "status": "error", "class": CLASS, "code": CODE, "details": …, "error": TEXT}
//
// in this order of fields, with these spaces and on one line, so that a shell
// script can take it apart; VALUE and details, null if there are none, have no
// space between their parts if the tool wrote none. CLASS is a Class, CODE a
// Code. A request file directly in Dir is served as well, and its answer is then
// also linked there.
//
// A request may also be a text: a symbolic link req/.text/req_<id>.json whose
// text, up to 4095 bytes, is the request. Nobody follows it. It is whole at
// once, and making it takes one system call, as does reading it. Its answer has
// no mark: resp_<id>.json is such a link as well, or a file if it is longer or
// space is short, and whole as soon as it is there. Our modules ask so.
//
// An answer stays until it is acknowledged. When space is short, the oldest ones
// that were not go: first those older than a second or followed by many others.
// A second request with an id whose answer is there, or on its way, gets no
// other; where it is gone, it gets CodeDuplicateID.
//
// # Five steps
//
// Claim: a request is renamed into a directory that only the host sees, judged
// and read into memory; claim.go has the steps. Decode: strictly, from
// that copy. Admit: known tool, arguments by its schema, limits, approval. Run:
// the tool, with its own time limit and a guard against panics. Reply: written
// under another name, renamed, then marked done. The Broker does the middle
// three for every transport; what is recorded of a call is the Record.
//
// The package starts no process and knows no sandbox: it gets directory handles.
// Tools that are commands or MCP servers are packages bridge/command and
// bridge/mcp; the modules a program imports are package bridge/stub.
//
// Kernel: inotify; openat2 of Linux 5.6 is used where it is there.
package bridge

// Dir is where the program finds the bridge.
const Dir = "/workspace/_rpc"

// Names of the parts of Dir.
const (
	ReqDir  = "req"
	RespDir = "resp"
	SDKDir  = "sdk"
	TextDir = ".text" // in ReqDir
)
