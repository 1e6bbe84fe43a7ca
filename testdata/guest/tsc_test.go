package main

import "testing"

// Two measurements agree: to a thousandth, far below the half or the double
// that a guest's own calibration gets wrong.
func TestTSCIsMeasured(t *testing.T) {
	a, b := measureTSC(), measureTSC()
	if a == 0 {
		t.Skip("no time stamp counter here")
	}
	if ratio := float64(a) / float64(b); ratio < 0.999 || ratio > 1.001 {
		t.Errorf("%d kHz, then %d", a, b)
	}
}

func TestTSCArgument(t *testing.T) {
	if got, want := tscArgument(true), " tsc_early_khz=1000000"; got != want {
		t.Errorf("under -icount %q, want %q", got, want)
	}
}
