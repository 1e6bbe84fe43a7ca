package convert

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// granularity takes the netmask of persistence: a prefix length, or a mask of IPv4.
func (v *virtual) granularity(at sources.Origin, what, text string) {
	bits, of := v.addr.Addr().BitLen(), v.addr.Addr().String()
	if v.mark != 0 {
		if bits, of = 32, "IPv4"; v.ipv6 {
			bits, of = 128, "IPv6"
		}
	}
	n, err := strconv.Atoi(text)
	if a, mistake := netip.ParseAddr(text); mistake == nil && a.Is4() && bits == 32 {
		n, err = leadingOnes(a), nil
	}
	switch {
	case err != nil || n < 1 || n > bits:
		v.noteChange(at, "%s: not a prefix length of %s: a client stays by its address", what, of)
	case bits == 32:
		v.prefix4 = uint8(n % bits)
	default:
		v.prefix6 = uint8(n % bits)
	}
}

// leadingOnes is the prefix length of a mask, -1 if it is none.
func leadingOnes(mask netip.Addr) int {
	ones := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	for n := range 33 {
		if netip.PrefixFrom(ones, n).Masked().Addr() == mask {
			return n
		}
	}
	return -1
}

// flag takes a flag of a scheduler, by a word of ipvsadm.
func (v *virtual) flag(at sources.Origin, word string) {
	switch {
	case strings.HasSuffix(word, "-port"), word == "flag-2":
		v.flags |= sources.FlagPort
	case strings.HasSuffix(word, "-fallback"), word == "flag-1":
		v.flags |= sources.FlagFallback
	default:
		v.note(at, "scheduler flag %s: no scheduler has it", plain(word))
	}
}

// schedulerFlags returns the flags of sh and mh, 0 for those that svcproxy sets anyway. They are as
// configured: with others the kernel's virtual server would be in conflict. check warns if the fallback is
// not among them.
func (v *virtual) schedulerFlags() sources.SchedulerFlags {
	usual, hashes := map[string]sources.SchedulerFlags{"sh": sources.FlagFallback,
		"mh": sources.FlagFallback | sources.FlagPort}[v.scheduler]
	if !hashes || v.flags == usual {
		return 0
	}
	return sources.FlagsGiven | v.flags
}

// oneByOne takes one-packet scheduling, which IPVS has for UDP.
func (v *virtual) oneByOne(at sources.Origin) {
	v.onePacket = v.mark == 0 && v.protocol == sources.UDP
	switch {
	case v.mark != 0:
		v.noteChange(at, "one-packet scheduling: a service by firewall mark does not have it")
	case !v.onePacket:
		v.note(at, "one-packet scheduling: it has no effect over %s", v.protocol)
	}
}
