package packet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// modules are the matches whose options are understood, or are puzzles one by one. They hold by themselves.
var modules = map[string]bool{"set": true, "addrtype": true, "mark": true, "conntrack": true, "state": true,
	"physdev": true, "icmp": true, "icmp6": true, "ipvs": true, "tcp": true, "udp": true, "sctp": true,
	"multiport": true, "iprange": true, "statistic": true, "recent": true, "bpf": true, "comment": true}

// match reads the value of an option and returns its condition. One without a function does not change a packet's
// path.
func (p *parser) match(option string) (cond, error) {
	switch option {
	case "-s", "--source", "-d", "--destination":
		return inNetworks(option == "-s" || option == "--source", p.next())
	case "--src-range", "--dst-range":
		return inRanges(option == "--src-range", p.next())
	case "-i", "--in-interface", "-o", "--out-interface":
		return byDevice(option == "-i" || option == "--in-interface", p.next())
	case "-p", "--protocol":
		return ofProtocol(p.next())
	case "--nfproto":
		return ofFamily(p.next())
	case "--sport", "--sports", "--dport", "--dports", "--ports":
		return p.ports(option, p.next())
	case "--ctstate", "--state":
		return inState(p.next())
	case "--syn":
		return flagged("FIN,SYN,RST,ACK", "SYN"), nil
	case "--tcp-flags":
		return flagged(p.next(), p.next()), nil
	}
	switch p.module + " " + option {
	case "set --match-set":
		return p.inSet(p.next(), p.next())
	case "addrtype --src-type", "addrtype --dst-type":
		return addrType(option == "--src-type", p.next())
	case "mark --mark":
		return marked(p.next())
	case "physdev --physdev-is-in":
		return fromBridgePort, nil
	case "icmp --icmp-type", "icmp6 --icmpv6-type":
		return echoRequest(p.next(), p.module == "icmp")
	case "ipvs --vproto", "ipvs --vaddr", "ipvs --vport":
		return balancedFor(option, p.next())
	}
	if p.module == "statistic" || p.module == "recent" || p.module == "bpf" {
		return p.chooses(option)
	}
	return cond{}, fmt.Errorf("option %q is not understood", option)
}

// onEnd is a condition about the address and port of one end.
func onEnd(source bool, holds func(netip.AddrPort) bool, why func(netip.AddrPort, string) string) cond {
	c := cond{needs: Destination, holds: func(v *View) Answer {
		a, _ := v.end(source)
		return yes(holds(a))
	}, why: func(v *View) string { return why(v.end(source)) }}
	if source {
		c.needs = Source
	}
	return c
}

func theAddress(a netip.AddrPort, which string) string {
	return fmt.Sprintf("the %s is %s", which, a.Addr())
}

// inNetworks compares an address with networks, or addresses: 10.0.0.0/8,192.0.2.1.
func inNetworks(source bool, list string) (cond, error) {
	var all []netip.Prefix
	loopback := true
	for text := range strings.SplitSeq(list, ",") {
		network, err := netip.ParsePrefix(text)
		if single, err2 := netip.ParseAddr(text); err2 == nil {
			network, err = single.Prefix(single.BitLen())
		}
		if err != nil {
			return cond{}, fmt.Errorf("%q: want a network", text)
		}
		all, loopback = append(all, network), loopback && network.Addr().IsLoopback()
	}
	c := onEnd(source, func(a netip.AddrPort) bool {
		return slices.ContainsFunc(all, func(n netip.Prefix) bool { return n.Contains(a.Addr()) })
	}, theAddress)
	c.inside = source && loopback
	return c, nil
}

// inRanges compares an address with ranges of addresses: 10.0.0.1-10.0.0.9,10.0.1.1.
func inRanges(source bool, list string) (cond, error) {
	var all [][2]netip.Addr
	for text := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(text, "-")
		if !ranged {
			last = first
		}
		from, err := netip.ParseAddr(first)
		to, err2 := netip.ParseAddr(last)
		if err != nil || err2 != nil {
			return cond{}, fmt.Errorf("%q: want a range of addresses", text)
		}
		all = append(all, [2]netip.Addr{from, to})
	}
	return onEnd(source, func(a netip.AddrPort) bool {
		return slices.ContainsFunc(all, func(r [2]netip.Addr) bool {
			return a.Addr().Is4() == r[0].Is4() && r[0].Compare(a.Addr()) <= 0 && a.Addr().Compare(r[1]) <= 0
		})
	}, theAddress), nil
}

// byDevice compares a device with names, or with + their starts. Packets that the node sends came in by no device.
func byDevice(in bool, list string) (cond, error) {
	names := strings.Split(list, ",")
	if list == "" {
		return cond{}, fmt.Errorf("an option without a device")
	}
	c := cond{needs: Out, inside: list == "lo"}
	device, does := func(v *View) string { return v.Out }, "leaves by "
	if in {
		c.needs, does = In, "came in by "
		device = func(v *View) string { return v.In }
	}
	c.holds = func(v *View) Answer {
		have := device(v)
		return yes(have != "" && slices.ContainsFunc(names, func(name string) bool {
			start, prefix := strings.CutSuffix(name, "+")
			return have == name || prefix && strings.HasPrefix(have, start)
		}))
	}
	c.why = func(v *View) string { return "it " + does + cmp.Or(device(v), "no device") }
	return c, nil
}

// protocols have the numbers of protocols by their names in iptables.
var protocols = map[string]uint8{"icmp": 1, "igmp": 2, "ipencap": 4, "tcp": 6, "udp": 17, "dccp": 33, "ipv6": 41,
	"gre": 47, "esp": 50, "ah": 51, "ipv6-icmp": 58, "icmpv6": 58, "ospf": 89, "vrrp": 112, "sctp": 132, "udplite": 136}

func ofProtocol(list string) (cond, error) {
	var all []uint8
	for name := range strings.SplitSeq(list, ",") {
		number, known := protocols[name]
		if !known {
			if _, err := fmt.Sscanf(name+".", "%d.", &number); err != nil && name != "all" {
				return cond{}, fmt.Errorf("protocol %q is not understood", name)
			}
		}
		all = append(all, number)
	}
	return cond{holds: func(v *View) Answer {
		return yes(slices.Contains(all, v.number()) || slices.Contains(all, 0))
	}, why: func(v *View) string {
		if v.Echo {
			return "it is a ping"
		}
		return "it is " + v.Proto.String()
	}}, nil
}

func ofFamily(name string) (cond, error) {
	f, known := map[string]kernel.Family{"ipv4": kernel.IPv4, "ipv6": kernel.IPv6}[name]
	if !known {
		return cond{}, fmt.Errorf("family %q is not understood", name)
	}
	return cond{holds: func(v *View) Answer { return yes(v.family() == f) },
		why: func(v *View) string { return "it is " + v.family().String() }}, nil
}

// ports compares a port with a list of ports and ranges, 80,8000:8080, and the protocol with that of the module.
func (p *parser) ports(option, list string) (cond, error) {
	var all [][2]uint16
	for text := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(text, ":")
		if !ranged {
			last = first
		}
		var r [2]uint16
		for i, number := range []string{first, last} {
			if number == "" && ranged {
				number = []string{"0", "65535"}[i]
			}
			if _, err := fmt.Sscanf(number+".", "%d.", &r[i]); err != nil {
				return cond{}, fmt.Errorf("%s %q: want ports", option, text)
			}
		}
		all = append(all, r)
	}
	has := func(a netip.AddrPort) bool {
		return slices.ContainsFunc(all, func(r [2]uint16) bool { return r[0] <= a.Port() && a.Port() <= r[1] })
	}
	why := func(a netip.AddrPort, _ string) string { return fmt.Sprintf("its port is %d", a.Port()) }
	source := strings.HasPrefix(option, "--s")
	proto, ofModule := protocols[p.module]
	end, other := onEnd(source, has, why), onEnd(true, has, why)
	return cond{holds: func(v *View) Answer {
		switch {
		case v.Echo || ofModule && v.number() != proto:
			return No
		case option == "--ports":
			return max(end.ask(v), other.ask(v))
		case !source && v.Unknown&HighPort != 0:
			return amongHigh(all)
		}
		return end.ask(v)
	}, why: end.reason}, nil
}

// amongHigh reports whether one of the high ports is in some ranges.
func amongHigh(ranges [][2]uint16) Answer {
	a := No
	for _, r := range ranges {
		switch {
		case r[0] <= lowest && r[1] == highest:
			return Yes
		case r[1] >= lowest:
			a = Unknown
		}
	}
	return a
}

func echoRequest(text string, four bool) (cond, error) {
	number := map[bool]string{true: "8", false: "128"}[four]
	any := text == "any" || text == "255"
	return cond{holds: func(v *View) Answer {
		return yes(v.Echo && (text == number || any || text == "echo-request"))
	}, why: func(v *View) string {
		if v.Echo {
			return "an echo request"
		}
		return "not an echo request"
	}}, nil
}

func marked(text string) (cond, error) {
	value, mask, err := markAndMask(text)
	return cond{needs: Mark, holds: func(v *View) Answer { return yes(v.Mark&mask == value) },
		why: func(v *View) string { return fmt.Sprintf("its mark is %#x", v.Mark) }}, err
}

// flagged compares the flags of a first packet of TCP, or of its first reply, as far as they are in a mask. Those of
// later packets are not known.
func flagged(mask, want string) cond {
	has := func(list, flag string) bool {
		return list == "ALL" || slices.Contains(strings.Split(list, ","), flag)
	}
	return cond{holds: func(v *View) Answer {
		have := []string{"SYN"}
		switch {
		case v.Proto != kernel.TCP:
			return No
		case v.Reply:
			have = append(have, "ACK")
		case v.Established:
			have = []string{"ACK"}
		}
		for _, flag := range []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG"} {
			if has(mask, flag) && has(want, flag) != slices.Contains(have, flag) {
				return No
			}
		}
		return Yes
	}, why: func(v *View) string {
		switch {
		case v.Reply:
			return "its flags are SYN and ACK"
		case v.Established:
			return "its flag is ACK"
		}
		return "its flag is SYN"
	}}
}

// fromBridgePort is physdev's --physdev-is-in. Without br_netfilter it never matches.
var fromBridgePort = cond{needs: theNode, holds: func(v *View) Answer {
	if v.draw == nil && v.Node.Facts.BrNetfilter {
		return Unknown
	}
	return yes(v.BridgePort != "" && v.Node.Facts.BrNetfilter)
}, why: func(v *View) string {
	switch {
	case v.BridgePort == "":
		return "it came in by no bridge port"
	case !v.Node.Facts.BrNetfilter:
		return "bridges do not tell (no br_netfilter)"
	}
	return "it came in by bridge port " + v.BridgePort
}}
