package conntrack

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// TCP calls f for each tracked TCP connection of a family that was answered or begins with a SYN. With waiting it may
// leave out those that were answered: kernels before 5.15 do not.
func (t *Table) TCP(family kernel.Family, waiting bool, f func(kernel.Asked)) error {
	t.query.Reset()
	t.query.Begin(msgGet, 0)
	t.query.Nfgen(uint8(family))
	question{family: family, proto: kernel.TCP}.putFilter(&t.query)
	if waiting {
		t.query.U32BE(attrStatus, 0)
		t.query.U32BE(attrStatusMask, seenReply)
	}
	t.query.End()
	err := t.conn.Dump(&t.query, nil, func(p []byte) error {
		a, ok, err := decodeAsked(p)
		if err == nil && ok {
			f(a)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("listing tracked connections: %w", err)
	}
	return nil
}

// decodeAsked decodes an entry; ok is false if TCP leaves it out.
func decodeAsked(p []byte) (c kernel.Asked, ok bool, err error) {
	if len(p) < sizeofNfgenmsg {
		return c, false, fmt.Errorf("conntrack message of %d bytes", len(p))
	}
	var orig, reply tuple
	var status uint32
	var state uint8
	a := nl.ParseAttrs(p[sizeofNfgenmsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case attrTupleOrig:
			orig, err = decodeTuple(a.Nested())
		case attrTupleReply:
			reply, err = decodeTuple(a.Nested())
		case attrStatus:
			status = a.U32BE()
		case attrTimeout:
			c.Left = time.Duration(a.U32BE()) * time.Second
		case attrProtoInfo:
			state = stateOfTCP(a.Nested())
		}
	}
	if err == nil {
		err = a.Err()
	}
	if err != nil {
		return c, false, fmt.Errorf("conntrack message: %w", err)
	}
	c.Key = kernel.RealKey{Virtual: orig.virtual(), Addr: netip.AddrPortFrom(reply.src, reply.srcPort)}
	c.Client = netip.AddrPortFrom(orig.src, orig.srcPort)
	c.Answered = status&seenReply != 0
	return c, orig.proto == unix.IPPROTO_TCP && (c.Answered || state == synSent), nil
}

// stateOfTCP returns the state of a connection, 0 if the message has none.
func stateOfTCP(info nl.Attrs) (state uint8) {
	for info.Next() {
		if info.Type() != attrProtoInfoTCP {
			continue
		}
		for of := info.Nested(); of.Next(); {
			if of.Type() == attrTCPState {
				state = of.U8()
			}
		}
	}
	return state
}
