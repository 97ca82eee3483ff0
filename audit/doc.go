// Package audit keeps a log that cannot be changed unseen: what every run was
// allowed, what was refused to it, which tools it called, how it ended.
//
// There is one ordered log per run and one host log, which says which runs
// there were and seals each. A record is one line of canonical JSON; the
// records are the leaves of an RFC 6962 tree, and each batch of records ends
// with a signed checkpoint of the tree (C2SP form). A record is durable when
// Append returns: callers write first and act then, and do not act when
// writing failed.
//
// A directory of logs looks like this:
//
//	host.log       the host log
//	host.hashes    the hashes of its tree, made anew if they do not fit
//	host.key       the verifier key, for convenience: nobody has to believe it
//	open/ID.log    runs that go on, locked by the process that writes them
//	runs/DAY/ID.log  runs that have ended
//
// Each log is a sequence of frames, one a line but for the checkpoints:
//
//	r LENGTH CRC {"data":{…},"event":"run.start","seq":0,…}
//	c LENGTH CRC origin, size and root on three lines, a blank, signatures
//
// LENGTH and CRC (CRC-32C of the kind and the payload) are eight hexadecimal
// digits. The first record after a checkpoint holds the checkpoint's digest
// ("after"), so that the last signature vouches for all earlier ones.
//
// It does not see anything itself, sends nothing anywhere, and cannot detect
// alone that a whole directory was set back or that the holder of the key wrote
// it anew: that takes a memory elsewhere, an Anchor. It imports no other
// package of this module and needs Linux (flock, fdatasync), of any version.
package audit
