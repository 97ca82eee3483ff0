package isolate

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// turn spreads sandboxes with a share of processors over all processors.
var turn atomic.Uint32

// someCPUs picks as many processors as a share needs; nil means all of them.
func someCPUs(share float64) []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	n := int(math.Ceil(share))
	if n >= set.Count() {
		return nil
	}
	var all []int
	for i := 0; len(all) < set.Count(); i++ {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	first := int(turn.Add(uint32(n))) % len(all)
	out := make([]int, n)
	for i := range out {
		out[i] = all[(first+i)%len(all)]
	}
	return out
}
