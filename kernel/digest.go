package kernel

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
)

// Digest is a hash of what decides to which real server a virtual server sends a client. Nodes that share clients
// have equal ones, however their tables came about. It has 48 bits, which a float64 holds exactly, as metrics are.
type Digest uint64

const digestDigits = 12

// String is 12 hexadecimal digits.
func (d Digest) String() string { return fmt.Sprintf("%012x", uint64(d)) }

// DigestOf returns the digest of a virtual server: address, scheduler with flags, persistence, and its real servers
// with weights, forwarding methods and thresholds. They are sorted as in a State.
func DigestOf(v *Virtual, reals []Real) Digest {
	h := hasher{buf: make([]byte, 0, 64)}
	h.addr(v.Key.AddrPort(), uint64(v.Key.Proto))
	h.buf = append(append(h.buf, v.Scheduler...), 0)
	h.numbers(uint64(v.Flags), uint64(v.Timeout), uint64(v.Netmask))
	sum := fnv.New64a()
	sum.Write(h.buf)
	for i := range reals {
		r := &reals[i]
		h.buf = h.buf[:0]
		h.addr(r.Key.Addr, uint64(r.Weight))
		h.numbers(uint64(r.Forward), uint64(r.Tunnel), uint64(r.TunnelPort))
		if r.Upper != 0 {
			h.numbers(uint64(r.Upper), uint64(r.Lower))
		}
		sum.Write(h.buf)
	}
	return folded(sum.Sum64())
}

// DigestOfAll returns the digest of several, which depends on their order.
func DigestOfAll(all []Digest) Digest {
	sum := fnv.New64a()
	h := hasher{}
	for _, d := range all {
		h.numbers(uint64(d))
	}
	sum.Write(h.buf)
	return folded(sum.Sum64())
}

// folded keeps 48 bits. All of the others change them.
func folded(n uint64) Digest { return Digest((n ^ n>>48) & (1<<48 - 1)) }

type hasher struct{ buf []byte }

func (h *hasher) addr(a netip.AddrPort, more uint64) {
	ip := a.Addr().As16()
	h.buf = append(h.buf, ip[:]...)
	h.numbers(uint64(a.Port()), more)
}

func (h *hasher) numbers(all ...uint64) {
	for _, n := range all {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, n)
	}
}
