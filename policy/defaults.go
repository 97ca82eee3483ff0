package policy

import (
	"maps"
	"slices"
)

// WithDefaults is the policy with every zero limit and the empty hostname
// replaced by its default. CPUs, CPUTime and Grace stay zero, which for them
// means "not limited" and "at once". The result shares no map or slice with
// the receiver, and WithDefaults of it changes nothing more.
func (p Policy) WithDefaults() Policy {
	p.ReadOnly = slices.Clone(p.ReadOnly)
	p.Env = maps.Clone(p.Env)
	p.Allow = slices.Clone(p.Allow)
	p.Net = cloneNet(p.Net)
	p.Preload = p.Preload.Clone()
	setDefault(&p.Hostname, DefaultHostname)
	setDefault(&p.Memory, DefaultMemory)
	setDefault(&p.PIDs, DefaultPIDs)
	setDefault(&p.Disk, DefaultDisk)
	setDefault(&p.Inodes, DefaultInodes)
	setDefault(&p.Files, DefaultFiles)
	setDefault(&p.Output, DefaultOutput)
	setDefault(&p.Wall, DefaultWall)
	return p
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Inside is the absolute path the bind has inside: Target, or Source when
// Target is empty.
func (b Bind) Inside() string {
	if b.Target == "" {
		return b.Source
	}
	return b.Target
}
