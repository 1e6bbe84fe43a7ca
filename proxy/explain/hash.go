package explain

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
	"github.com/svcproxy/svcproxy/kernel/packet"
)

// Schedulers that choose by a hash of addresses. The tables are those of the kernel
// (net/netfilter/ipvs, 4.18 to 6.12): they follow from the kernel's list of real servers, so the
// choice can be computed.

// dest is a real server in the kernel's list.
type dest struct {
	addr   netip.AddrPort
	weight uint32
	full   bool // it has as many connections as it may
}

// usable reports whether a scheduler gives it connections.
func (d *dest) usable() bool { return d.weight > 0 && !d.full }

// hashed are the schedulers that choose by a hash, with what each does of a packet: the index
// of a real server, -1 for none. ok is false if it cannot be known.
var hashed = map[string]func(kernel.Virtual, []dest, packet.Packet) (at int, ok bool){
	"sh": bySource, "dh": byDestination, "mh": byMaglev,
}

// chosen returns the real server that a hash scheduler gives a packet. It is zero if the
// scheduler finds none. ok is false for other schedulers, and if the choice is not known.
func (x *explainer) chosen(v kernel.Virtual, reals []kernel.Real) (to netip.AddrPort, ok bool) {
	choose := hashed[v.Scheduler]
	switch {
	case choose == nil || x.Order == nil || len(reals) == 0,
		!x.p.Src.IsValid() && v.Scheduler != "dh",
		v.Flags&kernel.FlagPersistent != 0: // the scheduler is not asked about clients that IPVS remembers
		return to, false
	}
	order, err := x.Order(v.Key)
	if err != nil {
		return to, false
	}
	list := make([]dest, 0, len(order))
	for _, a := range order {
		i := slices.IndexFunc(reals, func(r kernel.Real) bool { return r.Key.Addr == a })
		if i < 0 {
			return to, false // the kernel has changed since it was read
		}
		full := slices.ContainsFunc(x.a.Backends, func(b Backend) bool { return b.Address == a && b.Full })
		list = append(list, dest{a, reals[i].Weight, full})
	}
	if len(list) != len(reals) {
		return to, false
	}
	at, ok := choose(v, list, x.p)
	if !ok || at < 0 {
		return to, ok
	}
	return list[at].addr, true
}

// fold is an address as 32 bits: the parts of an IPv6 address are combined.
func fold(a netip.Addr) (sum uint32) {
	for p := a.AsSlice(); len(p) > 0; p = p[4:] {
		sum ^= binary.BigEndian.Uint32(p)
	}
	return sum
}

// smallTable is the number of entries of sh and dh.
const smallTable = 256

// hash32 is hash_32 of linux/hash.h for smallTable.
func hash32(v uint32) uint32 { return v * 0x61C88647 >> 24 }

// port is the source port for schedulers that count it (sh-port, mh-port), else 0.
func port(v kernel.Virtual, p packet.Packet) uint32 {
	if v.Flags&kernel.FlagSched2 == 0 {
		return 0
	}
	return uint32(p.Src.Port())
}

// bySource is sh (ip_vs_sh_reassign, ip_vs_sh_get_fallback). An entry of the table is a real
// server, each with as many entries in a row as its weight.
func bySource(v kernel.Virtual, list []dest, p packet.Packet) (int, bool) {
	var table [smallTable]int
	at, n := 0, uint32(0)
	for i := range table {
		table[i] = at % len(list)
		if n++; n >= list[at%len(list)].weight {
			at, n = at+1, 0
		}
	}
	hash := hash32(port(v, p) + fold(p.Src.Addr()))
	return look(v, list, table[:], hash, func(offset uint32) uint32 { return (offset + hash) % smallTable }), true
}

// byDestination is dh (ip_vs_dh_reassign): all packets to a VIP go to one real server.
func byDestination(_ kernel.Virtual, list []dest, p packet.Packet) (int, bool) {
	at := int(hash32(fold(p.Dst.Addr()))) % len(list)
	if !list[at].usable() {
		return -1, true
	}
	return at, true
}

// look finds a usable real server in a table, at a hash or, if the scheduler may fall back, at the
// hashes of the offsets behind it.
func look(v kernel.Virtual, list []dest, table []int, hash uint32, again func(offset uint32) uint32) int {
	if at := table[hash]; list[at].usable() {
		return at
	}
	if v.Flags&kernel.FlagSched1 == 0 {
		return -1
	}
	size := uint32(len(table))
	for offset := range size {
		if at := table[again((offset+hash)%size)]; list[at].usable() {
			return at
		}
	}
	return -1
}

// largeTable is the number of entries of mh (CONFIG_IP_VS_MH_TAB_INDEX 12), and largeBits how many
// bits of a weight count.
const (
	largeTable = 4093
	largeBits  = 6
)

// The secrets of mh are constants.
const (
	secret1 = 2654435761
	secret2 = 2654446892
)

// byMaglev is mh. The table of a real server whose weight was changed to 0 still has its
// earlier weight, which the kernel does not tell.
func byMaglev(v kernel.Virtual, list []dest, p packet.Packet) (int, bool) {
	if slices.ContainsFunc(list, func(d dest) bool { return d.weight == 0 }) {
		return -1, !slices.ContainsFunc(list, func(d dest) bool { return d.usable() })
	}
	in := port(v, p) + fold(p.Src.Addr())
	hash := siphash(in, secret1) % largeTable
	return look(v, list, maglev(list), hash, func(offset uint32) uint32 {
		return siphash(in+offset, secret1) % largeTable
	}), true
}

// maglev is the table of mh (ip_vs_mh_populate): real servers take turns in taking the next free
// entry of their own permutation, by their weights.
func maglev(list []dest) []int {
	divisor, most := uint32(0), uint32(0)
	for _, d := range list {
		divisor, most = gcd(d.weight, divisor), max(most, d.weight)
	}
	shift := max(0, bits.Len32(most/divisor)-largeBits)
	table, taken := make([]int, largeTable), make([]bool, largeTable)
	next := make([]uint32, len(list))
	for i, d := range list {
		next[i] = siphash(uint32(d.addr.Port())+fold(d.addr.Addr()), secret1) % largeTable
	}
	for n := 0; ; {
		for i, d := range list {
			skip := siphash(uint32(d.addr.Port())+fold(d.addr.Addr()), secret2)%(largeTable-1) + 1
			for range max(1, d.weight/divisor>>shift) {
				for taken[next[i]] {
					next[i] = (next[i] + skip) % largeTable
				}
				table[next[i]], taken[next[i]] = i, true
				if n++; n == largeTable {
					return table
				}
			}
		}
	}
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// siphash is hsiphash of linux/siphash.h on 64 bits, SipHash-1-3, of one number with a key of
// two equal halves.
func siphash(v uint32, key uint64) uint32 {
	s := [4]uint64{key ^ 0x736f6d6570736575, key ^ 0x646f72616e646f6d, key ^ 0x6c7967656e657261, key ^ 0x7465646279746573}
	word := uint64(4)<<56 | uint64(v)
	s[3] ^= word
	round(&s)
	s[0] ^= word
	s[2] ^= 0xff
	for range 3 {
		round(&s)
	}
	return uint32(s[0] ^ s[1] ^ s[2] ^ s[3])
}

// round is SIPROUND.
func round(s *[4]uint64) {
	s[0] += s[1]
	s[1] = bits.RotateLeft64(s[1], 13) ^ s[0]
	s[0] = bits.RotateLeft64(s[0], 32)
	s[2] += s[3]
	s[3] = bits.RotateLeft64(s[3], 16) ^ s[2]
	s[0] += s[3]
	s[3] = bits.RotateLeft64(s[3], 21) ^ s[0]
	s[2] += s[1]
	s[1] = bits.RotateLeft64(s[1], 17) ^ s[2]
	s[2] = bits.RotateLeft64(s[2], 32)
}
