package lab

import (
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// What asks while something happens has ended when that ends the test: synctest fails if a goroutine remains.
func TestNothingGoesOnAfterAFatalEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := Flows{all: []*flow{{lost: true}}}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.During(func() { runtime.Goexit() }) // as t.Fatal does
			t.Error("During goes on")
		}()
		<-ended
	})
	n := (&Namespace{Name: "none"}).Newcomers(netip.AddrPort{}, 100*time.Millisecond)
	n.Stop()
	n.Stop()
}
