package main

import (
	"fmt"
	"time"
)

// icountTSC is the rate of the time stamp counter under -icount shift=0, where
// it counts instructions as nanoseconds, in kHz.
const icountTSC = 1_000_000

// tscArgument tells the kernel the rate of its time stamp counter, which QEMU
// passes through from this machine's. By default the kernel calibrates it
// against an emulated PIT. On a loaded machine that went wrong: it measured 355
// MHz for 2300, and a second in the guest took 150 ms.
func tscArgument(icount bool) string {
	khz := icountTSC
	if !icount {
		khz = measureTSC()
	}
	if khz == 0 {
		return ""
	}
	return fmt.Sprintf(" tsc_early_khz=%d", khz)
}

// measureTSC is the rate of this machine's time stamp counter in kHz; zero
// where there is none.
func measureTSC() int {
	const over = 50 * time.Millisecond
	from, at := stamp()
	if from == 0 {
		return 0
	}
	time.Sleep(over)
	to, until := stamp()
	return int(float64(to-from) / float64(until.Sub(at)) * 1e6)
}

// stamp is the counter and the time of one moment: of a few tries the one that
// was interrupted least.
func stamp() (uint64, time.Time) {
	var counter uint64
	var at time.Time
	least := time.Duration(-1)
	for range 20 {
		before := time.Now()
		c := rdtsc()
		if took := time.Since(before); least < 0 || took < least {
			counter, at, least = c, before, took
		}
	}
	return counter, at
}
