package workspace

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/isolate-run/isolate/internal/dirfd"
)

// Limits bound one copy, whatever the tree holds and however it changes. Zero
// means the default; a negative number is an error.
//
// What does not fit makes CopyIn fail, because a program with half of its
// input gives wrong answers; CopyOut leaves it out and lists it.
type Limits struct {
	// MaxFiles is the most entries looked at: files, directories, links, all
	// together. Zero means DefaultMaxFiles.
	MaxFiles int
	// MaxBytes is the most bytes copied; a hole counts as if it were full.
	// Zero means DefaultMaxBytes; callers give the disk limit of the run.
	MaxBytes int64
	// MaxFile is the most bytes of one file, holes included. Zero means
	// MaxBytes.
	MaxFile int64
	// MaxDepth is how many directories a file may be below the top. Zero
	// means DefaultMaxDepth.
	MaxDepth int
	// MaxName is the longest name in bytes. Zero means 255, which is also
	// the most.
	MaxName int
	// Owner is who the files of a CopyIn belong to. Zero means the caller.
	Owner dirfd.Owner
	// Bridge says that _rpc at the top of the workspace is the mount point of
	// the bridge, which CopyOut passes over also when the mount is gone: it
	// ends with the last process inside. False means that it is the program's.
	Bridge bool
}

// Owner is a pair of kernel ids.
type Owner = dirfd.Owner

// Defaults of Limits. They are chosen, not measured: enough for a source tree
// and its results, few enough that a manifest stays readable. A level costs
// two descriptors while it is copied.
const (
	DefaultMaxFiles = 10000
	DefaultMaxBytes = 256 << 20 // policy.DefaultDisk
	DefaultMaxDepth = 64
)

// filled puts the defaults in.
func (l Limits) filled() (Limits, error) {
	for name, n := range map[string]int64{
		"MaxFiles": int64(l.MaxFiles), "MaxBytes": l.MaxBytes, "MaxFile": l.MaxFile,
		"MaxDepth": int64(l.MaxDepth), "MaxName": int64(l.MaxName),
	} {
		if n < 0 {
			return l, fmt.Errorf("cannot use limit %s: %d is negative", name, n)
		}
	}
	if l.MaxFiles == 0 {
		l.MaxFiles = DefaultMaxFiles
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxFile == 0 {
		l.MaxFile = math.MaxInt64
	}
	l.MaxFile = min(l.MaxFile, l.MaxBytes)
	if l.MaxDepth == 0 {
		l.MaxDepth = DefaultMaxDepth
	}
	if l.MaxName == 0 {
		l.MaxName = dirfd.MaxName
	}
	l.MaxName = min(l.MaxName, dirfd.MaxName)
	return l, nil
}

// ErrLimit is what the error of a CopyIn or Put is (errors.Is) that does not fit
// into its Limits or into the workspace. That of a CopyIn says what to do.
var ErrLimit = errors.New("over a limit")

// overLimit is the text of such an error.
type overLimit string

func (o overLimit) Error() string        { return string(o) }
func (o overLimit) Is(target error) bool { return target == ErrLimit }

// Problem is one reason not to begin a copy. Its fields are those of
// plan.Problem, so that one converts to the other.
type Problem struct {
	// What was refused, lower case: `cannot copy "x"`.
	What string `json:"what"`
	// Rule is the rule that refused it.
	Rule string `json:"rule"`
	// Remedy is what to do.
	Remedy string `json:"remedy"`
}

// Refusal is the error of a copy that was not begun. Nothing was copied.
type Refusal struct {
	Problems []Problem `json:"problems"`
}

func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString("refused to copy files")
	for _, p := range r.Problems {
		b.WriteString("\n  " + p.What + ": " + p.Rule + "; " + p.Remedy)
	}
	return b.String()
}

func refuse(p ...Problem) error {
	if len(p) == 0 {
		return nil
	}
	return &Refusal{Problems: p}
}

// bytesText is a size for people, exact.
func bytesText(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.of && n%u.of == 0 {
			return fmt.Sprintf("%d %s", n/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
