package ipvs

import (
	"fmt"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// Reals reads the traffic of the real servers of these virtual servers, in the given order and then
// by address. It takes one dump for each. A virtual server that does not exist has none.
func (c *Counters) Reals(virtuals []kernel.VirtualKey) ([]kernel.RealTraffic, error) {
	var all []kernel.RealTraffic
	for _, v := range virtuals {
		of, err := c.table.dumpDestTraffic(v)
		if err != nil {
			return nil, fmt.Errorf("reading the traffic of %v: %w", v, err)
		}
		all = append(all, of...)
	}
	return all, nil
}

// dumpDestTraffic returns the traffic of the real servers of one virtual server, sorted.
func (t *Table) dumpDestTraffic(v kernel.VirtualKey) (all []kernel.RealTraffic, err error) {
	if err := t.lookup(); err != nil {
		return nil, err
	}
	t.batch.Reset()
	putVirtualKey(&t.batch, t.family, cmdGetDest, v)
	err = t.short.Dump(&t.batch, func() { all = all[:0] }, func(payload []byte) error {
		d, err := decodeDest(payload, v)
		if err != nil {
			return err
		}
		traffic, err := decodeTraffic(payload, attrDest)
		all = append(all, kernel.RealTraffic{Key: d.Key, Traffic: traffic})
		return err
	})
	slices.SortFunc(all, func(a, b kernel.RealTraffic) int { return a.Key.Addr.Compare(b.Key.Addr) })
	// a duplicate: a dump goes by position
	all = slices.CompactFunc(all, func(a, b kernel.RealTraffic) bool { return a.Key == b.Key })
	return all, t.stale(err)
}
