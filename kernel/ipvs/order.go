package ipvs

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
)

// Order returns the real servers of a virtual server in the order of the kernel's list, which
// decides the tables of schedulers that hash. Elsewhere real servers are sorted.
func (t *Table) Order(v kernel.VirtualKey) ([]netip.AddrPort, error) {
	all, err := t.dumpDests(v)
	if err != nil {
		return nil, err
	}
	order := make([]netip.AddrPort, len(all))
	for i, d := range all {
		order[i] = d.Key.Addr
	}
	return order, nil
}
