package ipvs

import (
	"net/netip"
	"testing"

	"github.com/svcproxy/svcproxy/kernel"
)

// A virtual server whose removal the kernel refuses is still dumped for its thresholds.
func TestLimitsOfARemovalThatFails(t *testing.T) {
	v := kernel.Virtual{Key: kernel.VirtualAt(netip.MustParseAddrPort("10.96.0.1:80"), kernel.TCP)}
	real := kernel.Real{Key: kernel.RealKey{Virtual: v.Key, Addr: netip.MustParseAddrPort("10.2.0.1:80")}, Upper: 5}
	l := limits{of: map[kernel.VirtualKey]bool{}}
	l.applied(kernel.Add, &real)
	l.applied(kernel.Remove, &real)
	if l.read([]kernel.Virtual{v}); !l.of[v.Key] {
		t.Error("it is there, and its thresholds are forgotten")
	}
	if l.read(nil); len(l.of) > 0 {
		t.Error("it is gone, and remembered")
	}
}
