//go:build linux

// Package seccompprofile holds the system-call tables of the sandbox as
// readable data, and each of them as a seccomp filter compiled with libseccomp.
//
// groups.go lists what is allowed whatever its arguments are, specials.go what
// depends on arguments or has an answer of its own, absent.go what was left out
// on purpose; the tables give the reason for every entry, and a golden test
// shows the compiled filter of each profile, what it decides and instruction by
// instruction. shorten.go makes a third of what libseccomp compiles, with the
// same meaning.
//
// It does not load filters and does not answer notifications: the loader is in
// package container, the answers are in package denial.
//
// The filters for amd64 are part of the package; other architectures, and
// CompileSilent, need libseccomp (build tag "seccomp", cgo). Compiling needs no
// kernel feature. Loading a filter with notifications needs Linux 5.5 (user notification that
// can continue a call); with SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 5.19.
package seccompprofile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/isolate-run/isolate/policy"
)

// Filter is a compiled profile. It is shared by all callers and must not be
// changed.
type Filter struct {
	// BPF is an array of struct sock_filter, 8 bytes each, native endian.
	BPF []byte
	// Digest identifies BPF: "sha256:" and 64 hexadecimal digits.
	Digest string
	// Notifies are the names of the calls that may wait for an answer from
	// the notification listener, sorted. None of them is a call the loader
	// makes between loading the filter and execve.
	Notifies []string
	// Allowed is how many system calls can succeed under this filter, with
	// or without a condition on their arguments.
	Allowed int
}

// compiled caches one filter per profile and mode.
var compiled [len(profiles)][2]struct {
	once   sync.Once
	filter *Filter
	err    error
}

// Compile returns the filter of a profile: always the same Filter, without an
// error where the compiled program is part of this package (amd64), else
// compiled with libseccomp by the first call, which takes some 10 ms.
func Compile(p policy.Profile) (*Filter, error) { return get(p, notifying) }

// CompileSilent returns the filter of a profile for a kernel that has no user
// notification (weakening policy.NoDenialRecords): what Compile would have
// notified is refused without a record, and connect and sendto are allowed,
// because the network namespace is what keeps them inside.
func CompileSilent(p policy.Profile) (*Filter, error) { return get(p, silent) }

func get(p policy.Profile, m mode) (*Filter, error) {
	if !slices.Contains(profiles[:], p) {
		return nil, fmt.Errorf("cannot compile seccomp profile %d: there is no such profile", int(p))
	}
	c := &compiled[p][m]
	c.once.Do(func() { c.filter, c.err = build(p, m) })
	return c.filter, c.err
}

// profiles are all there are.
var profiles = [...]policy.Profile{policy.ProfileDefault, policy.ProfileCompat, policy.ProfileStrict}

// mode says what becomes of the notify action.
type mode int

const (
	notifying mode = iota // it reaches the listener
	silent                // it is replaced by its fixed answer
)

// build returns the filter that is part of this package, or compiles one.
//
// libseccomp 2.5.4 needs 4 to 6 ms for a table, most of it to export the
// program, and what is done with that takes as long. A command that starts one
// sandbox would pay that every time, and the program, and with it the digest,
// would depend on the version installed. So the programs of the common case are
// compiled ahead (go test -update) and tested to be what compile makes of the
// tables and what the tables say.
func build(p policy.Profile, m mode) (*Filter, error) {
	t := tableOf(p, runtime.GOARCH)
	if m == notifying {
		if bpf := ready(p); bpf != nil {
			return newFilter(bpf, t), nil
		}
	} else {
		t = t.silenced()
	}
	bpf, err := t.compile()
	if err != nil {
		return nil, fmt.Errorf("cannot compile seccomp profile %q: %w", p, err)
	}
	return newFilter(bpf, t), nil
}

// compile checks the table, compiles it, makes the program shorter and checks
// that against the table.
func (t table) compile() ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	calls, err := resolve(t)
	if err != nil {
		return nil, err
	}
	long, err := assemble(t, calls)
	if err != nil {
		return nil, err
	}
	bpf, err := shorten(long)
	if err != nil {
		return nil, err
	}
	if err := verify(bpf, t, calls); err != nil {
		return nil, err
	}
	return bpf, nil
}

func newFilter(bpf []byte, t table) *Filter {
	sum := sha256.Sum256(bpf)
	return &Filter{
		BPF:      bpf,
		Digest:   "sha256:" + hex.EncodeToString(sum[:]),
		Notifies: t.notifies(),
		Allowed:  t.allowed(),
	}
}
