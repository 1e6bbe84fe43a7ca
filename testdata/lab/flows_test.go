package lab

import (
	"net/netip"
	"runtime"
	"testing"
)

// What asks while something happens has ended when that ends the test.
func TestNothingGoesOnAfterAFatalEvent(t *testing.T) {
	f := Flows{all: []*flow{{lost: true}}}
	before, ended := runtime.NumGoroutine(), make(chan struct{})
	go func() {
		defer close(ended)
		f.During(func() { runtime.Goexit() }) // as t.Fatal does
		t.Error("During goes on")
	}()
	<-ended
	await := func() bool {
		for range 1000 { // the goroutine above may not be gone yet
			if runtime.NumGoroutine() <= before {
				return true
			}
			runtime.Gosched()
		}
		return false
	}
	if !await() {
		t.Errorf("%d goroutines, and %d before", runtime.NumGoroutine(), before)
	}
	n := (&Namespace{Name: "none"}).Newcomers(netip.AddrPort{})
	n.Stop()
	n.Stop()
}
