package result

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Percentile is the smallest of the samples that at least p percent of them do
// not pass (nearest rank): of few samples the 99th is the largest. Of none it
// is zero. The samples stay in their order.
func Percentile[T cmp.Ordered](samples []T, p float64) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Paired is the median of the quotients of samples of the same round; 0 if
// there is no round that both have.
func Paired(samples, to []time.Duration) float64 {
	var quotients []float64
	for i := range min(len(samples), len(to)) {
		if to[i] > 0 {
			quotients = append(quotients, float64(samples[i])/float64(to[i]))
		}
	}
	return Percentile(quotients, 50)
}

// Settle fills in what follows from the samples of each row.
func (l *Latency) Settle() {
	for i := range l.Rows {
		r := &l.Rows[i]
		r.P50, r.P99 = Percentile(r.Samples, 50), Percentile(r.Samples, 99)
		r.ToBare, r.ToPeer = Paired(r.Samples, l.samples(Bare)), Paired(r.Samples, l.samples(Peer))
	}
}

func (l *Latency) samples(contender string) []time.Duration {
	for _, r := range l.Rows {
		if r.Contender == contender {
			return r.Samples
		}
	}
	return nil
}

// Settle fills in what follows from the samples of each row.
func (t *Throughput) Settle() {
	for i := range t.Rows {
		r := &t.Rows[i]
		r.PerSecond = nil
		for _, s := range r.Samples {
			r.PerSecond = append(r.PerSecond, Percentile(s, 50))
		}
	}
}

// Rate is the rate of a contender with a number of workers; 0 if it has none.
func (t *Throughput) Rate(contender string, workers int) float64 {
	at := slices.Index(t.Workers, workers)
	for _, r := range t.Rows {
		if r.Contender == contender && at >= 0 && at < len(r.PerSecond) {
			return r.PerSecond[at]
		}
	}
	return 0
}

// Settle fills in what follows from the samples of each level.
func (g *Growth) Settle() {
	for i := range g.Levels {
		l := &g.Levels[i]
		l.P50, l.P99 = Percentile(l.Samples, 50), Percentile(l.Samples, 99)
		if first := g.Levels[0].P50; first > 0 {
			l.ToFirst = float64(l.P50) / float64(first)
		}
	}
}
