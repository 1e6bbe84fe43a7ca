package packet

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// slots is a choice among endpoints in a map: DNAT --map NAME dst,dst and how a slot is chosen.
type slots struct {
	in       string // the map
	first, n int
	hash     bool
	port     bool // the hash is about the source port, too
	prefix   int  // of the source that it is about; 0 for all of it
	seed     uint32
}

// readSlots reads the options of DNAT --map behind the map's name.
func readSlots(name string, words []string) (s slots, err error) {
	s.in = name
	if len(words) == 0 || words[0] != "dst,dst" {
		return s, fmt.Errorf("the key of map %s is not understood", name)
	}
	for words = words[1:]; len(words) > 1; words = words[2:] {
		option, value := words[0], words[1]
		n, err := uint64(0), error(nil)
		if option != "--hash" {
			n, err = strconv.ParseUint(value, 0, 32)
		}
		switch option {
		case "--random", "--mod":
			s.n = int(n)
		case "--offset":
			s.first = int(n)
		case "--seed":
			s.seed = uint32(n)
		case "--hash":
			source, port, found := strings.Cut(value, ",")
			source, prefix, cut := strings.Cut(source, "/")
			s.hash, s.port = true, found
			if cut {
				s.prefix, err = strconv.Atoi(prefix)
			}
			if source != "src" || found && port != "sport" {
				err = fmt.Errorf("%q is not understood", value)
			}
		default:
			err = fmt.Errorf("option %q is not understood", option)
		}
		if err != nil {
			return s, fmt.Errorf("map %s: %w", name, err)
		}
	}
	if len(words) > 0 || s.n < 1 || s.n > 1<<16 {
		return s, fmt.Errorf("map %s: a choice of %d slots is not understood", name, s.n)
	}
	return s, nil
}

// share is an endpoint with its number of slots.
type share struct {
	to netip.AddrPort
	n  int
}

// shares returns the endpoints that a packet may be sent to, each with its slots, and how many slots are missing. Where
// a hash chooses, one is left.
func (s *slots) shares(v *View) (all []share, missing int) {
	key := kernel.VirtualAt(v.Dst, v.Proto)
	e := kernel.Entry{Set: s.in, Addr: key.Addr, Proto: key.Proto, Port: key.Port, ToPort: 1}
	first, n := s.first, s.n
	if s.hash {
		first, n = first+s.hashed(v), 1
	}
	for slot := first; slot < first+n; slot++ {
		e.Slot = uint16(slot)
		at, found := v.Node.State.Entries.Find(e)
		if !found {
			missing++
			continue
		}
		to := at.To()
		if i := slices.IndexFunc(all, func(a share) bool { return a.to == to }); i >= 0 {
			all[i].n++
		} else {
			all = append(all, share{to, 1})
		}
	}
	return all, missing
}

// hashed returns the number that the kernel's expression hash gives a packet (net/netfilter/nft_hash.c).
func (s *slots) hashed(v *View) int {
	a := v.Src.Addr()
	if s.prefix > 0 {
		network, _ := a.Prefix(s.prefix)
		a = network.Addr()
	}
	key := a.AsSlice()
	if s.port {
		key = append(binary.BigEndian.AppendUint16(key, v.Src.Port()), 0, 0) // fields are padded to 32 bits
	}
	return int(uint64(jhash(key, s.seed)) * uint64(s.n) >> 32)
}

// jhash is Jenkins's hash as Linux has it (linux/jhash.h), on a little-endian processor.
func jhash(k []byte, seed uint32) uint32 {
	a := 0xdeadbeef + uint32(len(k)) + seed
	b, c := a, a
	for ; len(k) > 12; k = k[12:] {
		a += binary.LittleEndian.Uint32(k)
		b += binary.LittleEndian.Uint32(k[4:])
		c += binary.LittleEndian.Uint32(k[8:])
		a, b, c = mixed(a, b, c)
	}
	if len(k) == 0 {
		return c
	}
	var rest [12]byte
	copy(rest[:], k)
	a += binary.LittleEndian.Uint32(rest[:])
	b += binary.LittleEndian.Uint32(rest[4:])
	c += binary.LittleEndian.Uint32(rest[8:])
	c = c ^ b - bits.RotateLeft32(b, 14)
	a = a ^ c - bits.RotateLeft32(c, 11)
	b = b ^ a - bits.RotateLeft32(a, 25)
	c = c ^ b - bits.RotateLeft32(b, 16)
	a = a ^ c - bits.RotateLeft32(c, 4)
	b = b ^ a - bits.RotateLeft32(a, 14)
	return c ^ b - bits.RotateLeft32(b, 24)
}

// mixed is __jhash_mix.
func mixed(a, b, c uint32) (_, _, _ uint32) {
	a -= c
	a ^= bits.RotateLeft32(c, 4)
	c += b
	b -= a
	b ^= bits.RotateLeft32(a, 6)
	a += c
	c -= b
	c ^= bits.RotateLeft32(b, 8)
	b += a
	a -= c
	a ^= bits.RotateLeft32(c, 16)
	c += b
	b -= a
	b ^= bits.RotateLeft32(a, 19)
	a += c
	c -= b
	c ^= bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

// slot chooses an endpoint. found is false if the slot that was drawn is missing.
func (t *tracer) slot(s *slots, v *View) (to netip.AddrPort, found bool) {
	all, missing := s.shares(v)
	rest := missing
	for _, a := range all {
		rest += a.n
	}
	for _, a := range all {
		if a.n == rest || t.draw(float64(a.n)/float64(rest)) {
			return a.to, true
		}
		rest -= a.n
	}
	return netip.AddrPort{}, false
}

// goesTo returns the chain that a map of verdicts has for a packet.
func (h *Node) goesTo(name string, v *View) (chain string, found bool) {
	key := kernel.VirtualAt(v.Dst, v.Proto)
	e, found := h.State.Entries.Find(kernel.Entry{Set: name, Addr: key.Addr, Proto: key.Proto, Port: key.Port})
	return e.Goto, found
}
