package conntrack

import (
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// Find returns the addresses from and to which connection tracking expects replies to a client that asked a virtual
// server; zero if it has no such entry.
func (t *Table) Find(v kernel.VirtualKey, client netip.AddrPort) (from, to netip.AddrPort, err error) {
	t.query.Reset()
	about(v).put(&t.query)
	err = t.conn.Dump(&t.query, func() {}, func(p []byte) error {
		if of, err := virtualOf(p); err != nil || of != v {
			return err
		}
		var orig, reply tuple
		a := nl.ParseAttrs(p[sizeofNfgenmsg:])
		for a.Next() && err == nil {
			switch a.Type() {
			case attrTupleOrig:
				orig, err = decodeTuple(a.Nested())
			case attrTupleReply:
				reply, err = decodeTuple(a.Nested())
			}
		}
		if err == nil && netip.AddrPortFrom(orig.src, orig.srcPort) == client {
			from, to = netip.AddrPortFrom(reply.src, reply.srcPort), netip.AddrPortFrom(reply.dst, reply.dstPort)
		}
		return err
	})
	if err != nil {
		return from, to, fmt.Errorf("listing tracked connections: %w", err)
	}
	return from, to, nil
}
