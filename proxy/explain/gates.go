package explain

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// Single rules of other programs that drop or reject. A rule is followed if all of its matches
// are understood, else it may hold.

// seen is a packet as a base chain sees it. An address that is not known is zero.
type seen struct {
	proto    kernel.Proto
	src, dst netip.AddrPort
	in, out  string // devices; "" where there is none, or it is not known
	state    string // of connection tracking
	reply    bool   // or any later packet of its connection
	// moved: nat or IPVS may have changed the destination before the chain sees it.
	moved bool
	// outside: the other end is any client outside, at any address and device except loopback ones.
	outside bool
}

// ofAny returns the packet, or the reply, of any client outside if one stands for all.
func (x *explainer) ofAny(p seen) seen {
	if !x.AnySource || x.p.In == "" {
		return p
	}
	if p.src == x.p.Src {
		p.src, p.in = netip.AddrPort{}, ""
	} else {
		p.dst, p.out = netip.AddrPort{}, ""
	}
	p.outside = true
	return p
}

// holds is whether a rule's matches hold for a packet.
type holds uint8

const (
	never holds = iota
	maybe
	always
)

// gate returns the rule at a hook that ends a packet's way, and its chain; zero if none surely
// does. It adds a step for each chain that may.
func (x *explainer) gate(hook, what string, p seen) (g kernel.Gate, r kernel.GateRule) {
	p = x.ofAny(p)
	for _, g := range x.Gates {
		if g.Hook != hook || !g.Sees(x.key.Family()) {
			continue
		}
		r, sure := p.decides(g.Rules, x.key.Family())
		switch {
		case r.Verdict == "":
		case sure:
			return g, r
		default:
			x.step(stageFirewall, "%s at hook %s: may %s %s: %s", g.Name, g.Hook, r.Verdict, what, r.Matches)
		}
	}
	return g, r
}

// decides returns the first rule that drops or rejects the packet, and whether it surely does.
func (p *seen) decides(rules []kernel.GateRule, f kernel.Family) (first kernel.GateRule, sure bool) {
	certain := true
	for _, r := range rules {
		h := p.matches(r.Matches, f)
		if r.Doubtful {
			h = min(h, maybe)
		}
		switch {
		case h == never:
		case r.Verdict == "accept" && h == always:
			return first, false
		case r.Verdict == "accept":
			certain = false
		case h == always && certain:
			return r, true // whatever a rule before it does: that one drops or rejects, too
		case first.Verdict == "":
			first = r
		}
		if h == always && r.Verdict != "accept" {
			break
		}
	}
	return first, false
}

// matches reports whether the matches of a rule hold: text as iptables-save prints it.
func (p *seen) matches(text string, f kernel.Family) holds {
	all, negated := always, false
	words := strings.Fields(kernel.WithoutComment(text))
	for i := 0; i < len(words); i++ {
		option := words[i]
		if option == "!" {
			negated = true
			continue
		}
		h, value := maybe, ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch {
		case option == "-m" && slices.Contains(plainModules, value):
			h = always
		case option == "--tcp-flags" && i+2 < len(words):
			h = p.flags(value, words[i+2])
			i++
		case option == "-m" || !strings.HasPrefix(option, "-"): // or a further value of an option
		default:
			h = p.option(option, value, f)
		}
		if h == always && negated && option != "-m" {
			h = never
		} else if h == never && negated {
			h = always
		}
		negated = false
		if strings.HasPrefix(option, "-") && !strings.HasPrefix(value, "-") && value != "!" {
			i++
		}
		all = min(all, h)
	}
	return all
}

// plainModules match nothing by themselves: their options do.
var plainModules = []string{"tcp", "udp", "sctp", "multiport", "conntrack", "state", "comment"}

// option reports whether an option holds.
func (p *seen) option(option, value string, f kernel.Family) holds {
	switch option {
	case "-p":
		return yes(value == p.proto.String() || value == "all" || value == strconv.Itoa(int(p.proto)))
	case "--nfproto":
		return yes(value == map[kernel.Family]string{kernel.IPv4: "ipv4", kernel.IPv6: "ipv6"}[f])
	case "-i":
		return p.notLoopback(value == "lo", device(value, p.in))
	case "-o":
		return p.notLoopback(value == "lo", device(value, p.out))
	case "--ctstate", "--state":
		return p.tracked(strings.Split(value, ","))
	case "-s":
		return p.notLoopback(loopback(value), within(value, p.src.Addr()))
	case "-d":
		return p.atDestination(within(value, p.dst.Addr()))
	case "--sport", "--sports":
		return ported(value, p.src)
	case "--dport", "--dports":
		return p.atDestination(ported(value, p.dst))
	}
	return maybe
}

// tracked compares the state of connection tracking. A connection that nat changed is also in state
// DNAT or SNAT, which a packet as it is here does not tell.
func (p *seen) tracked(states []string) holds {
	switch {
	case slices.Contains(states, p.state):
		return always
	case slices.Contains(states, "DNAT") || slices.Contains(states, "SNAT"):
		return maybe
	}
	return never
}

// flags compares the flags of a first packet of TCP, or of its reply, as far as they are in a mask.
func (p *seen) flags(mask, want string) holds {
	have := []string{"SYN"}
	if p.reply {
		have = append(have, "ACK")
	}
	has := func(list, flag string) bool {
		return list == "ALL" || slices.Contains(strings.Split(list, ","), flag)
	}
	for _, flag := range []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG"} {
		if has(mask, flag) && has(want, flag) != slices.Contains(have, flag) {
			return never
		}
	}
	return yes(p.proto == kernel.TCP)
}

// atDestination is what a match of the destination tells.
func (p *seen) atDestination(h holds) holds {
	if p.moved {
		return maybe
	}
	return h
}

// notLoopback is what a match tells. No packet of a client outside is on loopback.
func (p *seen) notLoopback(loopback bool, h holds) holds {
	if p.outside && loopback {
		return never
	}
	return h
}

// loopback reports whether a network, or an address, is one of loopback.
func loopback(text string) bool {
	address, _, _ := strings.Cut(text, "/")
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLoopback()
}

func yes(b bool) holds {
	if b {
		return always
	}
	return never
}

// device compares the name of a device, or with + its start.
func device(want, have string) holds {
	start, prefix := strings.CutSuffix(want, "+")
	switch {
	case have == "":
		return maybe
	case prefix:
		return yes(strings.HasPrefix(have, start))
	}
	return yes(want == have)
}

func within(text string, a netip.Addr) holds {
	network, err := netip.ParsePrefix(text)
	if single, err2 := netip.ParseAddr(text); err2 == nil {
		network, err = netip.PrefixFrom(single, single.BitLen()), nil
	}
	if err != nil || !a.IsValid() {
		return maybe
	}
	return yes(network.Contains(a))
}

// ported compares a port with a list of ports and ranges: 80,8000:8080.
func ported(list string, a netip.AddrPort) holds {
	if !a.IsValid() {
		return maybe
	}
	h := never
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, ":")
		if !ranged {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		switch {
		case err != nil || err2 != nil:
			h = max(h, maybe)
		case from <= uint64(a.Port()) && uint64(a.Port()) <= to:
			return always
		}
	}
	return h
}
