package policy

// Size is a number of bytes.
type Size int64

// Units of Size: powers of 1024, as in the texts "256M" and "256MiB".
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)
