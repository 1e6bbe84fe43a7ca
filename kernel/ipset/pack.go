package ipset

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/svcproxy/svcproxy/kernel"
)

// packed is an entry of an IPv4 set in two words, for sorting. kernel.Entry is five times as long
// and full of pointers, and sorting it took more instructions than the rest of a reading.
type packed struct {
	key    uint64 // address, protocol and port, in the order of kernel.VirtualKey
	second uint32
	bits   uint8 // of Second, or noSecond
}

const noSecond = 255

func pack(e *kernel.Entry) packed {
	p := packed{key: uint64(number(e.Addr))<<24 | uint64(e.Proto)<<16 | uint64(e.Port), bits: noSecond}
	if e.Second.IsValid() {
		p.second, p.bits = number(e.Second.Addr()), uint8(e.Second.Bits())
	}
	return p
}

func (p packed) entry(set string) kernel.Entry {
	e := kernel.Entry{Set: set, Addr: addr(uint32(p.key >> 24)), Proto: kernel.Proto(p.key >> 16), Port: uint16(p.key)}
	if p.bits != noSecond {
		e.Second = netip.PrefixFrom(addr(p.second), int(p.bits))
	}
	return e
}

// number returns an IPv4 address as a number, and 0 for anything else.
func number(a netip.Addr) uint32 {
	if !a.Is4() {
		return 0
	}
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func addr(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// sortPacked sorts in the order of kernel.Entry. It moves entries between all and spare and returns
// the sorted slice first. Few entries have the same key; these are sorted by Second.
func sortPacked(all, spare []packed) (sorted, other []packed) {
	all, spare = radixSort(all, slices.Grow(spare[:0], len(all))[:len(all)])
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].key == all[i].key {
			j++
		}
		if j-i > 1 {
			slices.SortFunc(all[i:j], func(a, b packed) int {
				return cmp.Or(cmp.Compare(a.second, b.second), cmp.Compare(a.bits, b.bits))
			})
		}
		i = j
	}
	return all, spare
}

// radixSort sorts by the 56 bits of key, one byte at a time from the lowest, from one slice to the
// other and back. A byte that is the same in all keys costs no pass, as those of the network and
// the protocol mostly are.
func radixSort(all, spare []packed) (sorted, other []packed) {
	same, any := ^uint64(0), uint64(0)
	for i := range all {
		same &= all[i].key
		any |= all[i].key
	}
	for shift := 0; shift < 56; shift += 8 {
		if (any&^same)>>shift&0xff == 0 {
			continue
		}
		var next [256]int
		for i := range all {
			next[all[i].key>>shift&0xff]++
		}
		sum := 0
		for b, n := range next {
			next[b] = sum
			sum += n
		}
		for _, p := range all {
			b := p.key >> shift & 0xff
			spare[next[b]] = p
			next[b]++
		}
		all, spare = spare, all
	}
	return all, spare
}
