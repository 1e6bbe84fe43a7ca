package main

import (
	"fmt"
	"math"
	"slices"
)

// A figure is what was measured, and between what it lies if that is known.
type figure struct{ value, low, high float64 }

func exactly(v float64) figure { return figure{v, v, v} }

func (f figure) String() string {
	if f.low == f.high {
		return fmt.Sprintf("%.2f", f.value)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", f.value, f.low, f.high)
}

// quotients divides the samples of two cells turn by turn. The samples were taken in
// turns, so a disturbance longer than a turn affects both.
func (b *bench) quotients(of, per cell, value func(sample) float64) []float64 {
	x, y := b.cell(of), b.cell(per)
	all := make([]float64, min(len(x), len(y)))
	for i := range all {
		all[i] = value(x[i]) / value(y[i])
	}
	return all
}

// middle is the median of values with its 95 % confidence interval. It uses the order
// of the values only, so it holds for any distribution. Of few, it is all there were.
func middle(values []float64) figure {
	n := len(values)
	if n == 0 {
		return figure{}
	}
	slices.Sort(values)
	// How many values lie below the true median is binomial, of deviation sqrt(n)/2.
	outside := max(0, int(float64(n)/2-1.96*math.Sqrt(float64(n))/2)-1)
	return figure{values[(n-1)/2], values[outside], values[n-1-outside]}
}
