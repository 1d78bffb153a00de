// Package ratio lets benchmarks print how one piece of code compares with another
// on the machine at hand. It is used by benchmarks only: a ratio is printed, never
// asserted, because a busy machine must not fail a test.
package ratio

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// leastPairs is how many runs of each are measured at least, unless that takes longer than
// leastTime.
const (
	leastPairs = 200
	leastTime  = 3 * time.Second
)

// Measure runs this and that in turn until the benchmark's time is used up, and some more
// where that was little, and prints the median of the ratios of neighbouring runs as
//
//	RATIO name value limit
//
// on standard output, on a line of its own.
func Measure(b *testing.B, name string, limit float64, this, that func()) {
	b.Helper()
	var ratios []float64
	var first, second []time.Duration
	pair := func() {
		x, y := elapsed(this), elapsed(that)
		first, second = append(first, x), append(second, y)
		ratios = append(ratios, float64(x)/float64(y))
	}
	for b.Loop() {
		pair()
	}
	for began := time.Now(); len(ratios) < leastPairs && time.Since(began) < leastTime; {
		pair()
	}
	slices.Sort(ratios)
	slices.Sort(first)
	slices.Sort(second)
	middle := ratios[len(ratios)/2]
	b.ReportMetric(middle, "ratio")
	b.ReportMetric(float64(first[len(first)/2].Nanoseconds()), "this-ns")
	b.ReportMetric(float64(second[len(second)/2].Nanoseconds()), "that-ns")
	Print(os.Stdout, name, middle, limit)
}

// Print writes one RATIO line. The testing package leaves the name of a benchmark
// at the start of a line, hence the newline before.
func Print(w io.Writer, name string, value, limit float64) {
	fmt.Fprintf(w, "\nRATIO %s %.3g %g\n", name, value, limit)
}

func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
