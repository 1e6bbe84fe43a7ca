package host

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// RealOrder returns the real servers of a virtual server in the order of the kernel's list.
func RealOrder(v kernel.VirtualKey) ([]netip.AddrPort, error) {
	t, err := ipvs.Open(new(nl.Dialer))
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Order(v)
}
