// Package client speaks to a server of isolate: the types on the wire and the
// calls, as Go functions.
//
// It imports only the standard library, so that a program which wants nothing
// but a sandbox of a server stays small. It runs nothing itself and decides
// nothing: what a policy means, only the server knows. It needs a Unix socket
// and no Linux of a certain version.
package client

// SocketName is the name of the server's socket in the run-time directory.
const SocketName = "serve.sock"
