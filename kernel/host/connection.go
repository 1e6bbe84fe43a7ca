package host

import (
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/conntrack"
	"github.com/svcproxy/svcproxy/kernel/ipvs"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Connection returns what the kernel keeps of a client's connection to a virtual server.
func Connection(v kernel.Virtual, client netip.AddrPort) (kernel.Connection, error) {
	c, err := ipvs.Connection(v, client)
	if err != nil {
		return c, err
	}
	t, err := conntrack.Open(new(nl.Dialer))
	if err != nil {
		return c, err
	}
	defer t.Close()
	c.Replies, c.To, err = t.Find(v.Key, client)
	return c, err
}
