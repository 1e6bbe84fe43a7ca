package ipvs

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	moby "github.com/moby/ipvs"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

// putVirtual appends a message about a virtual server with all its attributes.
func putVirtual(b *nl.Batch, family uint16, cmd uint8, v kernel.Virtual) {
	b.Begin(family, 0)
	b.Genl(cmd, familyVersion)
	m := putKey(b, v.Key)
	b.Text(svcScheduler, v.Scheduler)
	// struct ip_vs_flags has the flags, and a mask of those to set: all.
	var flags [8]byte
	binary.NativeEndian.PutUint32(flags[:], v.Flags&^flagHashed)
	binary.NativeEndian.PutUint32(flags[4:], ^uint32(0))
	b.Attr(svcFlags, flags[:])
	b.U32(svcTimeout, v.Timeout)
	putNetmask(b, v)
	b.EndNest(m)
	b.End()
}

// putVirtualKey appends a message that only identifies a virtual server.
func putVirtualKey(b *nl.Batch, family uint16, cmd uint8, k kernel.VirtualKey) {
	b.Begin(family, 0)
	b.Genl(cmd, familyVersion)
	b.EndNest(putKey(b, k))
	b.End()
}

// putReal appends a message about a real server, with all its attributes unless cmd deletes it.
func putReal(b *nl.Batch, family uint16, cmd uint8, r *kernel.Real) {
	b.Begin(family, 0)
	b.Genl(cmd, familyVersion)
	b.EndNest(putKey(b, r.Key.Virtual))
	m := b.Nest(attrDest)
	putAddr(b, destAddr, r.Key.Addr.Addr())
	b.U16BE(destPort, r.Key.Addr.Port())
	// Without it the kernel assumes the family of the virtual server.
	b.U16(destFamily, uint16(kernel.FamilyOf(r.Key.Addr.Addr())))
	if cmd != cmdDelDest {
		b.U32(destForward, uint32(r.Forward)&moby.ConnectionFlagFwdMask)
		b.U32(destWeight, r.Weight)
		b.U32(destUpper, r.Upper)
		b.U32(destLower, r.Lower)
		putTunnel(b, r)
	}
	b.EndNest(m)
	b.End()
}

// putTunnel writes how packets are wrapped. Without these attributes it is IPIP, which is all that kernels
// before 5.3 have: they ignore the attributes.
func putTunnel(b *nl.Batch, r *kernel.Real) {
	if r.Tunnel == kernel.IPIP && r.TunnelPort == 0 {
		return
	}
	b.U8(destTunnel, r.Tunnel.Kind())
	b.U16BE(destTunnelPort, r.TunnelPort)
	b.U16(destTunnelFlags, uint16(r.Tunnel.Flags()))
}

// putKey opens the nested attribute of a virtual server and writes its key.
func putKey(b *nl.Batch, k kernel.VirtualKey) (mark int) {
	mark = b.Nest(attrService)
	b.U16(svcFamily, uint16(k.Family()))
	if fwmark := k.Mark(); fwmark != 0 {
		b.U32(svcFWMark, fwmark)
		return mark
	}
	b.U16(svcProtocol, uint16(k.Proto))
	putAddr(b, svcAddr, k.Addr)
	b.U16BE(svcPort, k.Port)
	return mark
}

// putAddr writes an address as the kernel's union of both families, always 16 bytes.
func putAddr(b *nl.Batch, typ uint16, a netip.Addr) {
	var p [16]byte
	if a.Is4() {
		*(*[4]byte)(p[:]) = a.As4()
	} else {
		p = a.As16()
	}
	b.Bytes16(typ, p)
}

// putNetmask writes the persistence netmask: a mask for IPv4, a prefix length for IPv6. Without the
// persistent flag it has no meaning, but IPv6 still requires 1 to 128 (ip_vs_add_service). Then it
// is that of a single client, as normal returns it.
func putNetmask(b *nl.Batch, v kernel.Virtual) {
	family := v.Key.Family()
	length := int(v.Netmask)
	if v.Flags&kernel.FlagPersistent == 0 {
		length = family.Bits()
	}
	if family == kernel.IPv6 {
		b.U32(svcNetmask, uint32(length))
		return
	}
	b.U32BE(svcNetmask, ^uint32(0)<<(32-min(length, 32)))
}

// prefixLength returns the number of leading ones of an IPv4 netmask.
func prefixLength(mask uint32) uint8 { return uint8(bits.LeadingZeros32(^mask)) }
