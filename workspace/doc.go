// Package workspace moves files between the host and a sandbox's /workspace,
// by directory handle, and lists in a manifest what it moved and what it left
// out, with the reason.
//
// Going in, CopyIn takes host files and directories that the user named. Going
// out, CopyOut takes a tree that a hostile program made and may still be
// changing: no link of it is followed, only regular files with one name are
// read, each of them once, and the digest in the manifest is of the bytes that
// were written. Both are bounded in entries, bytes and depth by Limits.
//
// It does not make or clean the workspace, does not run anything, keeps no
// owner, time stamp, access list or extended attribute, and does not read what
// the files say. docs/files.md says all of this for users.
//
// Kernel: what package dirfd needs; SEEK_DATA and SEEK_HOLE are used where the
// file system has them.
package workspace
