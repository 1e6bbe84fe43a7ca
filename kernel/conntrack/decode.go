package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// entry is the content of one message of a dump. The slices are values of attributes, valid as long
// as the message.
type entry struct {
	key   kernel.RealKey // original destination and reply source
	reply []byte         // the reply's tuple with its zone
	zone  []byte         // of both directions; nil for the default zone
	id    []byte
}

// tuple is one direction of an entry. Ports are zero if the protocol has none.
type tuple struct {
	src, dst         netip.Addr
	proto            kernel.Proto
	srcPort, dstPort uint16
}

// virtual returns the virtual server that an entry with this original direction belongs to.
func (t tuple) virtual() kernel.VirtualKey {
	return kernel.VirtualKey{Addr: t.dst, Port: t.dstPort, Proto: t.proto}
}

// virtualOf decodes only the virtual server of an entry. That is enough for most entries of a dump
// of everything.
func virtualOf(p []byte) (kernel.VirtualKey, error) {
	if len(p) < sizeofNfgenmsg {
		return kernel.VirtualKey{}, fmt.Errorf("conntrack message of %d bytes", len(p))
	}
	a := nl.ParseAttrs(p[sizeofNfgenmsg:])
	for a.Next() {
		if a.Type() == attrTupleOrig {
			orig, err := decodeTuple(a.Nested())
			if err != nil {
				return kernel.VirtualKey{}, fmt.Errorf("conntrack message: %w", err)
			}
			return orig.virtual(), nil
		}
	}
	err := a.Err()
	if err == nil {
		err = errors.New("an entry without its original tuple")
	}
	return kernel.VirtualKey{}, fmt.Errorf("conntrack message: %w", err)
}

// decode decodes an entry. If the protocol has no ports, it has addresses only.
func decode(p []byte) (e entry, err error) {
	if e.key.Virtual, err = virtualOf(p); err != nil {
		return entry{}, err
	}
	var reply tuple
	a := nl.ParseAttrs(p[sizeofNfgenmsg:])
	for a.Next() && err == nil {
		switch a.Type() {
		case attrTupleReply:
			e.reply = a.Bytes()
			reply, err = decodeTuple(a.Nested())
		case attrZone:
			e.zone = a.Bytes()
		case attrID:
			e.id = a.Bytes()
		}
	}
	switch {
	case err == nil && a.Err() != nil:
		err = a.Err()
	case err == nil && (!e.key.Virtual.Addr.IsValid() || !reply.src.IsValid() || e.id == nil):
		err = errors.New("an entry without both its tuples and its id")
	}
	if err != nil {
		return entry{}, fmt.Errorf("conntrack message: %w", err)
	}
	e.key.Addr = netip.AddrPortFrom(reply.src, reply.srcPort)
	return e, nil
}

func decodeTuple(a nl.Attrs) (t tuple, err error) {
	for a.Next() && err == nil {
		switch a.Type() {
		case attrTupleIP:
			err = t.addrs(a.Nested())
		case attrTupleProto:
			err = t.ports(a.Nested())
		}
	}
	if err == nil {
		err = a.Err()
	}
	return t, err
}

func (t *tuple) addrs(a nl.Attrs) (err error) {
	for a.Next() && err == nil {
		switch a.Type() {
		case attrIPv4Src, attrIPv6Src:
			t.src, err = ip(a.Bytes())
		case attrIPv4Dst, attrIPv6Dst:
			t.dst, err = ip(a.Bytes())
		}
	}
	if err == nil {
		err = a.Err()
	}
	return err
}

func (t *tuple) ports(a nl.Attrs) error {
	for a.Next() {
		switch a.Type() {
		case attrProto:
			t.proto = kernel.Proto(a.U8())
		case attrSrcPort:
			t.srcPort = a.U16BE()
		case attrDstPort:
			t.dstPort = a.U16BE()
		}
	}
	return a.Err()
}

func ip(p []byte) (netip.Addr, error) {
	a, ok := netip.AddrFromSlice(p)
	if !ok {
		return netip.Addr{}, fmt.Errorf("an address of %d bytes", len(p))
	}
	return a, nil
}
