package probe

import (
	"net/netip"
	"syscall"
	"testing"
)

// TestProbesShareAPort has the probes of all targets come from one port, but for those after a failure and of a
// target whose connection another probe has.
func TestProbesShareAPort(t *testing.T) {
	ok, full := serve(t, hangs), fullListener(t)
	c := connects{prober: new(Prober)}
	defer c.close()
	start := func(target netip.AddrPort, failed bool) (port int) {
		t.Helper()
		a := c.prober.attempt(t.Context(), tcpProbe, target, Meta{})
		fd, _, err := c.start(&a, failed)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		own, err := syscall.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		return own.(*syscall.SockaddrInet4).Port
	}
	first := start(ok, false)
	if port := start(full, false); port != first {
		t.Errorf("probes of two targets come from ports %d and %d", first, port)
	}
	if port := start(ok, false); port == first {
		t.Error("two probes of one address at once come from one port")
	}
	if port := start(full, true); port == first {
		t.Error("a probe after a failure comes from the same port")
	}
	other := connects{prober: new(Prober)}
	defer other.close()
	a := other.prober.attempt(t.Context(), tcpProbe, ok, Meta{})
	if fd, _, err := other.start(&a, false); err != nil {
		t.Error(err)
	} else {
		syscall.Close(fd)
	}
	if other.pools[0].port == first {
		t.Error("two runners have one port")
	}
}
